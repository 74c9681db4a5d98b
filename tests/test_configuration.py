import subprocess
import sys
from pathlib import Path

import pytest
from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from hydra.errors import HydraException
from omegaconf import OmegaConf

from rmlab.configuration import _composed, compose, load_file, load_program, register_resolvers, restore
from rmlab.configured_values import with_values
from rmlab.errors import UsageError
from rmlab.overrides import HYDRA_SAYS
from rmlab.paths import CONF, PROGRAMS, REPOSITORY, STARTER
from rmlab.verifiers.config import OverLength
from rmlab.wording import near


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("data.scal=3", r"train_verifier has no key 'data.scal' \(did you mean data.scale\?\)"),
        ("optimiser.learning_rate=1", r"no key 'optimiser.learning_rate' \(did you mean optimizer.learning_rate"),
        ("modle=scratch", r"no key 'modle' \(did you mean model"),
        ("model=scrach", r"model=scrach: there is no such choice \(did you mean scratch"),
        ("data.scale=many", "data.scale=many: value 'many' of type 'str' could not be converted to Integer"),
        ("data.scale=null", "data.scale=null: field 'data.scale' is not Optional"),
        ("training.match=forever", "training.match=forever: invalid value 'forever', expected one of"),
        ("seed", "'seed' is not an override: write KEY=VALUE"),
        ("seed=1,2", "seed=1,2: give one value at a time"),
        ("seed=[1", r"seed=\[1: the list or mapping cannot be read. Close its brackets"),
        ("+extra=1", "no key 'extra'"),
        ("+data.extra=1", "no key 'data.extra'"),
        ("+sweep=x", r"no key 'sweep' \(did you mean tracking\.sweep\?\)"),
        ("~data.scale", "data.scale"),
        ("=3", "is not KEY=VALUE"),
        ("seed=-1", "seed=-1: must be at least 0"),
        ("seed=9223372036854775808", "seed=9223372036854775808: must be at most 9223372036854775807"),
        ("data.path=${nope}", "data.path: interpolation key 'nope' not found"),
        ("optimizer.learning_rate=nan", "learning_rate=nan: must be finite"),
        ("data.policies={careful: inf}", "data.policies.careful=inf: must be finite"),
    ],
)
def test_a_wrong_override_is_one_line(override: str, words: str) -> None:
    with pytest.raises(UsageError, match=words) as caught:
        load_program("train_verifier").identity(compose("train_verifier", [override]))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("override", "says", "named"),
    [
        ("data.scal=3", "unknown key", "data.scal"),
        ("model=scrach", "unknown choice", "model/scrach"),
        ("model=scrach", "choices", "tiny"),
        ("data.scale=many", "wrong value", "data.scale=many"),
        ("seed=1,2", "several values", "seed=1,2"),
    ],
)
def test_hydra_still_says_what_its_errors_are_known_by(override: str, says: str, named: str) -> None:
    """Hydra has no other sign of these errors than its English: where this fails after an update, HYDRA_SAYS has to follow."""
    load_program("train_verifier")
    register_resolvers()
    with initialize_config_dir(str(CONF), version_base="1.3"), pytest.raises(HydraException) as caught:
        hydra_compose("train_verifier", overrides=[override])
    found = HYDRA_SAYS[says].search(str(caught.value))
    assert found is not None, f"Hydra says now: {caught.value}"
    assert named in found[1].split() if says == "choices" else found[1] == named


def test_a_mapping_of_free_names_takes_new_names() -> None:
    assert dict(compose("train_verifier", ["data.policies={careful: 2, hasty: 1}"]).data.policies) == {
        "careful": 2.0,
        "hasty": 1.0,
    }
    assert dict(compose("train_verifier", ["data.policies.careful=2"]).data.policies) == {"careful": 2.0}
    with pytest.raises(UsageError, match="could not be converted to Float"):
        compose("train_verifier", ["data.policies={careful: much}"])


def test_paths_are_where_the_clone_is_and_nothing_is_written_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert compose("train_verifier").data.path == str(STARTER / "trajectories.parquet")
    assert list(tmp_path.iterdir()) == []


def test_models_with_random_weights_read_real_data_with_one_context_and_vocabulary() -> None:
    levels = ["scratch", "scratch_3m", "moe_active", "moe_total", "dense_large", "moe_large"]
    shapes = [compose("train_verifier", ["data=real", f"model={level}"]).model for level in levels]
    assert {(shape.max_positions, shape.tokenizer.vocab_size) for shape in shapes} == {(4096, 8192)}
    assert [shape.name for shape in shapes] == levels
    pretrained = compose("train_verifier", ["data=real", "model=hf", "model.pretrained=FOLDER"])
    assert (pretrained.prompt.max_tokens, pretrained.training.batch_size, pretrained.optimizer.learning_rate) == (
        4096,
        8,
        1e-5,
    )


def test_real_data_bring_a_context_and_batches_that_suit_them() -> None:
    config = compose("train_verifier", ["data=real"])
    assert (config.prompt.max_tokens, config.model.max_positions, config.model.tokenizer.vocab_size) == (
        4096,
        4096,
        8192,
    )
    assert config.prompt.over_length is OverLength.cut_observations
    assert (config.data.scale, config.training.batch_size, config.training.epochs) == (100, 8, 3)
    folds = compose("cross_validate")
    assert (config.prompt, config.model) == (folds.prompt, folds.model)
    assert {**config.training, "reference_scale": folds.training.reference_scale} == folds.training
    assert (config.evaluation.tasks, config.evaluation.validation_tasks) == (None, None), "all are judged"
    asked = compose("train_verifier", ["data=real", "prompt.max_tokens=900", "model=starter"])
    assert (asked.prompt.max_tokens, asked.model.max_positions) == (900, 1024), "what is asked for stands above"


@pytest.mark.parametrize("overrides", [[], ["preset=small"], ["preset=smoke", "data=real"], ["preset=paper"]])
def test_what_suits_real_data_touches_no_other_choice(overrides: list[str]) -> None:
    config = compose("train_verifier", overrides)
    assert config.prompt.max_tokens in (768, 1024, 262144)
    assert config.training.batch_size in (16, 32, 128)


def test_a_configuration_travels_as_plain_values() -> None:
    from rmlab.sweep.plan import plain

    config = compose("train_verifier", ["prompt.over_length=drop", "seed=3"])
    again = restore("train_verifier", plain(config))
    assert again == config
    assert again.prompt.over_length is OverLength.drop


def test_values_are_set_as_composing_would_and_groups_are_left_to_it() -> None:
    base = compose("train_verifier")
    values = ["data.scale=7", "training.match=steps"]
    assert with_values(base, values) == compose("train_verifier", values)
    names = ["data.policies={careful: 2, 2024_a-1.5: 1}", "data.sources={stdlib: 1}"]
    assert with_values(base, names) == compose("train_verifier", names)
    assert with_values(base, ["data.policies={careful: much}"]) is None
    assert with_values(base, ["model.tokenizer={vocab_size: 5}"]) is None
    assert with_values(base, ["model=tiny"]) is None
    assert with_values(base, ["data.scale=7", "preset=smoke"]) is None
    assert with_values(base, ["nothing.like_this=1"]) is None
    with pytest.raises(UsageError, match=r"data\.scale=x: value"):
        with_values(base, ["data.scale=x"])
    with pytest.raises(UsageError, match="seed=-3: must be at least 0"):
        with_values(base, ["seed=-3"])


@pytest.mark.parametrize(
    "overrides",
    [
        ["preset=smoke", "data.scale=20", "data.path=/a/b", "seed=3"],
        ["data.policies.careful=2", "data.scale=20"],
        ["data.policies={careful: 2}", "data.scale=20"],
        [
            "data.policies={careful: 2}",
            "data.sources={stdlib: 1}",
            "data.scale=20",
            "data.policies={hasty: 1, careful: 3}",
        ],
        ["data.scale=20", "model=tiny", "+data.policies.hasty=1", "prompt.over_length=drop"],
    ],
)
def test_values_set_over_groups_that_are_composed_once_are_composed_with_them(overrides: list[str]) -> None:
    config = compose("train_verifier", overrides)
    assert config == _composed("train_verifier", overrides)
    config.data.scale = 21
    assert compose("train_verifier", overrides).data.scale == 20, "what a caller changes is the caller's"


def test_another_value_without_a_dot_is_set_and_nothing_composed(monkeypatch: pytest.MonkeyPatch) -> None:
    compose("rl", ["rl_preset=smoke"])
    expected = _composed("rl", ["rl_preset=smoke", "start=somewhere", "seed=3"])
    monkeypatch.setattr("rmlab.configuration._composed", lambda *_: pytest.fail("composed"))
    assert compose("rl", ["rl_preset=smoke", "start=somewhere", "seed=2", "seed=3"]) == expected


@pytest.mark.parametrize(
    "override",
    [
        "optimizer.learning_rate=-1",
        "optimizer.beta2=1",
        "optimizer.warmup_fraction=2",
        "optimizer.weight_decay=-0.1",
        "training.batch_size=0",
        "training.threads=0",
        "model.heads=0",
        "model.layers=0",
    ],
)
def test_a_value_out_of_range_is_said_when_the_settings_are_made(override: str) -> None:
    with pytest.raises(UsageError, match=override.partition("=")[0]):
        OmegaConf.to_object(compose("train_verifier", [override]))


def test_programs_of_others_may_mean_something_by_a_number_below_zero(tmp_path: Path) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "layers.yaml").write_text("defaults: [layers_schema, _self_]\n")
    (tmp_path / "layers.py").write_text(
        "from dataclasses import dataclass\nfrom hydra.core.config_store import ConfigStore\n"
        "@dataclass\nclass Layers:\n    last: int = -1\nConfigStore.instance().store(name='layers_schema', node=Layers)\n"
    )
    assert compose(str(tmp_path / "layers.py")).last == -1


def test_a_program_by_name_or_path() -> None:
    assert load_program("train_verifier") is load_program("train_verifier")
    with pytest.raises(UsageError, match=r"no program 'train_verifer' \(did you mean train_verifier\?\)"):
        load_program("train_verifer")
    with pytest.raises(UsageError, match=r"no program '/nowhere\.py'"):
        load_program("/nowhere.py")


def test_a_file_that_fails_to_load_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("raise RuntimeError('no')")
    with pytest.raises(RuntimeError, match=r"^no$"):
        load_file(tmp_path / "broken.py")
    assert not [name for name in sys.modules if name.endswith(".broken")]


def test_near_names() -> None:
    assert near("scal", ["data.scale", "seed"]) == " (did you mean data.scale?)"
    assert near("zzz", ["data.scale"]) == ""


def test_composing_imports_nothing_heavy() -> None:
    """Any program's configuration: in one process, where the first that is at fault is named."""
    programs = sorted(path.stem for path in PROGRAMS.glob("[!_]*.py"))
    code = (
        f"import sys\nfrom rmlab.configuration import compose\nfor program in {programs}:\n    compose(program)\n"
        "    heavy = {'torch', 'transformers', 'mlflow', 'pandas', 'sklearn', 'matplotlib'} & set(sys.modules)\n"
        "    assert not heavy, (program, heavy)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "value",
    [
        "/data/ü.parquet",
        "it's",
        "a#b",
        "a=b",
        "f(x",
        "a(b)",
        '"',
        "a!b",
        "<x>",
        "a\\'b(",
        "(ends\\",
        "&;",
        "/a b/[x",
        "`x`",
    ],
)
def test_a_value_that_the_grammar_refuses_is_said_with_the_way_to_write_it(value: str) -> None:
    import shlex

    with pytest.raises(UsageError) as caught:
        compose("train_verifier", ["preset=smoke", f"data.path={value}"])
    said = str(caught.value)
    assert said.startswith(f"data.path={value}: "), "names the argument"
    assert "Exception" not in said
    assert "\n" not in said
    [written] = shlex.split(said.partition("shell: ")[2])
    assert compose("train_verifier", ["preset=smoke", written]).data.path == value, "what is advised works"


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("data.scale=[1,", "Close its brackets"),
        ("data.ü=3", "is not an override: write KEY=VALUE"),
        ("data.path=a\nü", "is not an override"),
        ("data.path", "is not an override: write KEY=VALUE"),
        ("data.path=~/x", f"data.path={Path.home()}/x|data.path='"),
    ],
)
def test_what_quoting_does_not_mend_is_said_too(override: str, words: str) -> None:
    with pytest.raises(UsageError, match=words) as caught:
        compose("train_verifier", ["preset=smoke", override])
    assert "\n" not in str(caught.value)
    assert "Exception" not in str(caught.value)


def test_a_choice_of_a_list_that_is_not_there_is_named_with_those_that_are() -> None:
    with pytest.raises(
        UsageError,
        match=r"policy=hastie: there is no such choice \(did you mean hasty\?\); there are: careful, .*topdown",
    ):
        compose("collect", ["policy=[careful,hastie]"])


@pytest.mark.parametrize("last", ["++data.scale=300", "data={scale: 300}"])
def test_the_last_override_of_a_value_wins_however_it_is_written(last: str) -> None:
    assert compose("train_verifier", ["data.scale=500", last]).data.scale == 300
