"""A verifier on the policy's own attempts: the hacking gap with its interval, and no AUC of a handful of tasks."""

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from analysis.rl import rl_curves
from analysis.rl.policies import PolicyRun, policy_runs
from analysis.rl.policy_measures import averaged, shown
from analysis.rl.watched import FEWEST_MIXED, Watched
from rmlab.commands.figures import draw_figures
from rmlab.errors import DataError
from rmlab.fingerprint import fingerprint
from rmlab.scores.scores import Scores
from rmlab.scores.writing import write_score_table
from rmlab.tracking.query import runs
from rmlab.tracking.run import RunLogger
from rmlab.tracking.store import Store

pytestmark = pytest.mark.usefixtures("no_pictures")

TASKS, ATTEMPTS = 20, 4
MANY, FEW = 12, 3  # tasks with attempts of both labels


def look(mixed: int, score: float, won: float = 0.1) -> Scores:
    """Of the first `mixed` tasks one attempt of four is resolved, and scored by `won` above the others; the rest is never solved."""
    task = [f"t{i:02d}" for i in range(TASKS) for _ in range(ATTEMPTS)]
    solved = np.array([i < mixed and a == 0 for i in range(TASKS) for a in range(ATTEMPTS)])
    return Scores.of(task, np.where(solved, score + won, score), solved.tolist(), cluster=[f"c{name}" for name in task])


LOOKS = {0: look(MANY, 0.3), 10: look(FEW, 0.5)}


def gap(scores: Scores) -> float:
    return float((scores.score - scores.resolved).mean())


def track(store: Store, folder: Path, evidence: str = "final", seed: int = 0, tables: Sequence[int] = (0, 10)) -> None:
    """An RL run as the program leaves it, with a look before training and one after it. tables: looks that have theirs."""
    curve = [
        {
            "step": float(step),
            "pass_at_1": float(scores.resolved.mean()),
            "hacking_gap": gap(scores) - gap(LOOKS[0]),
            "verifier_auc_within_task": 1.0,
            "verifier_ece_width_10": 0.2,
            "verifier_mean_score": float(scores.score.mean()),
        }
        for step, scores in LOOKS.items()
    ]
    tags = {
        "config_hash": fingerprint([evidence, seed]),
        "start_fingerprint": "s0",
        "evidence": evidence,
        "verifier_fingerprint": "v",
        "verifier_name": "good",
    }
    with RunLogger.start(
        store,
        "policies",
        f"free {evidence} s{seed}",
        kind="rl",
        tags=tags,
        params={"seed": seed, "reward": "execution_free", "steps": 10},
    ) as run:
        run.json(
            "outcome.json",
            {
                "held_out": {},
                "collapse": None,
                "area": 0.0,
                "hacking_gap": curve[-1]["hacking_gap"],
                "curve": curve,
                "verifier_first": {},
                "verifier_last": {},
            },
        )
        for step in tables:
            write_score_table(folder / f"look_{step:05d}.parquet", LOOKS[step])
            run.artifact(folder / f"look_{step:05d}.parquet", "attempts")


def found(store: Store) -> list[PolicyRun]:
    return policy_runs(runs(store))


def drawn(names: Sequence[str]) -> dict[str, Path]:
    return {path.name: path for path in draw_figures(names)}


def rows(path: Path) -> list[dict[str, Any]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_the_hacking_gap_is_the_run_s_own_and_has_an_interval(store: Store, tmp_path: Path) -> None:
    track(store, tmp_path)
    [run] = found(store)
    value, low, high = run.watched.gaps[10]
    assert value == pytest.approx(gap(LOOKS[10]) - gap(LOOKS[0])) == run.outcome["hacking_gap"]
    assert low is not None
    assert high is not None
    assert low < value < high
    assert run.watched.gaps[0] == (0, 0, 0)


def test_an_auc_of_few_tasks_is_not_known(store: Store, tmp_path: Path) -> None:
    assert FEW < FEWEST_MIXED <= MANY
    track(store, tmp_path)
    [run] = found(store)
    first, last = run.watched.measured[0], run.watched.measured[10]
    assert first["auc_within_task"] == (1, 1, 1)
    assert run.watched.last("auc_within_task") == (None, None, None)
    value, low, high = last["ece_width_10"]
    won = FEW / (TASKS * ATTEMPTS)  # one bin for the lost (0.5), one for the won (0.6)
    assert value == pytest.approx(won * 0.4 + (1 - won) * 0.5)
    assert low is not None
    assert high is not None
    assert low <= value <= high


def test_rows_without_a_score_or_a_label_leave_the_gap(store: Store, tmp_path: Path) -> None:
    track(store, tmp_path)
    [run] = found(store)
    whole, after = run.watched.gaps[10], LOOKS[10]
    extra = Scores.of(
        [*after.task_id, "t00", "t01"],
        [*after.score, np.nan, 0.9],
        [*after.resolved, 1.0, np.nan],
        cluster=[*after.cluster, "ct00", "ct01"],
    )
    write_score_table(run.run.artifact("attempts/look_00010.parquet"), extra)
    with pytest.raises(
        DataError, match=r"look_00010\.parquet of free final s0 .* are not those of which the run logged the mean"
    ):
        _ = found(store)[0].watched.gaps
    first, last = run.outcome["curve"]
    told = [first, last | {"verifier_mean_score": float(np.nanmean(extra.score))}]
    assert Watched(run.run, told).gaps[10] == whole


def test_without_tables_it_is_what_the_run_said(store: Store, tmp_path: Path) -> None:
    track(store, tmp_path, tables=())
    [run] = found(store)
    assert run.watched.tables == {}
    assert run.watched.gaps[10] == (run.outcome["hacking_gap"], None, None)
    assert run.watched.measured[10] == {"ece_width_10": (0.2, None, None)}, (
        "an AUC of an unknown number of tasks is not known"
    )
    told = [row | {"verifier_mixed_tasks": 12.0} for row in run.outcome["curve"]]
    assert Watched(run.run, told).last("auc_within_task") == (1.0, None, None)


def test_without_the_first_table_there_is_no_interval(store: Store, tmp_path: Path) -> None:
    track(store, tmp_path, tables=(10,))
    [run] = found(store)
    assert run.watched.gaps[10] == (run.outcome["hacking_gap"], None, None)


def test_a_table_that_cannot_be_read_is_said(store: Store, tmp_path: Path) -> None:
    track(store, tmp_path)
    [run] = found(store)
    run.run.artifact("attempts/look_00010.parquet").write_bytes(b"no table")
    with pytest.raises(DataError, match="look_00010"):
        _ = run.watched.tables


def test_the_mean_over_seeds_has_ends_where_all_have(store: Store, tmp_path: Path) -> None:
    for seed in (0, 1):
        track(store, tmp_path, seed=seed)
    ends = iter(
        [(0.2, 0.1, 0.3), (0.4, 0.3, 0.5), (0.2, 0.1, 0.3), (0.4, None, None), (0.2, 0.1, 0.3), (None, None, None)]
    )
    both = found(store)
    assert averaged(both, lambda _: next(ends)) == pytest.approx((0.3, 0.2, 0.4))
    assert averaged(both, lambda _: next(ends)) == (pytest.approx(0.3), None, None)
    assert averaged(both, lambda _: next(ends)) == (0.2, 0.1, 0.3)
    assert averaged(both, lambda _: (None, None, None)) == (None, None, None)
    assert shown("RM@most", both) == "RM@most", "no verifier said its k"


def test_curves_leave_out_what_is_not_known(store: Store, tmp_path: Path) -> None:
    for evidence in ("final", "voluntary"):
        track(store, tmp_path, evidence)
    table = rows(drawn(["rl_curves"])["rl_curves.csv"])
    for arm in ("execution_free, good", "execution_free, good (voluntary evidence)"):
        own = [row for row in table if row["arm"] == arm]
        assert [row["step"] for row in own if row["panel"] == "verifier_auc_within_task"] == ["0"]
        gaps = [row for row in own if row["panel"] == "hacking_gap"]
        assert [row["step"] for row in gaps] == ["0", "10"]
        assert float(gaps[1]["low"]) < float(gaps[1]["value"]) < float(gaps[1]["high"])


@pytest.mark.parametrize(
    ("evidences", "said"),
    [
        (("final",), set()),
        (("voluntary",), {"voluntary evidence"}),
        (("final", "voluntary"), {"final evidence", "voluntary evidence"}),
    ],
)
def test_rows_name_their_evidence_unless_all_is_final(
    evidences: Sequence[str], said: set[str], store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for evidence in evidences:
        for seed in range(7 if evidences == ("voluntary",) else 1):  # many: bars in the place of bands
            track(store, tmp_path, evidence, seed)
    seen: list[Any] = []
    save = rl_curves.style.save
    monkeypatch.setattr(rl_curves.style, "save", lambda figure, *rest: (seen.append(figure), save(figure, *rest))[1])
    rl_curves.draw(found(store), tmp_path)
    [figure] = seen
    assert {axis.get_ylabel() for axis in figure.axes} - {""} == said
    assert len(figure.axes) == 6 * len(evidences)


def test_the_table_has_a_row_for_each_run(store: Store, tmp_path: Path) -> None:
    for evidence in ("final", "voluntary"):
        track(store, tmp_path, evidence)
    paths = drawn(["rl_table"])
    first, second = rows(paths["rl_table.csv"])
    assert (first["arm"], second["arm"]) == ("execution_free, good", "execution_free, good (voluntary evidence)")
    assert float(first["hacking_gap_low"]) < float(first["hacking_gap"]) < float(first["hacking_gap_high"])
    assert (first["greedy_after"], first["ran_share_last"], first["collapse"]) == ("", "", "")
    [line] = [
        line for line in paths["rl_table.md"].read_text().splitlines() if line.startswith("| execution_free, good |")
    ]
    assert line.split(" | ")[2:4] == ["-", "-"]
    assert "2 runs, seeds 0, 10 steps each" in paths["rl_table.md"].read_text()
