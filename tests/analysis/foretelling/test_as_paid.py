"""How near the advantages of what is paid come to those of the labels: by the definition, and beside the outcome on made-up runs."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import spearmanr

from analysis.foretelling.answering import answer
from analysis.foretelling.as_paid import as_paid, cosine_as_paid
from analysis.foretelling.estimates import GOOD
from analysis.foretelling.runs import PaidRun, read_study
from analysis.foretelling.tables import markdown
from analysis.rl.policies import PolicyRun
from rmlab.scores.scores import Scores
from rmlab.scores.writing import write_score_table
from tests.analysis.foretelling.made_study import ALL_CELLS, CELLS, PLAN, MadeRun, configured, made_runs

ATTEMPTS = 6


def table_of(knows: float, seed: int = 0, wide: float = 0.25) -> Scores:
    """The pool of a verifier: attempts of both starts and of others. knows: how much of a score is the label. wide: of the noise."""
    rng = np.random.default_rng(seed)
    rows = [
        (f"t{t}", policy) for policy in ("a_plain", "b_plain", "silent") for t in range(25) for _ in range(ATTEMPTS)
    ]
    label_N = rng.random(len(rows)) < np.repeat(rng.choice([0.0, 0.3, 0.7], len(rows) // ATTEMPTS), ATTEMPTS)
    score_N = np.clip(0.5 + knows * (label_N - 0.5) + wide * (rng.random(len(rows)) - 0.5), 0.001, 0.999)
    made = Scores.of([task for task, _ in rows], score_N, label_N.tolist())
    return replace(made, policy=np.array([policy for _, policy in rows]))


def payer(folder: Path, scores: Scores | None, name: str = "balanced-6000") -> Any:
    """The run that trained a verifier, with its score table if it kept one."""
    cell = next(cell for cell in ALL_CELLS if cell["kind"] == "verifier" and cell["name"] == name)
    files: dict[str, Any] = {"config.yaml": configured(cell)}
    if scores is not None:
        files["scores.parquet"] = folder / f"{name}.parquet"
        write_score_table(files["scores.parquet"], scores)
    return MadeRun(name, name, {}, {}, files, folder)


def paid(folder: Path, scores: Scores | None, cell_name: str, changes: Mapping[str, Any] | None = None) -> PaidRun:
    """A run of the plan that a verifier with these scores pays. changes: to its configuration, by section and key."""
    cell = next(cell for cell in CELLS if cell["name"] == cell_name)
    config = configured(cell)
    for key, value in (changes or {}).items():
        section, _, name = key.partition(".")
        config[section][name] = value
    run: Any = MadeRun(cell_name, "r", {}, {}, {"config.yaml": config}, folder)
    return PaidRun(cell, PolicyRun(run, payer(folder, scores)))


def by_definition(scores: Scores, policy: str, reward: Callable[[Any, Any], Any], floor: float | None = 0.25) -> float:
    """Both sides' advantages task by task. floor: None = not divided by the standard deviation."""
    sides: tuple[list[float], list[float]] = ([], [])
    for task in sorted(set(scores.task_id)):
        own = (scores.task_id == task) & (scores.policy == policy)
        own &= ~np.isnan(scores.score) & ~np.isnan(scores.resolved)
        for side, value in zip(
            sides, (reward(scores.score[own], scores.resolved[own]), scores.resolved[own]), strict=True
        ):
            side += list((value - value.mean()) / (1 if floor is None else max(value.std(), floor)))
    return float(np.dot(*sides) / np.sqrt(np.dot(sides[0], sides[0]) * np.dot(sides[1], sides[1])))


ALONE, BOTH = "execution_free_balanced-6000_b_s0", "hybrid_balanced-6000_b_s0"


def bent(score: Any, slope: float) -> Any:
    return 1 / (1 + np.exp(-slope * np.log(score / (1 - score))))


@pytest.mark.parametrize(
    ("cell", "changes", "reward", "floor"),
    [
        (ALONE, {}, lambda s, y: s, 0.25),
        (BOTH, {}, lambda s, y: y + s, 0.25),
        (BOTH, {"reward.weight": 0.5}, lambda s, y: y + 0.5 * s, 0.25),
        (BOTH, {"reward.transform": {"slope": 3.0}}, lambda s, y: y + bent(s, 3.0), 0.25),
        (ALONE, {"algorithm.std_floor": 0.02}, lambda s, y: s, 0.02),
        (BOTH, {"algorithm.scale": "none"}, lambda s, y: y + s, None),
        (BOTH, {"reward.offset": -1.0, "reward.factor": 4.0, "algorithm.std_floor": 1.0}, lambda s, y: y + s, 0.25),
    ],
)
def test_the_cosine_is_that_of_what_the_run_is_paid(
    cell: str, changes: dict[str, Any], reward: Callable[[Any, Any], Any], floor: float | None, tmp_path: Path
) -> None:
    scores = table_of(0.3)
    scores.score[160], scores.resolved[170] = np.nan, np.nan  # of start b
    expected = by_definition(scores, "b_plain", reward, floor)
    assert cosine_as_paid(paid(tmp_path, scores, cell, changes)) == pytest.approx(expected)
    assert expected < 0.999
    assert expected != pytest.approx(by_definition(scores, "a_plain", reward, floor), abs=1e-6)


def test_a_verifier_that_says_the_same_of_all_attempts_changes_little_of_what_execution_pays(tmp_path: Path) -> None:
    weak, loud = table_of(0.0, wide=0.02), table_of(0.0, wide=0.9)
    assert cosine_as_paid(paid(tmp_path, weak, BOTH)) > 0.99
    assert cosine_as_paid(paid(tmp_path, loud, BOTH)) < 0.9
    assert abs(cosine_as_paid(paid(tmp_path, weak, ALONE))) < 0.3


def test_what_is_not_known_is_nan(tmp_path: Path) -> None:
    scores = table_of(0.3)
    assert np.isnan(cosine_as_paid(paid(tmp_path, None, BOTH)))
    assert np.isnan(cosine_as_paid(paid(tmp_path, scores, BOTH, {"reward.transform": {"difficulty": 1.0}})))
    assert np.isnan(cosine_as_paid(paid(tmp_path, scores, BOTH, {"reward.mode": "execution"})))
    assert np.isnan(cosine_as_paid(paid(tmp_path, scores, BOTH, {"reward.calibration": "platt"}))), (
        "no validation scores"
    )
    of_others = replace(scores, policy=np.where(scores.policy == "b_plain", "b_hot", scores.policy))
    assert np.isnan(cosine_as_paid(paid(tmp_path, of_others, BOTH)))
    alone = paid(tmp_path, scores, BOTH)
    assert np.isnan(cosine_as_paid(PaidRun(alone.cell, PolicyRun(alone.policy.run))))


def test_it_stands_beside_the_outcome_in_rows_and_table_without_a_p(tmp_path: Path) -> None:
    """The more of a score is the label, the better the outcome of the verifier alone; the hybrid has too few tables."""
    runs = []
    made = made_runs(tmp_path, 0.8, blocks="execution_free hybrid")
    for place, run in enumerate(made):
        cell = next(cell for cell in CELLS if cell["name"] == run.run.name)
        outcome = run.outcome["held_out"]["all"]["sampled"]["after"]
        folder = tmp_path / run.run.name
        folder.mkdir()
        table = (
            table_of(max(2 * outcome, 0), seed=place, wide=0.9)
            if cell["block"] == "execution_free" or place < 39
            else None
        )
        runs.append(PolicyRun(run.run, payer(folder, table, cell["verifier"])))
    study = read_study(runs, PLAN)
    assert len(study.taken) == 48
    found = answer(study)
    assert list(found.as_paid) == ["execution_free"], "of the hybrid 15 are known"
    one, free = found.as_paid["execution_free"], study.of("execution_free")
    cosines = [cosine_as_paid(run) for run in free]
    assert one.relation.rho is not None
    assert one.relation.rho > 0.6
    assert (one.least, one.most) == (min(cosines), max(cosines))
    rows = [row for row in found.rows() if row["kind"].startswith("as_paid")]
    good = {
        start: [
            i for i, run in enumerate(free) if run.cell["start"] == start and run.verifier["auc_within_task"] >= GOOD
        ]
        for start in "ab"
    }
    assert [(row["kind"], row["n"]) for row in rows] == [
        ("as_paid", 24),
        ("as_paid_range", 24),
        ("as_paid_by_start", 12),
        ("as_paid_by_start", 12),
        ("as_paid_by_start_good", len(good["a"])),
        ("as_paid_by_start_good", len(good["b"])),
    ]
    assert 4 <= len(good["a"]) < 12
    assert [row["value"] for row in rows[4:]] == [
        pytest.approx(spearmanr([cosines[i] for i in own], [free[i].outcome for i in own]).statistic)
        for own in good.values()
    ]
    assert all(row["block"] == "execution_free" and "p" not in row for row in rows)
    assert (rows[0]["value"], rows[0]["low"], rows[0]["high"]) == (
        one.relation.rho,
        one.relation.low,
        one.relation.high,
    )
    assert np.mean([row["value"] for row in rows[2:4]]) == pytest.approx(one.relation.rho, abs=0.1)
    text = markdown(study, found)
    line = f"| advantage cosine of the reward as it is paid and pass@1 | {one.relation.rho:+.2f} [{one.relation.low:+.2f}, "
    assert text.count("advantage cosine of the reward as it is paid") == 5
    assert line in text
    assert f"as it is paid and pass@1, start b | {rows[3]['value']:.2f} | 12 |" in text
    assert f"as it is paid and pass@1, start b, AUC 0.70 or more | {rows[5]['value']:.2f} | {len(good['b'])} |" in text
    assert as_paid(free[:15]) is None
