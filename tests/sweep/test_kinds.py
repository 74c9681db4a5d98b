"""Sweeps of more than one factor: a grid crosses them, a list names its cells, a search says where it may look."""

from pathlib import Path

import pytest

from rmlab.configuration import compose, load_program
from rmlab.errors import UsageError
from rmlab.sweep.plan import expand
from rmlab.sweep.spec import read_sweep

TOY = Path(__file__).parent / "toy" / "toy.py"
HEAD = f"question: q\nprogram: {TOY}\nfactor: data_scale\nbaseline: 1\nseeds: [0, 1]\n"


def cells(folder: Path, text: str):
    (folder / "s.yaml").write_text(HEAD + text + "\npresets: {demo: }\n")
    spec = read_sweep(str(folder / "s.yaml"))
    return expand(spec, [], compose, load_program(spec.program).identity)


def test_a_grid_crosses_every_factor_with_every_other(tmp_path: Path) -> None:
    found = cells(tmp_path, 'levels: [1, 2]\ngrid: {label_ratio: ["1:1", "2:1", "4:1"], match: [epochs, steps]}')
    assert len(found) == 2 * 3 * 2 * 2
    settings = {(c.config.data.scale, c.config.data.label_ratio, c.config.training.match, c.config.seed) for c in found}
    assert len(settings) == 24
    assert len({c.identity.control_hash for c in found}) == 1
    assert (found[0].name, found[0].arm) == ("data_scale=1 s0", "label_ratio=1:1 match=epochs"), (
        "the main arm goes without saying"
    )
    assert found[-1].name == "data_scale=2 label_ratio=4:1 match=steps s1"


def test_a_grid_of_one_further_factor_has_the_cells_of_arms(tmp_path: Path) -> None:
    grid = cells(tmp_path, "levels: [1, 2]\ngrid: {match: [epochs, steps]}")
    arms = cells(tmp_path, "levels: [1, 2]\narms: {factor: match, levels: [epochs, steps]}")
    assert [c.identity for c in grid] == [c.identity for c in arms]


def test_a_list_has_the_cells_that_it_names(tmp_path: Path) -> None:
    found = cells(
        tmp_path, 'list: [{data_scale: 1, label_ratio: "1:1"}, {data_scale: 3, label_ratio: "4:1"}, {data_scale: 3}]'
    )
    assert [(c.config.data.scale, c.config.data.label_ratio) for c in found if c.seed == 0] == [
        (1, "1:1"),
        (3, "4:1"),
        (3, "1:1"),
    ]
    assert len({c.identity.control_hash for c in found}) == 1
    assert [c.name for c in found[::2]] == ["data_scale=1 s0", "data_scale=3 label_ratio=4:1 s0", "data_scale=3 s0"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("levels: [1]\ngrid: {match: [epochs]}\narms: {factor: match, levels: [epochs]}", "exclude each other"),
        ("levels: [1]\ngrid: {data_scale: [2]}", "with itself"),
        ("levels: [1]\ngrid: {match: epochs}", "must be a list"),
        ("list: [{match: epochs}]", "each with a level of data_scale"),
        ("list: [{data_scale: 1}, {data_scale: 1}]", "twice"),
        ("list: [{data_scale: 2}]", "baseline=1 is not one of the levels"),
    ],
)
def test_a_grid_or_list_that_says_something_else(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        cells(tmp_path, text)


SEARCH = (
    "question: q\nprogram: {toy}\nseeds: [0]\npresets: {{demo: }}\n"
    "search: {{trials: 3, objectives: {objectives}, space: {space}{more}}}\n"
)


@pytest.mark.parametrize(
    ("objectives", "space", "more", "words"),
    [
        ("{eval/x: maximize}", "{data_scale: {low: 1, high: 3}}", "", "which a search must not see. Use validation/x"),
        (
            "{a: maximize, b: minimize}",
            "{data_scale: {low: 1, high: 3}}",
            ", pruning: {metric: m, pruner: {_target_: p}}",
            "pruning in Optuna works with one objective only",
        ),
        ("{a: up}", "{data_scale: {low: 1, high: 3}}", "", "must be minimize or maximize"),
        ("{a: maximize}", "{data_scal: {low: 1, high: 3}}", "", "no factor 'data_scal'"),
        ("{a: maximize}", "{data_scale: {low: 1}}", "", "must be"),
        ("{a: maximize}", "{width: {choices: [narrow]}}", "", "choice narrow of width is not defined"),
        (
            "{a: maximize}",
            "{data_scale: {low: 1, high: 3}}",
            ", samplr: {}",
            r"no key 'samplr' \(did you mean sampler\?\)",
        ),
    ],
)
def test_a_search_that_cannot_be_made(tmp_path: Path, objectives: str, space: str, more: str, words: str) -> None:
    (tmp_path / "s.yaml").write_text(SEARCH.format(toy=TOY, objectives=objectives, space=space, more=more))
    with pytest.raises(UsageError, match=words) as caught:
        read_sweep(str(tmp_path / "s.yaml"))
    assert "\n" not in str(caught.value)


SEARCHED = "question: q\nprogram: {}\nseeds: [0]\npresets: {{demo: }}\nsearch: {{trials: 2, objectives: {{validation/x: maximize}}, {}}}\n"


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ("space: {learning_rate: 3}", "search: learning_rate=3 must be {low, high}"),
        ("space: {learning_rate: {choices: [1]}}, sampler: 3", "search: sampler=3 must be a mapping"),
        ("space: {learning_rate: {choices: [1]}}, pruning: [a]", r"search: pruning=\['a'\] must be a mapping"),
        ("space: {learning_rate: {choices: [1]}}, storage: 3", "search: storage=3 must be the URL of a database"),
    ],
)
def test_a_single_value_in_a_search_where_a_mapping_is_meant(tmp_path: Path, more: str, words: str) -> None:
    (tmp_path / "s.yaml").write_text(SEARCHED.format(TOY, more))
    with pytest.raises(UsageError, match=words):
        read_sweep(str(tmp_path / "s.yaml"))


def test_trials_that_are_no_number(tmp_path: Path) -> None:
    text = SEARCHED.format(TOY, "space: {learning_rate: {choices: [1]}}").replace("trials: 2", "trials: true")
    (tmp_path / "s.yaml").write_text(text)
    with pytest.raises(UsageError, match="search: trials must be a whole number"):
        read_sweep(str(tmp_path / "s.yaml"))


def test_a_single_value_where_what_is_chosen_within_a_mapping_is_meant(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(HEAD + "levels: [1]\narms: 3\nsearch: 3\npresets: {demo: }\n")
    with pytest.raises(UsageError, match="arms=3 must be a mapping"):
        read_sweep(str(tmp_path / "s.yaml"), None, {"arms": ["a"]})
    with pytest.raises(UsageError, match="search=3 must be a mapping"):
        read_sweep(str(tmp_path / "s.yaml"), None, {"trials": 3})


@pytest.mark.parametrize(
    ("preset", "words"),
    [
        (["smoke"], r"preset=\['smoke'\] must be the name of one preset; sweep data_scale has: smoke"),
        (3, "has no preset 3"),
    ],
)
def test_a_preset_that_is_no_name(preset: object, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        read_sweep("data_scale", preset)  # type: ignore[arg-type]  # as it is read from the command line


def test_a_group_chosen_by_numbers() -> None:
    with pytest.raises(UsageError, match=r"training=\[1\] is not KEY=VALUE"):
        compose("train_verifier", ["training=[1]"])
