"""Levels that are names, ratios that are no numbers to base 60, and files that reach beyond their factor."""

from pathlib import Path

import pytest

from rmlab.errors import UsageError
from rmlab.sweep.spec import read_sweep
from rmlab.sweep.typed_yaml import plain_yaml

HEAD = "{question: q, program: train_verifier, seeds: [0], presets: {demo: }, "


def read(tmp_path: Path, text: str):
    (tmp_path / "s.yaml").write_text(HEAD + text + "}")
    return read_sweep(str(tmp_path / "s.yaml"))


def test_a_name_stands_for_overrides_of_the_factors_own_keys(tmp_path: Path) -> None:
    spec = read(
        tmp_path,
        "factor: context_length, levels: [320, long], baseline: 320, "
        "named: {long: [prompt.max_tokens=900, data.refilter=true]}",
    )
    assert spec.sets(320) == ["prompt.max_tokens=320"]
    assert spec.sets("long") == ["prompt.max_tokens=900", "data.refilter=true"]


def test_ratios_stay_ratios(tmp_path: Path) -> None:
    spec = read(tmp_path, "factor: label_ratio, levels: [4:1, 1:10], baseline: 4:1")
    assert spec.levels == ["4:1", "1:10"]
    assert spec.sets("4:1") == ["data.label_ratio=4:1"]
    assert plain_yaml("[1:2, 1, -7, 1.5, 1e-3, true, 0x10, 12:30:45]") == [
        "1:2",
        1,
        -7,
        1.5,
        "1e-3",
        True,
        16,
        "12:30:45",
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "factor: policy_mixture, levels: [mixed], baseline: mixed",
            r"level mixed of policy_mixture is not defined; `named` defines: none",
        ),
        (
            "factor: policy_mixture, levels: [mixd], baseline: mixd, named: {mixed: ['data.policies={a: 1}']}",
            r"did you mean mixed\?",
        ),
        (
            "factor: label_ratio, levels: [some], baseline: some, named: {some: [data.scale=3]}",
            r"level some sets data\.scale, which label_ratio does not own \(it owns data\.label_ratio\)",
        ),
        (
            "factor: label_ratio, levels: [some], baseline: some, named: {some: 3}",
            "named=.* must be a list of KEY=VALUE by level",
        ),
    ],
)
def test_names_that_mean_nothing_or_too_much(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        read(tmp_path, text)
