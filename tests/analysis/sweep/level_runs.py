"""Made-up runs of verifiers at the levels of a sweep, whose differences are known."""

from functools import cache

import numpy as np

from analysis.sweep.tracked import group_runs
from rmlab.fingerprint import fingerprint
from rmlab.metrics.report import report
from rmlab.scores.scores import Scores
from rmlab.scores.writing import write_score_table
from rmlab.tracking.query import runs
from rmlab.tracking.run import RunLogger

TASKS = 24


@cache
def measured(seed, quality, place):
    """Scores and their report: the labels and the luck of attempts are those of all runs, noise and quality its own."""
    rng = np.random.default_rng(0)
    label, shared = rng.random(TASKS * 4) < 0.5, rng.normal(size=TASKS * 4)
    own = np.random.default_rng([seed, place]).normal(0, 0.4, TASKS * 4)
    names = np.repeat([f"t{i}" for i in range(TASKS)], 4)
    scores = Scores.of(names, 1 / (1 + np.exp(-(quality * (label - 0.5) + shared + own))), label)
    return scores, report(scores, replicates=20)


def track(store, folder, factor, level, seed, quality, *, place, baseline, arm="", control="c0"):
    """One verifier run."""
    scores, found = measured(seed, quality, place)
    write_score_table(folder / "scores.parquet", scores)
    tags = {
        "sweep": factor,
        "preset": "smoke",
        "factor": factor,
        "level": level,
        "arm": arm,
        "baseline": baseline,
        "place": str(place),
        "config_hash": fingerprint([factor, level, seed, arm, control]),
        "control_hash": control,
    }
    with RunLogger.start(
        store, factor, f"{factor}={level} s{seed}", kind="verifier", tags=tags, params={"seed": seed}
    ) as run:
        run.json("report.json", found)
        run.json("baselines.json", {})
        run.artifact(folder / "scores.parquet")
    return scores


def the_group(store, sweep="mixture"):
    [group] = [g for g in group_runs(runs(store, tags={"kind": "verifier"})) if g.sweep == sweep]
    return group
