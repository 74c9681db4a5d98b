"""What came out of a sweep, in five lines of plain words: what was varied, found, not shown, where to look, and where the table is.

All of it is computed from the runs: levels, seeds, values and tests. "Not shown" says how large a difference the tests would have
shown, so that nobody takes it for "no difference".
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analysis.presentation.metric_names import SCALARS
from analysis.sweep import level_tests, level_words, rules
from analysis.sweep.tracked import SweepRuns, mean_over_seeds
from analysis.verifiers import sweep_table
from rmlab.metrics.sweep_levels import distinct
from rmlab.wording import counted, estimate, listed, number

if TYPE_CHECKING:
    from analysis.rl.policies import PolicyRun
    from rmlab.sweep.spec import SweepSpec

FIRST = ("rm_at_k", "across_policies", "discrimination_calibration", "rl_curves", "pareto")
"""Figures to look at before the others."""


def of_verifiers(group: SweepRuns) -> list[str]:
    """Three lines: what was varied, what was found, and what was not shown; a fourth where the numbers rest on little."""
    seeds = sorted({len(group.at(level, arm)) for level in group.levels for arm in group.arms} - {0})
    many = counted(seeds[-1], "seed") if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]} seeds"
    arms = f", each in the arms {listed(group.arms)}" if len(group.arms) > 1 else ""
    baseline = f" (compared with {group.baseline})" if group.baseline in group.levels and len(group.levels) > 1 else ""
    varied = f"{group.factor} = {listed(group.levels)}{baseline}{arms}; {many} each, {counted(len(group.cells), 'run')}"
    return [
        f"Varied: {varied}; everything else was the same.",
        f"Found: {' '.join(filter(None, (_differences(group), _values(group))))}",
        f"Not shown: {_not_shown(group)}",
        *([f"Beware: {' '.join(beware)}"] if (beware := group.cautions()) else []),
    ]


def of_policies(spec: "SweepSpec", policies: "Sequence[PolicyRun]") -> list[str]:
    """Three lines on runs of RL, which are compared with their own start and not with each other."""
    from analysis.rl.policy_measures import OUTCOMES
    from rmlab.metrics.uncertainty import too_few

    unknown = [
        run
        for run in policies
        if run.outcome["collapse"] is not None and too_few(run.outcome["held_out"]["all"]["sampled"])
    ]
    arms: dict[str, list[PolicyRun]] = {}
    for policy in policies:
        arms.setdefault(policy.label, []).append(policy)
    gained = []
    for label, of_arm in arms.items():
        values = {i: value for i, run in enumerate(of_arm) if (value := OUTCOMES["pass@1 gained"](run))[0] is not None}
        if values:
            mean = sum(value for value, _, _ in values.values() if value is not None) / len(values)
            ends = [(low, high) for i, (_, low, high) in values.items() if of_arm[i] not in unknown]
            off = sum(low is not None and high is not None and (low > 0 or high < 0) for low, high in ends)
            known = f"its interval off 0 in {off}" if ends else "too few tasks for an interval"
            gained.append(f"{label} {mean:+.3f} ({counted(len(values), 'seed')}, {known})")
    judged = [run for run in policies if run not in unknown]
    collapsed = sum(bool(policy.outcome["collapse"]) for policy in judged)
    also = f"; of {len(unknown)} that is not known, from so few tasks" if unknown else ""
    seeds = sorted({len(of_arm) for of_arm in arms.values()})
    many = counted(seeds[-1], "seed") if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]} seeds"
    found = (
        f"pass@1 on held-out tasks, after training less before: {'; '.join(gained)}." if gained else "no held-out task."
    )
    return [
        f"Varied: {spec.factor} = {listed(list(arms))}; {many} each, {counted(len(policies), 'run')}; everything else was the same.",
        f"Found: {found} {counted(collapsed, 'run')} of {len(judged)} collapsed{also}.",
        "Not shown: whether these differ from each other: each run is tested against its own start, over tasks; what another seed "
        "would give is in the spread of seeds alone.",
    ]


def of_trials(spec: "SweepSpec", rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Three lines on a search. rows: of its table."""
    assert spec.search is not None
    best = [row for row in rows if row["best"]]
    settings = list(spec.search.space)
    trials = [
        f"trial {row['trial']} ({', '.join(f'{name}={_short(row[name])}' for name in settings if name in row)}): "
        + ", ".join(f"{name} {_short(row[name])}" for name in spec.search.objectives)
        for row in best[:3]
    ]
    more = f"; and {len(best) - 3} more" if len(best) > 3 else ""
    found = (
        f"no other trial is better in every objective than {'; '.join(trials)}{more}."
        if trials
        else "no trial is complete yet."
    )
    return [
        f"Varied: {listed(settings)} in {counted(len(rows), 'trial')}, {counted(len(spec.seeds), 'seed')} each; "
        "everything else was the same.",
        f"Found: {found}",
        "Not shown: that these are better than the others: trials are judged on the validation part and not tested. Make the best "
        "ones levels of a sweep with 3 seeds or more.",
    ]


def where_to_look(folder: Path, ui: str, table: Path) -> list[str]:
    """The last two lines. ui: the command that shows the runs, and its address."""
    pictures = sorted(folder.rglob("*.png"))
    first = next((path for name in FIRST for path in pictures if path.stem == name), None)
    start = f", {first.relative_to(folder)} first" if first else ""
    return [f"Look: {counted(len(pictures), 'figure')} in {folder}{start}; the runs: {ui}", f"Table: {table}"]


def _differences(group: SweepRuns) -> str:
    shown = [
        f"{level_tests.metric_words(group, metric)} is {level_tests.verdict(test)} at {level_words.place(group, arm, level)} "
        f"({estimate(test.difference, test.ci95, signed=True)})"
        for (arm, level, metric), test in group.tests.items()
        if test.shown
    ]
    return f"compared with {group.baseline}, {listed(shown)}." if shown else ""


def _spoken_of(group: SweepRuns) -> tuple[str, str]:
    """The arm and the level whose worth is told: the largest level, or the baseline where levels are words."""
    level = group.levels[-1] if group.numbers or group.baseline not in group.levels else group.baseline
    return next((arm for arm in group.arms if group.at(level, arm)), group.arms[0]), level


def _values(group: SweepRuns) -> str:
    """What the verifier of one level is worth."""
    arm, level = _spoken_of(group)
    cells, k = group.at(level, arm), level_tests.largest_k(group)
    report = cells[0].report
    said = []
    if picked := mean_over_seeds(cells, group.reported("rm_at_k"), k):
        beside = [f"any attempt {_percent(report['pass_at_k']['1'])}"] if not group.across else []
        if best := (report["pass_at_k"].get(k) if not group.across else None):
            beside.append(f"a perfect verifier {_percent(best)}")
        if weighted := mean_over_seeds(cells, "rm_at_k_weighted", k):
            beside.append(f"the patch with the largest sum of scores {_percent(weighted[0])}")
        ends = "" if picked[1] != picked[1] else f" (95 % interval {_percent(picked[1])} to {_percent(picked[2])})"
        others = f"; {', '.join(beside)}" if beside else ""
        said.append(f"the best-scored of {k} attempts is resolved in {_percent(picked[0])}{ends}{others}")
    for metric in ("auc_within_task", "auc_within_task_patches", "ece_width_10"):
        if value := mean_over_seeds(cells, group.reported(metric)):
            across = "" if group.reported(metric) == metric else " across policies"
            few = sweep_table.on_few(cells, group.reported(metric))
            said.append(f"{SCALARS[metric]}{across} {value[0]:.3f}{few}")
    for path in sweep_table.beside_across(group).values():
        if value := mean_over_seeds(cells, *path):
            known = value[1] == value[1]  # NaN: no interval
            said.append(f"{sweep_table.across_words(path)} {estimate(value[0], value[1:] if known else None)}")
    return f"At {level_words.place(group, arm, level)} {'; '.join(said)}." if said else ""


def _not_shown(group: SweepRuns) -> str:
    tested = {place: test for place, test in group.tests.items() if test.p is not None}
    hidden = {place: test for place, test in tested.items() if not test.shown}
    if not tested:
        text = f"whether levels differ. {level_tests.note(group)}"
    elif hidden:
        of_metric: dict[str, list[str]] = {}
        for arm, level, metric in hidden:
            of_metric.setdefault(level_tests.metric_words(group, metric), []).append(
                level_words.place(group, arm, level)
            )
        places = "; ".join(f"{words} at {listed(at)}" for words, at in of_metric.items())
        counts = [
            len(distinct(list(tests.values()))) for tests in (hidden, tested)
        ]  # what compares the same runs again is one
        text = f"{counts[0]} of {counts[1]} differences from {group.baseline}: {places}."
        if power := level_words.power(group, list(hidden.values())).text:
            text += f" {power}"
    else:
        text = f"nothing: all {len(distinct(list(tested.values())))} differences from {group.baseline} are shown."
    arm, level = _spoken_of(group)
    if above := rules.not_above(group, arm, level, group.reported("auc_within_task")):
        least = listed([f"{name.replace('_', ' ')} ({number(value)})" for name, value in above.items()])
        text += (
            f" That AUC within task at {level_words.place(group, arm, level)} lies above {least} is not shown either."
        )
    return text


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _short(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
