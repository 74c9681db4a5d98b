"""A sweep file, and the cells that answer its question.

One file of `sweeps/` is one ablation: what is asked, the factor and its levels, the baseline, the seeds, what it costs by
preset, and what others reported. A second declared factor may be crossed with the first as `arms`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf, open_dict

from rmlab.ablation.cells import SEED, Identity
from rmlab.ablation.factors import Factor, find_factors
from rmlab.configuration import near, with_values
from rmlab.errors import RmlabError, UsageError
from rmlab.paths import SWEEPS

Level = str | int | float


@dataclass
class Arms:
    """A second declared factor and its levels; the first is the main arm."""

    factor: str
    levels: list[Level]


@dataclass
class Preset:
    """What a preset says in place of the sweep, and overrides of the program's configuration."""

    levels: list[Level] | None = None
    baseline: Level | None = None
    seeds: list[int] | None = None
    arms: list[Level] | None = None
    overrides: list[str] = field(default_factory=list)


@dataclass
class SweepSpec:
    """A sweep at one preset.

    levels: of `factor`. baseline: the level that the others are compared with. cost: by preset, in words.
    reported: what others found. note: what a reader should know beside the table.
    """

    name: str
    preset: str
    question: str
    program: str
    factor: str
    levels: list[Level]
    baseline: Level
    seeds: list[int]
    arms: Arms | None = None
    cost: dict[str, str] = field(default_factory=dict)
    reported: str = ""
    note: str = ""
    overrides: list[str] = field(default_factory=list)

    @property
    def factors(self) -> tuple[Factor, ...]:
        """The declared factors; the one whose levels are compared comes first."""
        return find_factors([self.factor, *([self.arms.factor] if self.arms else [])])

    @property
    def arm_levels(self) -> list[Level]:
        """Levels of the second factor, one empty arm where there is none."""
        return self.arms.levels if self.arms else [""]


@dataclass(frozen=True)
class Cell:
    """One level of each declared factor, and a seed. arm: "" where the sweep has no second factor."""

    sweep: SweepSpec
    level: str
    arm: str
    seed: int
    config: DictConfig
    identity: Identity

    @property
    def name(self) -> str:
        """What one reads in the UI: `data_scale=2000 s1`, in a further arm `data_scale=2000 steps s1`."""
        return cell_name(self.sweep, self.level, self.arm, self.seed)


def cell_name(spec: SweepSpec, level: str, arm: str, seed: int) -> str:
    """The name of a run; the main arm goes without saying."""
    main = str(spec.arm_levels[0])
    return " ".join([f"{spec.factor}={level}", *([arm] if arm != main else []), f"s{seed}"])


def read_sweep(name: str, preset: str | None = None, changes: Mapping[str, Any] | None = None) -> SweepSpec:
    """Reads `sweeps/NAME.yaml`, or the file that `name` is the path of (*.yaml), at a preset.

    preset: None = demo, else the first one that the file has. changes: levels, baseline, seeds, arms that replace the file's.
    Raises UsageError, in one line, for a name or preset that is not there and for a file that does not say what it has to.
    """
    path = Path(name) if name.endswith(".yaml") else SWEEPS / f"{name}.yaml"
    if not path.is_file():
        there = sorted(p.stem for p in SWEEPS.glob("*.yaml"))
        raise UsageError(f"there is no sweep {name!r}{near(name, there)}; there are: {', '.join(there)}, or any file *.yaml")
    name = path.stem
    raw = _mapping(path)
    presets = raw.pop("presets", None)
    if not isinstance(presets, dict) or not presets:
        raise UsageError(f"{path}: presets are missing, at least one is needed")
    preset = preset or ("demo" if "demo" in presets else next(iter(presets)))
    if preset not in presets:
        raise UsageError(f"sweep {name} has no preset {preset!r}{near(preset, presets)}; it has: {', '.join(presets)}")
    for key, value in {**_typed(Preset, presets[preset] or {}, f"{path}, preset {preset}"), **(changes or {})}.items():
        if key == "arms":
            if value is not None:
                raw["arms"] = {**(raw.get("arms") or {}), "levels": value}
        elif key == "overrides":
            raw["overrides"] = value
        elif value is not None:
            raw[key] = value
    arms = raw.pop("arms", None)
    values = _typed(SweepSpec, {"name": name, "preset": preset, **raw}, str(path))
    if arms:
        values["arms"] = Arms(**_typed(Arms, arms, f"{path}, arms"))
    if values["program"].endswith(".py"):
        values["program"] = str((path.parent / values["program"]).resolve())
    spec = SweepSpec(**values)
    _check(spec, path)
    return spec


def _mapping(path: Path) -> dict[str, Any]:
    import yaml

    try:
        raw = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is not readable YAML: {' '.join(str(error).split())}") from error
    if not isinstance(raw, dict):
        raise UsageError(f"{path} holds no sweep: question, program, factor, levels, baseline, seeds, presets")
    return raw


_KINDS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "levels": (lambda v: _list_of(v, (int, float, str)), "a list of numbers or words"),
    "arms": (lambda v: _list_of(v, (int, float, str)), "a list of words"),
    "seeds": (lambda v: _list_of(v, (int,)), "a list of whole numbers"),
    "overrides": (lambda v: v == [] or _list_of(v, (str,)), "a list of KEY=VALUE"),
    "baseline": (lambda v: isinstance(v, int | float | str), "one of the levels"),
    "cost": (lambda v: isinstance(v, dict), "a text by preset"),
}


def _list_of(value: Any, kinds: tuple[type, ...]) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(v, kinds) and not isinstance(v, bool) for v in value)


def _typed(kind: type, raw: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The fields of a dataclass from plain values. Raises UsageError for what is unknown, missing or of another type."""
    if not isinstance(raw, Mapping):
        raise UsageError(f"{where}: it must be a mapping")
    known = [f.name for f in fields(kind)]
    for key, value in raw.items():
        if key not in known:
            raise UsageError(f"{where}: there is no key {key!r}{near(str(key), known)}; the keys are {', '.join(known)}")
        holds, what = _KINDS.get(key, (lambda v: isinstance(v, str), "a text"))
        if value is not None and not holds(value):
            raise UsageError(f"{where}: {key}={value} must be {what}")
    required = [f.name for f in fields(kind) if f.name not in raw and kind is not Preset and f.default is f.default_factory]
    if required:
        raise UsageError(f"{where}: {required[0]} is missing")
    return {key: value for key, value in raw.items() if value is not None}


def _check(spec: SweepSpec, path: Path) -> None:
    factors = spec.factors
    if spec.baseline not in spec.levels:
        raise UsageError(f"{path}, preset {spec.preset}: baseline={spec.baseline} is none of the levels {spec.levels}")
    many: dict[str, Sequence[Level]] = {"levels": spec.levels, "seeds": spec.seeds, "arms": spec.arm_levels}
    for name, values in many.items():
        if len({str(v) for v in values}) < len(values):
            raise UsageError(f"{path}, preset {spec.preset}: {name}={list(values)} has one of them twice")
    if len({f.name for f in factors}) < len(factors):
        raise UsageError(f"{path}: arms cross {spec.factor} with itself")


def refuse_owned_overrides(spec: SweepSpec, overrides: Sequence[str]) -> None:
    """Raises UsageError for an override of what the sweep itself sets."""
    for text in overrides:
        key = text.partition("=")[0].lstrip("+~")
        if key == SEED:
            raise UsageError(f"{text}: the sweep sets the seed. Choose its seeds with seeds=[0,1].")
        for factor in spec.factors:
            if any(key == owned or key.startswith(f"{owned}.") for owned in factor.owns):
                raise UsageError(f"{text}: {key} is what {factor.name} varies in this sweep. Choose its levels with levels=[...].")


def expand(spec: SweepSpec, overrides: Sequence[str], compose: Callable[[str, Sequence[str]], DictConfig],
           identity: Callable[[DictConfig], Identity]) -> list[Cell]:
    """The cells of a sweep: main arm first, then by level, seeds innermost. Composed once, or once a level that chooses a group.

    overrides: the user's, after those of the preset. compose, identity: the program's.
    Raises UsageError for a wrong override, RmlabError where the cells do not share their control hash.
    """
    refuse_owned_overrides(spec, overrides)
    declared = spec.factors
    common = compose(spec.program, [*spec.overrides, *overrides])
    if "tracking" not in common or SEED not in common:
        raise UsageError(f"program {spec.program!r} cannot be swept: its configuration has no keys seed and tracking")
    cells = []
    for arm in spec.arm_levels:
        for level in spec.levels:
            set_level = declared[0].overrides(level) + (declared[1].overrides(arm) if spec.arms else [])
            base = with_values(common, set_level) or compose(spec.program, [*spec.overrides, *overrides, *set_level])
            for seed in spec.seeds:
                config = base.copy()
                with open_dict(config):
                    config[SEED] = seed
                    config.tracking.update(
                        experiment=spec.name, sweep=spec.name, preset=spec.preset, factors=[f.name for f in declared],
                        level=str(level), arm=str(arm), name=cell_name(spec, str(level), str(arm), seed))
                cells.append(Cell(spec, str(level), str(arm), seed, config, identity(config)))
    check_control(cells)
    return cells


def check_control(cells: Sequence[Cell]) -> None:
    """Raises RmlabError, naming a key, where two cells differ in more than their declared factors and seed."""
    for cell in cells[1:]:
        if cell.identity.control_hash != cells[0].identity.control_hash:
            differing = _difference(cells[0].identity.control, cell.identity.control)
            raise RmlabError(
                f"{cells[0].name} and {cell.name} differ in {', '.join(differing)}, which no declared factor "
                f"({', '.join(f.name for f in cell.sweep.factors)}) owns: the sweep would not be controlled. "
                "Take it out of the levels, or declare the factor that owns it.")


def _difference(one: Any, other: Any, path: str = "") -> list[str]:
    """Dotted paths at which two trees of plain values differ."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        keys = sorted({*one, *other}, key=str)
        return [p for key in keys for p in _difference(one.get(key), other.get(key), f"{path}.{key}" if path else str(key))]
    return [] if one == other else [path]


def plain(config: DictConfig) -> dict[str, Any]:
    """A cell's configuration as it travels to its process: resolved, plain, with enumerations by name."""
    container = OmegaConf.to_container(config, resolve=True, enum_to_str=True)
    assert isinstance(container, dict)
    return {str(key): value for key, value in container.items()}
