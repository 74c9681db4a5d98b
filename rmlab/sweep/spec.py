"""A sweep file: the question, the factor and its levels, the baseline, the seeds, the cost by preset, and what others reported.

A second declared factor may be crossed with the first as `arms`, or any number of them as `grid`; `list` names the cells one by
one; `search` looks for the best cell (`rmlab.sweep.search_spec`). A level is a value of the factor's key, or a name; under
`named`, the file lists the overrides that a name stands for, and they may only set the factor's own keys.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

from rmlab.errors import UsageError
from rmlab.paths import SWEEPS
from rmlab.sweep.factors import Factor, find_factors
from rmlab.sweep.owned_keys import refuse_owned
from rmlab.sweep.search_spec import SearchSpec, read_search
from rmlab.sweep.typed_yaml import typed, yaml_mapping
from rmlab.wording import near

Level = str | int | float


@dataclass
class Arms:
    """A second declared factor and its levels; the first is the main arm."""

    factor: str
    levels: list[Level]
    named: dict[str, list[str]] = field(default_factory=dict)


@dataclass
class Preset:
    """What a preset says in place of the sweep, and overrides of the program's configuration."""

    levels: list[Level] | None = None
    baseline: Level | None = None
    seeds: list[int] | None = None
    arms: list[Level] | None = None
    trials: int | None = None
    named: dict[str, list[str]] | None = None
    overrides: list[str] = field(default_factory=list)


@dataclass
class SweepSpec:
    """A sweep at one preset.

    levels: the levels of `factor`. named: the overrides that a level's name stands for. baseline: the level that the others are
    compared with. grid: more factors, all crossed with the first. listed: the level of each factor, cell by cell. search: see
    SearchSpec. cost: text by preset, empty where other cells were chosen than the file has. reported: what others found. note: what a
    reader of the table should know.
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
    grid: list[Arms] = field(default_factory=list)
    listed: list[dict[str, Level]] = field(default_factory=list)
    search: SearchSpec | None = None
    named: dict[str, list[str]] = field(default_factory=dict)
    cost: dict[str, str] = field(default_factory=dict)
    reported: str = ""
    note: str = ""
    overrides: list[str] = field(default_factory=list)

    @property
    def factors(self) -> tuple[Factor, ...]:
        """The declared factors; the one whose levels are compared comes first."""
        if self.search:
            return find_factors(self.search.space)
        listed = [name for cell in self.listed for name in cell]
        return find_factors(dict.fromkeys([self.factor, *listed, *(one.factor for one in self._crossed)]))

    @property
    def arm_levels(self) -> list[Level]:
        """Levels of the second factor, or of all further ones together; one empty arm where there is none."""
        if self.arms:
            return self.arms.levels
        return list(dict.fromkeys(arm for _, arm in self.combinations))

    @property
    def combinations(self) -> list[tuple[Level, Level]]:
        """(level, arm) of every cell of one seed: main arm first, then by level; a list in its own order."""
        if self.listed:
            return [(cell[self.factor], _together(cell, self.factor)) for cell in self.listed]
        arms: list[Level] = self.arms.levels if self.arms else [_together(one) for one in self._products]
        return [(level, arm) for arm in arms for level in self.levels]

    def sets(self, level: Level, arm: Level = "") -> list[str]:
        """The overrides of a cell's configuration at a level, and at an arm where there are arms."""
        further: dict[str, Level] = {}
        if self.search:
            return []  # what the search starts from
        if self.arms:
            further = {self.arms.factor: arm}
        elif self.listed:
            [further] = [c for c in self.listed if c[self.factor] == level and _together(c, self.factor) == arm]
        elif self.grid:
            [further] = [one for one in self._products if _together(one) == arm]
        named = {one.factor: one.named for one in self._crossed}
        chosen = _meaning(self.factors[0], self.named, level)
        for factor in self.factors[1:]:
            if factor.name in further:
                chosen = chosen + _meaning(factor, named.get(factor.name, {}), further[factor.name])
        return chosen

    def meaning(self, factor: str, level: Level) -> list[str]:
        """The overrides that set one of the factors of a search."""
        return _meaning(find_factors([factor])[0], self.named, level)

    @property
    def _crossed(self) -> list[Arms]:
        return [self.arms] if self.arms else self.grid

    @property
    def _products(self) -> list[dict[str, Level]]:
        """A level of each factor of the grid, the last one innermost."""
        names = [one.factor for one in self.grid]
        return [dict(zip(names, levels, strict=True)) for levels in product(*(one.levels for one in self.grid))]


def _together(levels: Mapping[str, Level], but: str = "") -> str:
    """Levels of several factors as one word for the arm."""
    return " ".join(f"{name}={level}" for name, level in levels.items() if name != but)


def _meaning(factor: Factor, named: Mapping[str, list[str]], level: Level) -> list[str]:
    return named[str(level)] if str(level) in named else factor.overrides(level)


def read_sweep(name: str, preset: str | None = None, changes: Mapping[str, Any] | None = None) -> SweepSpec:
    """Reads `sweeps/NAME.yaml`, or the file that `name` is the path of (*.yaml), at a preset.

    preset: None = demo, else the first one that the file has. changes: levels, baseline, seeds, arms that replace the file's.
    Raises UsageError, in one line, for a name or preset that is not there and for a file that does not say what it has to.
    """
    path = Path(name) if name.endswith(".yaml") else SWEEPS / f"{name}.yaml"
    if not path.is_file():
        there = sorted(p.stem for p in SWEEPS.glob("*.yaml"))
        raise UsageError(
            f"there is no sweep {name!r}{near(name, there)}; there are: {', '.join(there)}, or any file *.yaml"
        )
    name = path.stem
    raw = yaml_mapping(path)
    presets = raw.pop("presets", None)
    if not isinstance(presets, dict) or not presets:
        raise UsageError(
            f"{path}: presets are missing; at least one is needed, such as `presets: {{demo: {{overrides: [preset=demo]}}}}`"
        )
    if isinstance(preset, list | dict):
        raise UsageError(
            f"preset={preset} must be the name of one preset; sweep {name} has: {', '.join(map(str, presets))}"
        )
    preset = preset or ("demo" if "demo" in presets else next(iter(presets)))
    if preset not in presets:
        raise UsageError(
            f"sweep {name} has no preset {preset!r}{near(str(preset), map(str, presets))}; it has: {', '.join(map(str, presets))}"
        )
    of_preset = typed(Preset, presets[preset] or {}, f"{path}, preset {preset}", whole=False)
    if _other_cells(raw, of_preset, changes or {}):
        raw.pop("cost", None)  # it is of the file's own cells
    for key, value in {**of_preset, **(changes or {})}.items():
        if key == "arms":
            if value is not None:
                raw["arms"] = {**_mapping(raw, "arms", path), "levels": value}
        elif key == "trials":
            raw["search"] = {**_mapping(raw, "search", path), "trials": value}
        elif key == "overrides":
            raw["overrides"] = value
        elif value is not None:
            raw[key] = value
    arms, grid, listed = raw.pop("arms", None), raw.pop("grid", None), raw.pop("list", None)
    search = read_search(raw, path) if "search" in raw else None
    if listed is not None:
        raw["levels"] = _levels_of(listed, raw.get("factor"), path)
    values = typed(SweepSpec, {"name": name, "preset": preset, **raw}, str(path))
    if arms:
        values["arms"] = Arms(**typed(Arms, arms, f"{path}, arms"))
    values |= {"grid": _read_grid(grid, path) if grid else [], "listed": listed or [], "search": search}
    if values["program"].endswith(".py"):
        values["program"] = str((path.parent / values["program"]).resolve())
    spec = SweepSpec(**values)
    _check(spec, path)
    return spec


def _mapping(raw: Mapping[str, Any], key: str, path: Path) -> dict[str, Any]:
    """What the file has under a key; empty where it has nothing. Raises UsageError where that is no mapping."""
    value = raw.get(key) or {}
    if not isinstance(value, dict):
        raise UsageError(f"{path}: {key}={value} must be a mapping")
    return value


def _other_cells(raw: Mapping[str, Any], preset: Mapping[str, Any], changes: Mapping[str, Any]) -> bool:
    """Whether the changes choose other cells than the file's preset has."""
    within = {"arms": ("arms", "levels"), "trials": ("search", "trials")}
    for key in ("levels", "seeds", "arms", "trials"):
        own = preset.get(key)
        if own is None:
            group, name = within.get(key, ("", key))
            where = raw.get(group) if group else raw
            own = where.get(name) if isinstance(where, Mapping) else None
        if key in changes and _in_order(changes[key]) != _in_order(own):
            return True
    return False


def _in_order(value: Any) -> list[str]:
    return sorted(map(str, value)) if isinstance(value, list) else [str(value)]


def _read_grid(grid: Any, path: Path) -> list[Arms]:
    """`grid: {FACTOR: [LEVEL, ...], ...}`, or {levels, named} for a factor whose levels have names."""
    if not isinstance(grid, dict):
        raise UsageError(f"{path}: grid={grid} must be levels by factor")
    return [
        Arms(
            **typed(
                Arms, {"factor": str(name), **(of if isinstance(of, dict) else {"levels": of})}, f"{path}, grid, {name}"
            )
        )
        for name, of in grid.items()
    ]


def _levels_of(listed: Any, factor: Any, path: Path) -> list[Level]:
    """The levels that a list of cells has of its first factor."""
    if (
        not isinstance(listed, list)
        or not listed
        or not all(isinstance(cell, dict) and factor in cell for cell in listed)
    ):
        raise UsageError(
            f"{path}: list must consist of cells such as {{{factor}: LEVEL, OTHER_FACTOR: LEVEL}}, each with a level of {factor}"
        )
    if len({tuple(map(str, cell.items())) for cell in listed}) < len(listed):
        raise UsageError(f"{path}: list contains the same cell twice")
    return list(dict.fromkeys(cell[factor] for cell in listed))


def _check(spec: SweepSpec, path: Path) -> None:
    factors = spec.factors
    if sum(map(bool, (spec.arms, spec.grid, spec.listed, spec.search))) > 1:
        raise UsageError(f"{path}: arms, grid, list and search exclude each other: use one of them")
    refuse_owned(factors, spec.overrides, f"{path}, preset {spec.preset}")
    if spec.search:
        spec.search.check(path, spec.named)
        return
    if spec.baseline not in spec.levels:
        raise UsageError(
            f"{path}, preset {spec.preset}: baseline={spec.baseline} is not one of the levels {spec.levels}: "
            "add it to the levels, or set baseline=LEVEL"
        )
    many: dict[str, Sequence[Level]] = {"levels": spec.levels, "seeds": spec.seeds, "arms": spec.arm_levels}
    for name, values in many.items():
        if len({str(v) for v in values}) < len(values):
            raise UsageError(f"{path}, preset {spec.preset}: {name}={list(values)} contains a value twice")
    if spec.factor in [one.factor for one in spec._crossed] or len({one.factor for one in spec._crossed}) < len(
        spec._crossed
    ):
        raise UsageError(f"{path}: arms cross {spec.factor} with itself")
    _check_named(path, factors[0], spec.levels, spec.named)
    for one, factor in zip(spec._crossed, factors[1:], strict=False):
        _check_named(path, factor, one.levels, one.named)


def _check_named(path: Path, factor: Factor, levels: Sequence[Level], named: Mapping[str, list[str]]) -> None:
    """Every level can be set, and no name reaches beyond the factor's own keys."""
    for level in levels:
        if not factor.sets and str(level) not in named:
            raise UsageError(
                f"{path}: level {level} of {factor.name} is not defined{near(str(level), named)}; "
                f"`named` defines: {', '.join(named) or 'none'}"
            )
    for name, overrides in named.items():
        for text in overrides:
            key = text.partition("=")[0].lstrip("+~")
            if not factor.owns_key(key):
                raise UsageError(
                    f"{path}: level {name} sets {key}, which {factor.name} does not own (it owns {', '.join(factor.owns)})"
                )
