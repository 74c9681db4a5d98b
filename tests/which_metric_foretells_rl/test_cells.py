"""The plan's cells, the command of each, and what is left to do."""

from argparse import ArgumentTypeError
from collections import Counter
from pathlib import Path

import pytest

from experiments.studies.which_metric_foretells_rl import design, records, study
from rmlab.configuration import compose, load_program
from rmlab.errors import DataError, UsageError
from rmlab.rl.config import Scale
from rmlab.tracking.run_index import RunInfo
from tests.which_metric_foretells_rl.planned import cells, named


def test_the_cells_are_those_of_the_design() -> None:
    planned = [{name: str(value) for name, value in cell.items()} for cell in design.cells()]
    assert cells() == planned
    assert Counter(cell["block"] for cell in planned) == {
        "verifiers": 24,
        "voluntary_verifiers": 8,
        "execution_free": 24,
        "second_seed": 8,
        "hybrid": 24,
        "execution": 4,
        "voluntary": 8,
        "distortion": 25,
        "unnormalised": 6,
        "affine": 3,
        "difficulty": 12,
    }
    assert len({cell["name"] for cell in planned}) == len(planned)
    final = [cell for cell in planned if cell["block"] == "verifiers"]
    assert set(Counter((c["start"], c["column"]) for c in final).values()) == {3}
    assert set(Counter((c["start"], c["amount"]) for c in final).values()) == {2}
    assert len({cell["seed"] for cell in planned if cell["kind"] == "verifier"}) == 32
    trained = [int(str(cell["amount"])) for cell in final]
    assert trained == sorted(trained, reverse=True), "what takes longest begins first"
    paid = [cell for cell in planned if cell["block"] == "execution_free"]
    for first in range(0, 24, 4):
        four = paid[first : first + 4]
        assert {cell["column"] for cell in four} == set(design.COLUMNS)
        assert sorted(str(cell["start"]) for cell in four) == ["a", "a", "b", "b"]
        assert len({cell["amount"] for cell in four}) == 4
    again = [cell for cell in planned if cell["block"] == "second_seed"]
    assert set(Counter((c["start"], c["column"]) for c in again).values()) == {1}
    doubled = [cell for cell in design.cells(2) if cell["block"] == "verifiers"]
    assert {cell["amount"] for cell in doubled} == {2 * amount for amount in design.AMOUNTS}
    assert {cell["seed"] for cell in doubled}.isdisjoint(int(cell["seed"]) for cell in final)


def state(**fitted: str) -> records.State:
    values = dict.fromkeys((f"{kind}_{name}" for kind in ("SHIFT", "SLOPE") for name in design.DISTORTIONS), "1.5")
    values |= {"SLOPE_within_good": "0.5", "SLOPE_within_poor": "0.7"}
    roles = {"good": "balanced-6000", "poor": "balanced-430"}
    return records.State({}, {}, values | roles | fitted, dict.fromkeys(roles, "1"))


def test_every_kind_of_run_composes_with_what_it_varies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records.State, "weights", lambda self, verifier: "1")
    programs = {"verifier": "train_verifier", "rl": "rl"}
    one_a_block = {cell["block"]: cell for cell in cells()}
    found = {}
    for block, cell in one_a_block.items():
        load_program(programs[cell["kind"]])
        found[block] = compose(programs[cell["kind"]], study.command(cell, state())[4:])
    assert (found["verifiers"].data.label_ratio, found["verifiers"].data.scale, found["verifiers"].seed) == (
        "1:1",
        250,
        1018,
    )
    assert found["verifiers"].evaluation.policies[-1] == "b_paid_badly"
    assert (
        found["voluntary_verifiers"].prompt.evidence.value
        == found["voluntary"].environment.evidence.value
        == "voluntary"
    )
    assert found["hybrid"].reward.transform.slope == 3
    assert (found["execution_free"].verifier, found["execution"].verifier) == ("1", "")
    assert found["execution_free"].start == "runs/policies/b"
    assert (found["execution_free"].watch.outcome_without, found["execution_free"].rl.groups) == (["two_bugs"], 40)
    assert (found["distortion"].reward.transform.slope, found["distortion"].reward.transform.shift) == (1.5, 1.5)
    assert found["unnormalised"].algorithm.scale is Scale.none
    assert (
        found["affine"].algorithm.std_floor == found["affine"].reward.factor * found["distortion"].algorithm.std_floor
    )
    assert (found["difficulty"].reward.transform.difficulty, found["difficulty"].reward.transform.between) == (1, 0)
    assert found["difficulty"].tracking.name == "difficulty_poor_with_a_s2"
    [without] = [cell for cell in cells() if cell["name"] == "difficulty_poor_without_a_s2"]
    level = compose("rl", study.command(without, state())[4:]).reward.transform
    assert (level.difficulty, level.between, level.same_difficulty, level.shift) == (1, 0, True, 0), (
        "the same mean logit"
    )
    assert found["difficulty"].reward.transform == {**level, "same_difficulty": False}


def test_what_a_cell_waits_for_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    by_name = {cell["name"]: cell for cell in cells()}
    paid, bent = by_name["execution_free_balanced-250_a_s0"], by_name["distortion_good_shifted_up_a_s0"]
    with pytest.raises(DataError, match="the weights of balanced-250 are not here"):
        study.command(paid, state())
    monkeypatch.setattr(records.State, "weights", lambda self, verifier: "2")
    with pytest.raises(DataError, match="belongs to another training of balanced-6000"):
        study.command(bent, state())
    nothing = records.State({}, {}, {}, {})
    with pytest.raises(DataError, match="SLOPE_shifted_up is not fitted yet"):
        study.command(bent, nothing)
    with pytest.raises(DataError, match="which verifier is good is not known yet"):
        nothing.verifier_of(bent)
    with pytest.raises(UsageError, match="hybird is neither a block nor a cell; blocks are verifiers"):
        study.main(["hybird"])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--together 0", "--together: 0 is no number from 1 up"),
        ("--cards 0", "--cards: 0 is no number from 1 up"),
        ("--minutes nan", "--minutes: nan is no number from 0 up"),
        ("--minutes inf", "--minutes: inf is no number from 0 up"),
        ("--minutes=-1", "--minutes: -1 is no number from 0 up"),
        ("--together some", "--together: invalid int value: 'some'"),
    ],
)
def test_numbers_with_which_nothing_can_run_are_refused(
    words: str, said: str, runs_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In a dry run too, so that it says what the run would."""
    for more in ([], ["--dry-run"]):
        with pytest.raises(SystemExit, match="2"):
            study.main(["execution", *words.split(), *more])
        assert said in capsys.readouterr().err


def test_the_design_refuses_amounts_and_slopes_that_are_none() -> None:
    number = design.at_least(0.1)
    assert number("0.9") == 0.9
    for text in ("0", "nan", "-1", "inf"):
        with pytest.raises(ArgumentTypeError, match=f"{text} is no number from 0.1 up"):
            number(text)


def test_finished_cells_are_not_run_again_but_verifiers_that_are_needed_are(monkeypatch: pytest.MonkeyPatch) -> None:
    planned = cells()
    done = {cell["name"]: {"run_id": "9"} for cell in planned}
    everything = records.State({}, done, {}, {})
    assert study.to_do(planned, everything) == []
    del done["hybrid_mostly_unresolved-430_a_s0"]
    assert [cell["name"] for cell in study.to_do(planned, everything)] == [
        "mostly_unresolved-430",
        "hybrid_mostly_unresolved-430_a_s0",
    ]
    monkeypatch.setattr(records.State, "weights", lambda self, verifier: "1")
    assert [cell["name"] for cell in study.to_do(planned, everything)] == ["hybrid_mostly_unresolved-430_a_s0"]
    retrained = RunInfo("1", "0", "mostly_unresolved-430", {}, 0, 1)
    assert "--force" in study.command(
        named("mostly_unresolved-430")[0], records.State({"mostly_unresolved-430": retrained}, {}, {}, {})
    )


def test_a_dry_run_lists_every_cell(
    capsys: pytest.CaptureFixture[str], runs_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before any has run."""
    monkeypatch.setattr(records, "ledger", lambda: runs_folder / "ledger.csv")
    assert study.main(["--dry-run"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 + 146 + 2
    assert lines[1].startswith("every rl: rmlab rl rl_preset=small rl.groups=40 ")
    assert lines[-2].startswith("146 cells: 24 verifiers, 8 voluntary_verifiers, 24 execution_free, 8 second_seed")
    assert lines[-1].endswith("some 3 h 26 min of one card, 1 h 43 min of two, 52 min of four, as guessed")
    assert sum(line.startswith("to do     ") for line in lines) == 32 + 4, "verifiers, and what execution pays"
    assert sum(line.startswith("waits     ") for line in lines) == 110


@pytest.mark.parametrize(("start", "verifiers"), [("a", 12 + 2), ("b", 12)])
def test_the_cells_of_one_start_can_be_chosen(start: str, verifiers: int) -> None:
    """Each of its runs with its verifier, which may be listed with the other start: the good and the poor one are, and pay start a."""
    known = state()
    kept = records.of_start(cells(), known, start)
    names = {cell["name"] for cell in kept}
    runs = [cell for cell in kept if cell["kind"] == "rl"]
    assert runs == [cell for cell in cells() if cell["kind"] == "rl" and cell["start"] == start]
    causal = {"distortion", "unnormalised", "affine", "difficulty"}
    factorial = {"execution_free", "second_seed", "hybrid", "execution", "voluntary"}
    assert {cell["block"] for cell in runs} == (causal | factorial if start == "a" else factorial)
    assert {known.verifier_of(cell) for cell in runs} - {""} <= names
    count = Counter(cell["block"] for cell in kept)
    assert (count["verifiers"], count["voluntary_verifiers"]) == (verifiers, 4)
    assert records.of_start(cells(), known, None) == cells()
    alone = [cell for cell in cells() if cell["block"] == "verifiers"]
    assert {c["name"] for c in records.of_start(alone, known, start)} == names & {c["name"] for c in alone}, (
        "the verifiers by themselves are those of the runs that come later"
    )


def test_a_verifier_of_the_other_start_is_trained_again_while_a_run_of_this_one_needs_it() -> None:
    """Weights are lost with a machine; a start that is alone on the next one needs the good and the poor verifier there."""
    known = state()
    trained = {cell["name"]: {"run_id": "9"} for cell in cells() if cell["kind"] == "verifier"}
    known.done.update(trained)
    chosen = records.of_start(cells(), known, "a")
    again = {cell["name"] for cell in study.to_do(chosen, known, "a") if cell["kind"] == "verifier"}
    assert again == {known.verifier_of(cell) for cell in chosen if cell["kind"] == "rl"} - {""}
    assert {"balanced-6000", "balanced-430"} <= again
    known.done.update({c["name"]: {"run_id": "9"} for c in chosen if c["verifier"] in ("good", "poor")})
    again = {cell["name"] for cell in study.to_do(chosen, known, "a")}
    assert again.isdisjoint({"balanced-6000", "balanced-430"}), (
        "runs of start b need them, which are not asked for here"
    )
    assert {"balanced-6000", "balanced-430"} <= {cell["name"] for cell in study.to_do(chosen, known)}


def test_a_dry_run_of_one_start_lists_its_cells(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(study, "look", state)
    for start, verifiers in (("a", 14), ("b", 12)):
        assert study.main(["verifiers", "execution_free", "execution", "--start", start, "--dry-run"]) == 0
        line = capsys.readouterr().out.splitlines()[-2]
        assert line == f"{verifiers + 14} cells: {verifiers} verifiers, 12 execution_free, 2 execution"


def test_a_choice_without_a_cell_of_its_start_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(study, "look", state)
    said = (
        r"nothing of start b is chosen: leave --start out, or name a block that has cells of it \(verifiers, .*hybrid"
    )
    for more in ([], ["--dry-run"]):
        with pytest.raises(UsageError, match=said) as refused:
            study.main(["distortion", "balanced-3800", "--start", "b", *more])
        assert "difficulty" not in str(refused.value)
    monkeypatch.setattr(study, "look", lambda: records.State({}, {}, {}, {}))
    with pytest.raises(UsageError, match="nothing of start a is chosen"):  # who is good is not known yet
        study.main(["balanced-6000", "--start", "a"])
