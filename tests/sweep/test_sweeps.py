import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from omegaconf import DictConfig

from rmlab.configuration import compose, load_program
from rmlab.configured_values import with_values
from rmlab.errors import RmlabError, UsageError
from rmlab.paths import STARTER, SWEEPS
from rmlab.sweep.owned_keys import refuse_owned
from rmlab.sweep.plan import expand
from rmlab.sweep.spec import read_sweep
from rmlab.training.pretrained import SHAPE
from tests.sweeping import rmlab_here

TOY = Path(__file__).parent / "toy" / "toy_scale.yaml"


def cells(preset="demo", overrides=(), composing=compose, **changes):
    spec = read_sweep(str(TOY), preset, changes)
    return expand(spec, overrides, composing, load_program(spec.program).identity)


def test_cells_cross_arms_levels_and_seeds_and_say_so_in_their_names() -> None:
    found = cells()
    assert [c.name for c in found[:3]] == ["data_scale=1 s0", "data_scale=1 s1", "data_scale=2 s0"]
    assert [c.name for c in found[6:8]] == ["data_scale=1 steps s0", "data_scale=1 steps s1"]
    assert len(found) == 12
    assert {c.identity.control_hash for c in found} == {found[0].identity.control_hash}
    one = found[7].config
    assert (one.data.scale, one.training.match, one.seed) == (1, "steps", 1)
    tracking = one.tracking
    assert (tracking.experiment, tracking.level, tracking.arm) == ("toy_scale", "1", "steps")
    assert list(tracking.factors) == ["data_scale", "match"]


def test_the_two_arms_meet_in_one_run_at_the_scale_of_reference() -> None:
    by_name = {c.name: c.identity.config_hash for c in cells()}
    assert by_name["data_scale=2 s0"] == by_name["data_scale=2 steps s0"]
    assert by_name["data_scale=2 s0"] != by_name["data_scale=2 s1"]
    assert by_name["data_scale=3 s0"] != by_name["data_scale=3 steps s0"]
    assert len(set(by_name.values())) == 10


def test_presets_and_changes_take_the_place_of_the_file() -> None:
    assert len(cells("one_arm")) == 6
    assert len(cells(levels=[1, 2], seeds=[5], arms=["steps"])) == 2
    assert cells("loose")[0].config.data.ratio == "2:1"
    assert cells("loose", ["data.ratio=1:4"])[0].config.data.ratio == "1:4"


OWNED = {
    "data.scale=5": r"this sweep varies data\.scale \(factor data_scale\)\. Choose its levels with levels=\[\.\.\.\]",
    "data={ratio: '2:1', scale: 5}": r"this sweep varies data\.scale",
    "seed=3": r"Choose its seeds with seeds=\[0,1\]",
    "training.match=steps": r"this sweep varies training\.match",
    "tracking.level=2": r"the sweep sets tracking\.level\. Choose its levels with levels=\[\.\.\.\]",
    "+tracking.arm=steps": r"Choose its arms with arms=\[",
    "tracking.baseline=1": "Choose it with baseline=LEVEL",
    "tracking.preset=mine": "Choose it with preset=NAME",
    "tracking.experiment=mine": "give a copy of the file another name",
    "tracking.sweep=mine": "give a copy of the file another name",
    "tracking.settings.learning_rate=1": r"the sweep sets tracking\.settings\.learning_rate\. Remove it",
    "tracking={uri: null, replaces: [a]}": "`rmlab sweep --force` runs finished cells again",
    **{f"tracking.{name}=1": f"sets tracking.{name}. Remove it" for name in ("factors", "place", "name", "asked")},
}
OTHERS = ["data.ratio=1:2", "data={ratio: '2:1'}", "tracking.uri=null", "data={ratio", "tracking=server"]


def test_what_a_sweep_sets_is_not_to_be_overridden() -> None:
    for text, words in OWNED.items():
        with pytest.raises(UsageError, match=f"^{re.escape(text)}: .*{words}") as caught:
            cells("one_arm", [text])
        assert "\n" not in str(caught.value)
    refuse_owned(read_sweep(str(TOY)).factors, OTHERS)


@pytest.mark.parametrize("preset", ["demo", "other"])
def test_what_a_sweep_sets_is_not_to_be_set_in_its_file_either(tmp_path: Path, preset: str) -> None:
    file = yaml.safe_load(TOY.read_text()) | {"program": str(TOY.parent / "toy.py")}
    for text, words in OWNED.items():
        path = tmp_path / "mine.yaml"
        path.write_text(yaml.safe_dump(file | {"presets": {preset: {"overrides": ["data.ratio=1:2", text]}}}))
        with pytest.raises(UsageError, match=f"mine.yaml, preset {preset}: overrides: {re.escape(text)}: .*{words}"):
            read_sweep(str(path), preset)
    path.write_text(yaml.safe_dump(file | {"presets": {preset: {"overrides": OTHERS}}}))
    assert read_sweep(str(path), preset).overrides == OTHERS


def test_what_a_search_sets_is_not_to_be_set_in_its_file(tmp_path: Path) -> None:
    search = {"trials": 1, "objectives": {"validation/auc_pooled": "maximize"}}
    space = {"data_scale": {"choices": [1, 2]}}
    file = {"question": "q", "program": "toy.py", "seeds": [0], "search": search | {"space": space}}
    (tmp_path / "s.yaml").write_text(yaml.safe_dump(file | {"presets": {"demo": {"overrides": ["data.scale=3"]}}}))
    with pytest.raises(UsageError, match=r"overrides: data\.scale=3: this sweep varies data\.scale"):
        read_sweep(str(tmp_path / "s.yaml"))


@pytest.mark.parametrize(("given", "instead"), [("level=[2]", r"levels=\[2\]"), ("arm=steps", r"arms=\[steps\]")])
def test_one_level_is_chosen_as_a_list_too(given: str, instead: str) -> None:
    with pytest.raises(UsageError, match=f"a sweep has .*s. Choose them with {instead}"):
        cells("one_arm", [given])


def test_cells_that_differ_in_more_than_their_factors_are_refused() -> None:
    spec = read_sweep(str(TOY), "one_arm")
    identity = load_program(spec.program).identity

    def careless(config):  # as if a level brought something else along
        changed = config.copy()
        changed.data.ratio = "4:1" if config.data.scale == 2 else "1:1"
        return identity(changed)

    with pytest.raises(
        RmlabError, match=r"differ in config\.data\.ratio, which no declared factor \(data_scale, match\) owns"
    ):
        expand(spec, [], compose, careless)


def test_a_level_is_set_as_composing_it_would() -> None:
    spec = read_sweep("data_scale", "demo", {"seeds": [0, 1]})
    program = load_program(spec.program)
    for cell in expand(spec, [], compose, program.identity):
        whole = compose(
            spec.program,
            [*spec.overrides, f"data.scale={cell.level}", f"training.match={cell.arm}", f"seed={cell.seed}"],
        )
        whole.tracking = cell.config.tracking
        assert cell.config == whole


@pytest.mark.slow
def test_a_thousand_cells_take_seconds() -> None:
    composed = []

    def counted(*given: Any) -> DictConfig:
        composed.append(given)
        return compose(*given)

    assert len(cells(levels=list(range(1, 26)), baseline=1, seeds=list(range(20)), composing=counted)) == 1000
    assert len(composed) < 50, "as many compositions as cells would take minutes"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "not readable YAML"),
        ("[]", "does not define a sweep"),
        ("presets: {demo: }", "question is missing: add a line `question: ...`|program is missing"),
        ("question:\nprogram: toy.py\npresets: {demo: }", "question is missing: add a line"),
        ("question: q\npresets: {}", "presets are missing"),
        ("questoin: q\npresets: {demo: }", r"no key 'questoin' \(did you mean question\?\)"),
        (
            "{question: q, program: toy.py, factor: nope, levels: [1], baseline: 1, seeds: [0], presets: {demo: }}",
            "no factor 'nope'",
        ),
        (
            "{question: q, program: toy.py, factor: data_scale, levels: [1], baseline: 2, seeds: [0], presets: {demo: }}",
            "baseline=2 is not one of the levels",
        ),
        (
            "{question: q, program: toy.py, factor: data_scale, levels: [1, 1], baseline: 1, seeds: [0], presets: {demo: }}",
            "twice",
        ),
        (
            "{question: q, program: toy.py, factor: data_scale, levels: 1, baseline: 1, seeds: [0], presets: {demo: }}",
            r"levels=1 must be a list of numbers or words, such as \[500,2000\]",
        ),
        (
            "{question: q, program: toy.py, factor: data_scale, levels: [1], baseline: 1, seeds: [0.5], presets: {demo: }}",
            "seeds=.* must be a list of whole numbers",
        ),
        (
            "{question: q, program: toy.py, factor: data_scale, levels: [1], baseline: 1, seeds: [-1], presets: {demo: }}",
            r"seeds=.* must be a list of whole numbers from 0 to \d+, such as \[0,1,2\]",
        ),
        (
            "{question: q, program: toy.py, factor: data_scale, levels: [1], baseline: 1, seeds: [0], presets: {demo: {levles: [1]}}}",
            r"no key 'levles' \(did you mean levels\?\)",
        ),
        (
            "{question: q, program: toy.py, factor: data_scale, levels: [1], baseline: 1, seeds: [0], arms: [a], presets: {demo: }}",
            "arms must be a mapping; its keys are factor, levels",
        ),
    ],
)
def test_a_file_that_does_not_say_what_it_has_to(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "s.yaml").write_text(text)
    with pytest.raises(UsageError, match=words) as caught:
        read_sweep(str(tmp_path / "s.yaml"))
    assert "\n" not in str(caught.value)


def test_names_that_are_not_there() -> None:
    with pytest.raises(UsageError, match=r"no sweep 'data_scal' \(did you mean data_scale\?\)"):
        read_sweep("data_scal")
    with pytest.raises(UsageError, match="has no preset 'huge'; it has: demo, one_arm, loose"):
        read_sweep(str(TOY), "huge")


@pytest.mark.parametrize("name", sorted(p.stem for p in SWEEPS.glob("*.yaml")))
def test_every_shipped_sweep_reads_at_every_preset(name: str) -> None:
    import yaml

    raw = yaml.safe_load((SWEEPS / f"{name}.yaml").read_text())
    assert {"smoke", "demo", "small", "paper"} <= set(raw["presets"])
    assert set(raw["cost"]) == set(raw["presets"])
    for preset in raw["presets"]:  # levels change values, not keys: at one preset each is set, as a sweep does
        spec = read_sweep(name, preset)
        base = compose(spec.program, spec.overrides)
        if spec.arms and spec.arms.factor == "match" and "steps" in spec.arm_levels:
            assert base.training.reference_scale == spec.baseline
        for level in spec.levels if preset == "smoke" else ():
            for arm in spec.arm_levels:
                sets = spec.sets(level, arm)
                assert with_values(base, sets) or compose(spec.program, [*spec.overrides, *sets])


@pytest.mark.parametrize("name", ["architecture", "first_weights"])
def test_the_weights_of_the_papers_model_are_found_where_the_file_says(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """These sweeps vary the model, so that the key that names its folder is not to be given."""
    stated = compose("train_verifier", ["model=qwen3_30b_a3b"]).model
    assert f"a folder {stated.pretrained} has the weights, or a link" in (SWEEPS / f"{name}.yaml").read_text()
    (tmp_path / "models").mkdir()
    for file in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(STARTER / "base" / file, tmp_path / "models")
    shape = {mine: getattr(stated, mine) for mine in SHAPE} | {"vocab_size": stated.tokenizer.vocab_size}
    (tmp_path / "models" / "config.json").write_text(json.dumps({SHAPE.get(key, key): n for key, n in shape.items()}))
    asked = ["preset=paper", f"data.path={STARTER / 'trajectories.parquet'}", "data.scale=200", "data.label_ratio=1:1"]
    monkeypatch.chdir(tmp_path)
    code, _, err = rmlab_here("sweep", name, *asked, "--dry-run")
    assert code == 1
    assert f"model.pretrained={stated.pretrained}: there is no such folder" in err
    (tmp_path / stated.pretrained).symlink_to("models")
    code, out, _ = rmlab_here("sweep", name, *asked, "--dry-run")
    assert code == 0
    assert out.count("  to run") == 3
