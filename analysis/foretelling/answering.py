"""What do the runs of which_metric_foretells_rl allow to say? The statistics of its plan, put together.

One verifier is one training is one unit; ranks are taken within a start. Where fewer than FEWEST verifiers of a block have an outcome,
nothing is concluded of that block.
"""

from analysis.foretelling.answer import Answer
from analysis.foretelling.as_paid import as_paid
from analysis.foretelling.beside_execution import beside_execution
from analysis.foretelling.causal import causal
from analysis.foretelling.design import faults
from analysis.foretelling.ends import ends
from analysis.foretelling.estimates import (
    FACTORIAL,
    FEWEST,
    METRICS,
    PRIMARY,
    corrected,
    correlation_of,
    exploratory,
    regrets,
    regrets_by_start,
    relations_of,
    rivals,
    with_both,
    with_second_seeds,
)
from analysis.foretelling.plan import ROLES
from analysis.foretelling.reruns import rerun_spread, reruns
from analysis.foretelling.runs import Study, column
from analysis.foretelling.sentences import PAYS, sentences
from analysis.rl.rank_statistics import Interval, Relation


def answer(study: Study) -> Answer:
    """All of it."""
    relations, over, given = dict[str, dict[str, Relation]](), dict[str, Interval](), dict[str, list[Interval]]()
    for block in FACTORIAL:
        runs = study.of(block)
        relations[block] = relations_of(runs) if len(runs) >= FEWEST else {}
        if relations[block] and len(both := with_both(runs)) >= FEWEST:
            over[block], given[block] = rivals(both)
    enough = {block: runs for block in FACTORIAL if len(runs := study.of(block)) >= FEWEST}
    free = study.of("execution_free")
    found = Answer(
        relations,
        corrected(relations),
        over,
        given,
        {block: regrets(runs) for block, runs in enough.items()},
        {block: regrets_by_start(runs) for block, runs in enough.items()},
        causal(study),
        *with_second_seeds(study),
        correlation_of(
            column(study.of("voluntary"), PRIMARY),
            [run.outcome for run in study.of("voluntary")],
            [run.start for run in study.of("voluntary")],
        ),
        {
            name: correlation_of(column(free, PRIMARY), column(free, name), [run.start for run in free])
            for name in METRICS
            if name != PRIMARY
        },
        ends(study),
        {block: exploratory(runs) for block, runs in enough.items()},
        _faults(study),
        {block: (len(study.of(block)), study.planned(block)) for block in study.blocks}
        | {"all": (len(study.taken), len(study.cells))},
        {role or "all": spread for role in (None, *ROLES) if (spread := rerun_spread(study, role)) is not None},
        reruns(study),
        {block: one for block, runs in enough.items() if (one := as_paid(runs)) is not None},
        beside_execution(study),
    )
    return Answer(**{**vars(found), "sentences": sentences(study, found)})


def _faults(study: Study) -> list[str]:
    """What the design wants and the verifiers of `execution_free` have not; and those of `hybrid`, which were trained again, where they are
    enough to conclude something of that block."""
    found = faults([run.verifier for run in study.of("execution_free")], "have an outcome")
    rows = [run.verifier for run in study.of("hybrid")]
    if len(rows) >= FEWEST:
        found += [f"Where {PAYS['hybrid']}: {fault}" for fault in faults(rows, "have an outcome")]
    return found
