"""The study of which metric foretells RL, on made-up runs whose answer is known."""

import csv
import json
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from analysis import foretelling, foretelling_answer, foretelling_plan, foretelling_runs
from analysis.captions import Caption, latex, write_captions
from analysis.foretelling_answer import ANY, METRICS, PRIMARY, RIVAL, Answer, answer
from analysis.foretelling_causal import moved
from analysis.foretelling_design import faults
from analysis.foretelling_plan import Plan, read_plan, settings, shared
from analysis.foretelling_runs import Study, by_end, changes_scores, read_study
from analysis.policies import PolicyRun, policy_runs
from experiments.studies.which_metric_foretells_rl import design
from rmlab.commands.figures import draw_figures
from rmlab.errors import MissingArtifact
from rmlab.fingerprint import fingerprint
from rmlab.tracking.bundles.exporting import export_runs
from rmlab.tracking.run import RunLogger
from rmlab.tracking.run_index import RunInfo
from rmlab.tracking.store import Store

ALL_CELLS = read_plan().cells
CELLS = [cell for cell in ALL_CELLS if cell["kind"] == "rl"]
FITTED = {
    **{(f"{kind}_{name}", "good"): "1.5" for kind in ("SLOPE", "SHIFT") for name in design.DISTORTIONS},
    **{(f"SLOPE_within_{role}", role): "0.5" for role in ("good", "poor")},
    ("good", "good"): "balanced-4000",
    ("poor", "poor"): "balanced-500",
}
"""What is fitted to a verifier, whose run has the name of its cell or role here."""
TRAINED = {c["name"]: c["name"] for c in ALL_CELLS if c["kind"] == "verifier"} | {
    "good": "balanced-4000",
    "poor": "balanced-500",
}
PLAN = Plan(ALL_CELLS, FITTED, TRAINED)
TASKS = [f"t{i}" for i in range(60)]
ECE_OF = {"balanced": 0.06, "mostly_unresolved": 0.15, "mostly_resolved": 0.32, "overconfident": 0.22}


@dataclass
class MadeRun:
    """As a run of a store, without one."""

    name: str
    run_id: str
    tags: dict[str, str]
    params: dict[str, str]
    files: dict[str, Any]
    folder: Path
    start_time: int = 0
    end_time: int | None = None
    rows: list[Any] = field(default_factory=list)
    written: dict[str, str] = field(default_factory=dict)

    def artifact(self, path: str) -> Path:
        if path not in self.files:
            raise MissingArtifact(path)
        target, text = self.folder / self.run_id / path, json.dumps(self.files[path])
        if self.written.get(path) != text:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)
            self.written[path] = text
        return target


def about(cell: dict[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Tags and parameters of a run of a cell."""
    tags = {
        "kind": "rl",
        "status": "finished",
        "start": f"runs/policies/{cell['start']}",
        "start_fingerprint": f"start {cell['start']}",
        "evidence": cell["evidence"],
        "config_hash": fingerprint(cell["name"]),
    }
    if cell["verifier"]:
        tags |= {
            "verifier_fingerprint": cell["verifier"],
            "verifier_training": cell["verifier"],
            "verifier_run": cell["verifier"],
        }
    return tags, {"seed": cell["seed"], "reward": cell["reward"], "reward_weight": "1.0", "steps": "60"}


def configured(cell: Mapping[str, str]) -> dict[str, Any]:
    """The configuration of a run of a cell."""
    found = deepcopy(shared(cell))
    if cell["kind"] == "rl":
        found |= {"start": f"runs/policies/{cell['start']}", "verifier": cell["verifier"]}
    for key, value in settings(cell).items():
        *path, last = key.split(".")
        place = found
        for part in path:
            place = place.setdefault(part, {})
        place[last] = FITTED.get((value, cell["verifier"]), value)
    return found


def files(outcome: float, auc: float | None, ece: float, rates: dict[str, float]) -> dict[str, Any]:
    """What a run leaves."""
    paired = {"before": 0.2, "after": outcome, "difference": outcome - 0.2, "low": -1.0, "high": 1.0}
    curve = [{"step": 0.0, "pass_at_1": 0.2}, {"step": 60.0, "pass_at_1": outcome}]
    found: dict[str, Any] = {
        "outcome.json": {
            "held_out": {"all": {"sampled": paired, "greedy": paired}},
            "without": ["two_bugs"],
            "collapse": False,
            "area": 0.0,
            "hacking_gap": 0.0,
            "curve": curve,
            "verifier_first": {} if auc is None else {"auc_within_task": auc, "auc_pooled": auc, "ece_width_10": ece},
        },
        "held_out.json": {
            "after": {"new": {"sampled": rates}, "two_bugs": {"sampled": {"b": 0.0}}},
            "clusters": {task: f"c{i // 2}" for i, task in enumerate([*TASKS, "b"])},
        },
    }
    if auc is not None:
        found["verifier_report.json"] = {
            "auc_within_task": auc,
            "auc_pooled": auc - 0.01,
            "ece_width_10": ece,
            "ece_less_floor": ece - 0.02,
            "rm_at_k": {"1": 0.2, "16": 0.2 + 0.3 * auc},
            "brier": 0.1 + ece / 2,
            "advantage_cosine": auc - 0.4,
            "advantage_cosine_all": auc - 0.5,
            "mixed_tasks": 300,
            "trajectories": 9000,
        }
    return found


def made_runs(folder: Path, of_auc: float, seed: int = 0, lowered: float = 0.0, blocks: str = "") -> list[PolicyRun]:
    """The whole study. of_auc: points of pass@1 for a point of AUC. lowered: what the condition of that name truly costs."""
    rng = np.random.default_rng(seed)
    worth: dict[str, tuple[float, float, float]] = {}
    found = []
    for cell in CELLS:
        if blocks and cell["block"] not in blocks.split():
            continue
        amount = float(cell["amount"] or 1400)
        if cell["verifier"] not in worth:
            auc = 0.65 + 0.27 * np.log(amount / 300) / np.log(4000 / 300) + 0.02 * rng.normal()
            ece = ECE_OF.get(cell["column"], 0.05) + 0.02 * rng.random()
            worth[cell["verifier"]] = (auc, ece, 0.03 * rng.normal())
        auc, ece, own = worth[cell["verifier"]]
        noise = 0.003 if cell["condition"] else 0.008
        outcome = (
            0.2 + of_auc * (auc - 0.8) + own + noise * rng.normal() - lowered * (cell["condition"] == "shifted_down")
        )
        rates = {task: outcome + 0.1 * (i % 3) + 0.02 * rng.normal() for i, task in enumerate(TASKS)}
        tags, params = about(cell)
        own_files = files(outcome, auc if cell["verifier"] else None, ece, rates)
        own_files["config.yaml"] = configured(cell)
        if changes_scores(cell):
            own_files["paid_report.json"] = own_files["verifier_report.json"]
        made = MadeRun(cell["name"], fingerprint([cell["name"], seed]) * 2, tags, params, own_files, folder)
        found.append(PolicyRun(made))  # type: ignore[arg-type]
    return found


def test_a_known_answer_is_found(tmp_path: Path) -> None:
    study = read_study(made_runs(tmp_path, 0.8, lowered=0.06), PLAN)
    assert (len(study.taken), study.left_out) == (114, [])
    found = answer(study)
    primary = found.relations["execution_free"]["auc_within_task"]
    assert primary.rho is not None
    assert primary.rho > 0.7
    assert primary.p is not None
    assert primary.p <= 0.01
    assert found.over["execution_free"].low > 0
    auc, ece = found.given["execution_free"]
    assert auc.low > 0
    assert ece.low < 0 < ece.high
    assert found.regret["auc_within_task"].value < found.regret["ece_width_10"].value
    assert found.regret["auc_within_task"].value < found.regret[ANY].value
    assert found.causal["calibration: shifted_down"].words.startswith("differs")
    assert found.causal["calibration: shifted_down"].difference == pytest.approx(-0.06, abs=0.02)
    assert found.causal["calibration: flattened"].words == "alike"
    assert found.causal["control: -1 + 4 r"].words == "alike"
    assert set(found.causal) == {
        *(f"calibration: {name}" for name in ("flattened", "shifted_up", "shifted_far_up", "shifted_down")),
        "unnormalised: shifted_far_up",
        "control: -1 + 4 r",
        "within task: good less poor",
        "difficulty: with less without",
    }
    assert found.repeated[1] == found.voluntary[1] == 8
    assert found.repeated[0] is not None
    assert found.repeated[0] > 0.8
    assert found.mean_of_seeds is not None
    assert found.mean_of_seeds.rho == pytest.approx(primary.rho, abs=0.1)
    assert "With voluntary evidence ρ is +" in " ".join(found.sentences)
    assert found.faults == []
    said = " ".join(found.sentences)
    assert "AUC within task foretells pass@1 after RL" in said
    assert "AUC rather than ECE orders the outcomes" in said
    assert len({row["kind"] for row in found.rows()}) == 6


def test_what_is_missing_or_not_the_plans_is_named(tmp_path: Path) -> None:
    runs = made_runs(tmp_path, 0.8)
    by_name = {run.run.name: run for run in runs}
    wrong = {
        "execution_free_balanced-300_a_s0": ("seed is 7, the plan's 0", lambda run: run.params.update(seed="7")),
        "execution_free_balanced-500_b_s0": (
            "start is a, the plan's b",
            lambda run: run.tags.update(start="runs/policies/a"),
        ),
        "execution_free_balanced-840_a_s0": ("it has 20 steps, the plan 60", lambda run: run.params.update(steps="20")),
        "execution_free_balanced-1400_b_s0": (
            "but those of two bugs",
            lambda run: run.files["outcome.json"].update(without=[]),
        ),
        "execution_free_balanced-2400_a_s0": (
            "what its verifier is worth",
            lambda run: run.files.pop("verifier_report.json"),
        ),
        "execution_free_overconfident-500_a_s0": (
            "with its scores as they are paid",
            lambda run: run.files.pop("paid_report.json"),
        ),
    }
    for name, (_, change) in wrong.items():
        change(by_name[name].run)
    runs = [run for run in runs if run.run.name != "hybrid_balanced-300_a_s0"]
    tags, params = about(next(cell for cell in CELLS if cell["name"] == "execution_a_s0"))
    later = MadeRun("execution_a_s0", "f" * 32, tags, params, files(0.3, None, 0, {}), tmp_path, start_time=9)
    later.files["config.yaml"] = configured(next(cell for cell in CELLS if cell["name"] == "execution_a_s0"))
    study = read_study([*runs, PolicyRun(later)], PLAN)  # type: ignore[arg-type]
    reasons = dict(study.left_out)
    for name, (words, _) in wrong.items():
        assert words in reasons[name]
    assert reasons["hybrid_balanced-300_a_s0"] == "no finished run"
    assert reasons["execution_a_s0"] == "run ffffffff: an earlier run of the cell is taken"
    assert study.taken["execution_a_s0"].policy is by_name["execution_a_s0"]
    assert len(study.left_out) == 8
    assert "sets of weights" not in foretelling.markdown(study, answer(study))
    by_name["hybrid_balanced-500_b_s0"].run.tags.update(start_fingerprint="made anew")
    text = foretelling.markdown(study, answer(study))
    assert "Start b has 2 sets of weights, which are ranked apart." in text
    assert "- left out: hybrid_balanced-300_a_s0: no finished run" in text


def test_a_run_again_takes_no_result_away(tmp_path: Path) -> None:
    """Two runs of one cell, as a store has them: the first is taken; it is not taken where it is not the plan's."""
    cell = next(cell for cell in CELLS if cell["name"] == "execution_a_s0")

    def made(name: str, outcome: float, start_time: int, status: str = "finished") -> MadeRun:
        tags, params = about(cell)
        own = files(outcome, None, 0, {}) | {"config.yaml": configured(cell)}
        return MadeRun(cell["name"], name * 32, tags | {"status": status}, params, own, tmp_path, start_time)

    first, again = made("1", 0.2, 1, "replaced"), made("2", 0.3, 2)
    study = read_study(policy_runs([again, first]), PLAN)  # type: ignore[list-item]
    assert study.taken[cell["name"]].outcome == 0.2
    assert (cell["name"], "run 22222222: an earlier run of the cell is taken") in study.left_out
    first.files["config.yaml"]["algorithm"]["scale"] = "none"
    study = read_study(policy_runs([again, first]), PLAN)  # type: ignore[list-item]
    assert study.taken[cell["name"]].outcome == 0.3
    assert (cell["name"], "run 11111111: its algorithm.scale is none, the plan's std") in study.left_out


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [
        ("distortion_good_shifted_up_a_s0", "reward.transform.slope", 1.0),
        ("distortion_good_shifted_up_a_s0", "reward.transform.shift", 0.0),
        ("difficulty_good_with_a_s0", "reward.transform.between", 1.0),
        ("difficulty_good_with_a_s0", "reward.transform.difficulty", 0.0),
        ("unnormalised_good_recalibrated_a_s0", "algorithm.scale", "std"),
        ("affine_good_recalibrated_a_s0", "reward.offset", 0.0),
        ("affine_good_recalibrated_a_s0", "reward.factor", 1.0),
        ("affine_good_recalibrated_a_s0", "algorithm.std_floor", 0.25),
        ("execution_free_balanced-300_a_s0", "reward.transform.slope", 3.0),
        ("execution_free_overconfident-500_a_s0", "reward.transform.slope", 1.0),
        # what no cell varies
        ("execution_free_balanced-300_a_s0", "rl.groups", 64),
        ("execution_free_balanced-300_a_s0", "optimizer.learning_rate", 1e-5),
        ("hybrid_balanced-300_a_s0", "watch.held_out_attempts", 2),
        ("hybrid_balanced-300_a_s0", "reward.weight", 0.5),
        ("execution_a_s0", "environment.edits", "stay"),
        ("execution_a_s0", "start", "runs/policies/b"),
    ],
)
def test_a_run_that_varies_something_else_is_not_taken(tmp_path: Path, name: str, key: str, value: Any) -> None:
    run = next(run for run in made_runs(tmp_path, 0.8) if run.run.name == name)
    assert name in read_study([run], PLAN).taken
    *path, last = key.split(".")
    place = run.run.files["config.yaml"]  # type: ignore[union-attr]
    for part in path:
        place = place[part]
    place[last] = value
    study = read_study([run], PLAN)
    assert name not in study.taken
    assert f": its {key} is {value}, the plan's " in dict(study.left_out)[name]


def test_a_run_that_another_verifier_paid_is_not_taken(tmp_path: Path) -> None:
    by_name = {run.run.name: run for run in made_runs(tmp_path, 0.8)}

    def reason(name: str, paid_by: Any = None, **tags: str) -> str:
        run = by_name[name]
        changed = replace(run.run, tags=run.run.tags | tags)  # type: ignore[type-var]
        study = read_study([PolicyRun(changed, paid_by)], PLAN)
        return dict(study.left_out).get(name, "")

    paid, bent = "execution_free_balanced-300_a_s0", "distortion_good_shifted_up_a_s0"
    assert reason(paid) == reason(bent) == ""
    assert reason(paid, verifier_run="balanced-500").endswith(
        "what paid it (run balanced) is balanced-500, the plan's balanced-300"
    )
    assert "is neither here nor in the ledger, the plan's balanced-300" in reason(paid, verifier_run="elsewhere")
    cell = next(dict(cell) for cell in ALL_CELLS if cell["name"] == "balanced-300")
    for key, value in (("scale", 600), ("label_ratio", "4:1"), ("refilter", True)):
        own = configured(cell)
        there = MadeRun("balanced-300", "e" * 32, {}, {}, {"config.yaml": own}, tmp_path)
        assert reason(paid, there) == ""
        own["data"][key] = value
        assert f"what paid it is not balanced-300: its data.{key} is {value}, the plan's" in reason(paid, there)
    unpaid = "execution_a_s0"
    assert reason(unpaid) == ""
    assert "a verifier paid it (run balanced), the plan's run has none" in reason(unpaid, verifier_run="balanced-300")
    assert "fitted.csv has no SLOPE_shifted_up for the verifier that paid (run another)" in reason(
        bent, verifier_run="another"
    )


def test_why_a_cell_has_no_run_is_said() -> None:
    """It failed, was killed, or its run, which the ledger has, was not brought home."""
    names = ("execution_a_s0", "execution_b_s0", "hybrid_balanced-300_a_s0")
    ended = {(names[0], "failed"): 1, (names[0], "killed"): 3}
    reasons = dict(read_study([], replace(PLAN, ended=ended, trained={"0123456789": names[1]})).left_out)
    assert [reasons[name] for name in names] == [
        "no finished run, it failed 1 time, it was killed 3 times",
        "no finished run, run 01234567 of the ledger is not there",
        "no finished run",
    ]


def test_what_changes_no_result_is_no_departure() -> None:
    cell = next(cell for cell in CELLS if cell["name"] == "execution_a_s0")
    own = configured(cell)
    own["workers"], own["tasks"], own["start"] = 60, "elsewhere/tasks.parquet", "/elsewhere/a"
    own["runtime"]["device"] = own["tracking"]["name"] = "other"
    assert PLAN.departure(own, cell) == ""


def test_the_first_of_two_runs_is_the_one_that_finished_first(tmp_path: Path) -> None:
    """They overlap, on two machines: the one that began first ended last. Brought home, a run is known by where it was made."""
    first, second = (MadeRun("x", name, {}, {}, {}, tmp_path, *times) for name, times in (("1", (5, 8)), ("2", (1, 9))))
    assert sorted([second, first], key=by_end) == [first, second]  # type: ignore[arg-type]
    infos = [RunInfo("1", "0", "x", {"imported_run": "9"}, 5, 8), RunInfo("2", "0", "x", {}, 1, 8)]
    assert sorted(infos, key=by_end) == infos[::-1]


def test_what_the_conditions_moved_stands_beside_them(tmp_path: Path) -> None:
    study = read_study(made_runs(tmp_path, 0.8), PLAN)
    rows = {(row["block"], row["verifier"], row["condition"]): row for row in moved(study)}
    assert len(rows) == 5 + 2 + 1 + 4
    assert rows["distortion", "good", "shifted_up"]["runs"] == 5
    good = study.taken["distortion_good_shifted_up_a_s0"].policy.outcome["verifier_first"]
    assert rows["distortion", "good", "shifted_up"]["ece_width_10"] == pytest.approx(good["ece_width_10"])
    assert "| difficulty | poor | without | 3 | " in foretelling.markdown(study, answer(study))


def test_the_plan_is_parsed_once_for_all_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of 114 runs is held against everything that any cell varies: parsing all cells for each took most of the analysis' time."""
    parsed = list[str]()

    def counted(cell: Mapping[str, str]) -> dict[str, str]:
        parsed.append(cell["name"])
        return settings(cell)

    runs = made_runs(tmp_path, 0.8, blocks="execution_free")
    monkeypatch.setattr(foretelling_plan, "settings", counted)
    read_study(runs, replace(PLAN))
    assert len(parsed) <= len(ALL_CELLS) + len(runs)


def test_few_runs_conclude_nothing(tmp_path: Path) -> None:
    runs = [run for run in made_runs(tmp_path, 0.8, blocks="execution_free") if "overconfident" not in run.run.name]
    some = answer(read_study(runs[:15], PLAN))
    assert some.relations == {"execution_free": {}, "hybrid": {}}
    assert (
        some.sentences[0]
        == "Where a verifier alone pays nothing can be concluded: 15 of 24 verifiers have an outcome, 16 are needed."
    )
    assert "no comparison has three seeds yet" in " ".join(some.sentences)
    assert foretelling.draw([], tmp_path) == []


def rows(auc: list[float], ece: list[float]) -> list[dict[str, Any]]:
    return [
        {"name": f"v{i}", "start": "ab"[i % 2], "auc_within_task": a, "ece_width_10": e, "mixed_tasks": 300}
        for i, (a, e) in enumerate(zip(auc, ece, strict=True))
    ]


def test_the_check_of_the_design() -> None:
    rng = np.random.default_rng(1)
    auc = list(np.linspace(0.6, 0.92, 24))
    spread = [0.1, 0.3] * 12
    assert faults(rows(auc, [0.1 + 0.01 * ((i * 7) % 24) for i in range(24)])) == []
    assert "correlate by -1.00" in faults(rows(auc, [1 - a for a in auc]))[0]
    low = [*(0.66 + 0.04 * rng.random(23)), 0.7]
    assert "The highest AUC within task is 0.700, it should be 0.85 or more." in faults(rows(low, spread))
    assert "6 verifiers have an AUC within task below 0.65" in " ".join(faults(rows([0.6] * 6 + auc[6:], spread)))
    assert faults(rows(auc[:2], spread[:2])) == ["2 of 24 verifiers are there."]
    for undefined in (None, ""):  # of a report, of a table
        lacking = rows(auc, [0.1 + 0.01 * ((i * 7) % 24) for i in range(24)])
        lacking[3]["ece_width_10"] = undefined
        assert faults(lacking)[0] == "Of v3 the AUC within task or the ECE is not known."


def test_auc_rather_than_ece_is_judged_by_the_verifiers_of_the_block_itself(tmp_path: Path) -> None:
    """In `execution_free` both are apart; in the hybrid those whose runs are there are correlated: nothing is concluded of it."""
    runs = made_runs(tmp_path, 0.8, blocks="execution_free hybrid")
    for run in runs:
        made: Any = run.run
        if made.name.startswith("hybrid"):
            made.files["verifier_report.json"]["ece_width_10"] = (
                1 - made.files["verifier_report.json"]["auc_within_task"]
            )
            made.files.pop("paid_report.json", None)
            if "overconfident" in made.name:
                made.files["paid_report.json"] = made.files["verifier_report.json"]
    for free in (24, 15):
        kept = [run for run in runs if run.run.name.startswith("hybrid")] + runs[:free]
        said = " ".join(answer(read_study(kept, PLAN)).sentences)
        assert "not concluded where a verifier and execution pay: the two are correlated here" in said
        assert ("Where a verifier alone pays, AUC rather than ECE orders the outcomes" in said) == (free == 24)


def test_auc_rather_than_ece_needs_both_of_enough_verifiers(tmp_path: Path) -> None:
    """16 verifiers pay, and one of them has no ECE: it is in no comparison of the two."""
    runs = made_runs(tmp_path, 0.8, blocks="execution_free")[:16]
    assert "are needed" not in " ".join(answer(read_study(runs, PLAN)).sentences[:2])
    made: Any = runs[0].run
    made.files["verifier_report.json"]["ece_width_10"] = None
    found = answer(read_study([PolicyRun(run.run) for run in runs], PLAN))
    assert found.over == found.given == {}
    assert "concluded where a verifier alone pays: 15 verifiers have both, 16 are needed." in found.sentences[1]


def test_what_the_design_lacks_is_said_above_the_result_and_in_the_caption(tmp_path: Path) -> None:
    runs = made_runs(tmp_path, 0.8, blocks="execution_free")
    for kept, words in ((runs, "Met."), (runs[:20], "20 of 24 verifiers are there.")):
        study = read_study(kept, PLAN)
        found = answer(study)
        text = foretelling.markdown(study, found)
        assert text.startswith(f"**Design.** {words}")
        assert text.count("**Design.**") == 1
        assert text.index("**Design.**") < text.index(found.sentences[0])
        caption = foretelling.caption(study, found)
        assert caption.says == found.sentences[0]
        assert ("The design is not met: 20 of 24 verifiers are there." in caption.counts) == (kept is not runs)


def test_captions_say_the_same_in_both(tmp_path: Path) -> None:
    caption = Caption("AUC foretells.", "ρ within starts; 95 % intervals ± 3.", "n = 24, two_bugs left out.")
    md, tex = (path.read_text() for path in write_captions(tmp_path, "x", caption))
    assert md == "**AUC foretells.** ρ within starts; 95 % intervals ± 3. n = 24, two_bugs left out.\n"
    assert r"\textbf{AUC foretells.} $\rho$ within starts; 95 \% intervals $\pm$ 3. n = 24, two\_bugs" in tex
    assert latex(r"a\b{c}") == r"a\textbackslash{}b\{c\}"


@pytest.mark.slow
def test_a_bundle_gives_the_same_bytes_twice(
    runs_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(foretelling_runs, "read_plan", lambda: PLAN)
    store = Store.open(None)
    for run in made_runs(tmp_path, 0.8, blocks="execution_free distortion unnormalised affine"):
        with RunLogger.start(
            store, "study", run.run.name, kind="rl", tags=run.run.tags, params=run.run.params
        ) as logger:
            for name, content in run.run.files.items():
                logger.json(name, content)
    bundle = tmp_path / "runs.zip"
    export_runs(store, bundle, kind="rl", study=True, show=False)
    drawn = [draw_figures(["foretelling"], str(bundle), tmp_path / name) for name in ("one", "two")]
    names = {path.name for path in drawn[0]}
    assert names == {
        f"foretelling{end}"
        for end in (".pdf", "_one_column.pdf", ".png", ".csv", ".md", "_table.csv", ".caption.md", ".caption.tex")
    }
    for one, other in zip(*drawn, strict=True):
        assert one.read_bytes() == other.read_bytes()
    page = draw_figures(["foretelling", "rl_by_reward"], str(bundle), page=tmp_path)
    names = {"foretelling.png", "foretelling.csv", "foretelling_table.csv", "rl_by_reward.png", "rl_by_reward.csv"}
    assert {path.name for path in page} == names
    with next(path for path in drawn[0] if path.name == "foretelling_table.csv").open() as file:
        table = {(row["kind"], row["block"], row["metric"]): row for row in csv.DictReader(file)}
    assert float(table["rho", "execution_free", "auc_within_task"]["p"]) < 0.05
    text = next(path for path in drawn[0] if path.suffix == ".md" and "caption" not in path.name).read_text()
    assert "left out: hybrid_balanced-300_a_s0: no finished run" in text
    assert "24 of 24 execution_free, 0 of 8 second_seed, 0 of 24 hybrid" in text


@pytest.mark.slow
def test_rates_of_the_whole_study_without_a_relation_and_with_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """200 studies without a relation and 60 with one: the primary test is at its level, and finds what the plan expects."""
    monkeypatch.setattr(foretelling_answer, "METRICS", {name: METRICS[name] for name in (PRIMARY, RIVAL)})
    monkeypatch.setattr(foretelling_answer, "causal", lambda study: {})

    def shown(of_auc: float, seed: int) -> tuple[bool, bool]:
        study: Study = read_study(made_runs(tmp_path / f"{of_auc}", of_auc, seed, blocks="execution_free"), PLAN)
        found: Answer = answer(study)
        p = found.relations["execution_free"]["auc_within_task"].p
        return p is not None and p <= 0.05, found.over["execution_free"].low > 0

    none = np.mean([shown(0.0, seed) for seed in range(200)], axis=0)
    strong = np.mean([shown(0.8, seed) for seed in range(60)], axis=0)
    assert none[0] <= 0.10, none
    assert none[1] <= 0.05, none
    assert strong[0] >= 0.95, strong
    assert strong[1] >= 0.85, strong
