"""The options of a sweep, as they travel: to Hydra's sweeper, and into the command that goes on with it."""

from datetime import datetime, timedelta

import pytest
from omegaconf import OmegaConf

from rmlab.errors import UsageError
from rmlab.sweep.own_launchers import LAUNCHERS, own_settings
from rmlab.sweep.request import OnError, SweepOptions, read_request
from tests.sweeping import TOY, rmlab_here


def test_what_is_done_once_is_not_in_the_command_that_goes_on() -> None:
    options = SweepOptions(workers=3, on_error=OnError.cont, retry_failed=True, force=True, rerun_stale=True).dated()
    assert options.redo_before is not None
    assert datetime.now() - datetime.fromisoformat(options.redo_before) < timedelta(minutes=1)
    redo = ["--redo-before", options.redo_before]
    assert options.flags() == ["--workers", "3", "--on-error", "continue", *redo, "--rerun-stale"]
    assert options.changed().keys() == {"workers", "on_error", "retry_failed", "redo_before", "rerun_stale"}
    assert SweepOptions().flags() == []
    assert SweepOptions(rerun_without_weights=True).flags() == ["--rerun-without-weights"], (
        "for the cells still to come"
    )
    assert SweepOptions(stop_after=9).flags() == ["--stop-after", "9"], "each command has its own limit"
    assert SweepOptions(redo_before="2026-01-31").dated().redo_before == "2026-01-31"


def test_a_value_that_means_nothing_is_refused() -> None:
    with pytest.raises(UsageError, match="--workers 0: must be at least 1"):
        SweepOptions(workers=0)
    for minutes in (0, -1, float("inf"), float("nan")):
        with pytest.raises(UsageError, match=rf"--stop-after {minutes:g}: must be a finite number of minutes above 0"):
            SweepOptions(stop_after=minutes)
    with pytest.raises(UsageError, match="on_error=panic: must be one of stop, continue"):
        SweepOptions(on_error="panic")  # type: ignore[arg-type]  # as Hydra's sweeper gives it


def test_the_line_is_parted() -> None:
    request = read_request(
        ["preset=demo", "levels=[1,2]", "data.scale=3", "hydra/launcher=slurm", "hydra.launcher.minutes=5"]
    )
    assert request.choices == {"preset": "demo", "levels": [1, 2]}
    assert request.overrides == ["data.scale=3"]
    assert (request.launcher, request.settings) == ("slurm", ["hydra.launcher.minutes=5"])
    assert read_request([]).launcher == "local"
    for text, words in (("scale", "is not an override"), ("--x=1", "is not an override"), ("seeds=[1", "or a list")):
        with pytest.raises(UsageError, match=words):
            read_request([text])


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("workers", "x", "workers=x: must be a whole number"),
        ("workers", [1], r"workers=\[1\]: must be a whole number"),
        ("batch", True, "batch=True: must be a whole number"),
        ("batch", 0, "batch=0: must be at least 1"),
        ("stop_after", "soon", "stop_after=soon: must be a number of minutes"),
        ("dry_run", 3, "dry_run=3: must be true or false"),
        ("redo_before", 3, "redo_before=3: must be a time"),
        ("on_error", ["stop"], r"on_error=\['stop'\]: must be one of stop, continue"),
    ],
)
def test_an_option_of_another_kind_is_refused(option: str, value: object, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        SweepOptions(**{option: value})  # type: ignore[arg-type]  # as Hydra's sweeper gives it


@pytest.mark.parametrize(
    ("launcher", "setting", "words"),
    [
        ("local", "hydra.sweeper.params=3", "this has no effect on a sweep that launcher local runs"),
        ("local", "+hydra.sweeper.params=3", "this has no effect on a sweep that launcher local runs"),
        ("local", "hydra.job.env_set=3", "this has no effect on a sweep that launcher local runs"),
        ("local", "hydra.sweeper=3", "hydra.sweeper is a mapping. Set its keys, hydra.sweeper.KEY=VALUE"),
        ("local", "hydra.launcher=3", "or choose one with hydra/launcher=NAME"),
        ("local", "hydra=3", "hydra is a mapping. Set its keys, hydra.KEY=VALUE"),
        ("local", "hydra.launcher.workers=x", "workers must be a whole number"),
        ("local", "hydra.launcher.cells_per_gpu=[1]", "cells_per_gpu must be a whole number"),
        ("slurm", "hydra.launcher.more=3", "more must be a mapping"),
        ("slurm", "hydra.launcher.memory_gb=much", "memory_gb must be a number"),
        ("slurm", "hydra.launcher.partition=[gpu]", "partition must be a text"),
        ("local", "hydra.launcher.workers=0", "workers must be a whole number, at least 1"),
        ("local", "hydra.launcher.cells_per_gpu=null", "cells_per_gpu must be a whole number, at least 1"),
        ("local", "hydra.launcher.cells_per_gpu=true", "cells_per_gpu must be a whole number, at least 1"),
        ("local", "hydra.launcher.workers.x=3", "launcher local has no 'workers.x'"),
        ("local", "hydra.launcher._target_=os.system", "it has workers, cells_per_gpu"),
        ("slurm", "hydra.launcher.workers=null", "workers must be a whole number, at least 1"),
        ("slurm", "hydra.launcher.minutes=-3", "minutes must be a whole number, at least 1"),
        ("slurm", "hydra.launcher.gpus=-1", "gpus must be a number, at least 0"),
        ("[a,b]", "seed=1", "name one launcher, such as hydra/launcher=slurm"),
    ],
)
def test_a_setting_of_another_kind_is_refused_by_a_dry_run_too(launcher: str, setting: str, words: str) -> None:
    code, _, err = rmlab_here("sweep", TOY, "preset=one_arm", f"hydra/launcher={launcher}", setting, "--dry-run")
    assert code == 2
    assert (
        err.strip()
        .splitlines()[-1]
        .startswith(f"rmlab: {setting if launcher != '[a,b]' else 'hydra/launcher=[a,b]'}: ")
    )
    assert words in err


def test_settings_of_a_launcher_that_hold() -> None:
    asked = ["hydra.launcher.more={slurm_account: me}", "hydra.launcher.cpus=2", "hydra.launcher.partition=null"]
    own = own_settings("slurm", [*asked, "hydra.launcher.more.qos=7", "++hydra.launcher.minutes=9"])
    assert (own.more, own.cpus, own.partition, own.minutes) == ({"slurm_account": "me", "qos": 7}, 2, None, 9)
    assert own_settings("local", ["hydra.launcher.workers=null"]) == own_settings("local", [])
    assert own_settings("ray", ["hydra.launcher.address=null"]).address is None


def test_every_key_of_a_launcher_has_a_kind() -> None:
    """What its file says itself holds: a new key that takes a number is named among those."""
    for path in LAUNCHERS.glob("*.yaml"):
        own = own_settings(path.stem, [])
        for key in (key for key in own if key != "_target_"):
            value = OmegaConf.to_yaml({"value": own[key]}).partition(":")[2].strip()
            assert own_settings(path.stem, [f"hydra.launcher.{key}={value}"]) == own
