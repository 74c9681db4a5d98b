"""The cells of a sweep, each with its configuration and its identity."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from omegaconf import DictConfig, OmegaConf, open_dict

from rmlab.configured_values import with_values
from rmlab.errors import RmlabError, UsageError
from rmlab.fingerprint import Identity
from rmlab.sweep.cells import SEED
from rmlab.sweep.owned_keys import refuse_owned
from rmlab.sweep.spec import SweepSpec
from rmlab.tracking.parameters import asked_keys, differing_keys
from rmlab.wording import counted


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
    return " ".join([f"{spec.factor}={level}", *([arm] if arm not in (main, "") else []), f"s{seed}"])


def shape(cells: Sequence[Cell]) -> str:
    """How many cells there are and why: `4 levels x 3 seeds = 12 cells`; arms where there are several."""
    spec = cells[0].sweep
    if spec.search:
        return f"{counted(spec.search.trials, 'trial')} x {counted(len(spec.seeds), 'seed')}"
    count = counted(len(cells), "cell")
    ways = [counted(len(spec.levels), "level")]
    if (arms := len(spec.arm_levels)) > 1:
        ways.append(counted(arms, "arm"))
    if len(spec.combinations) < len(spec.levels) * arms:  # a list, which crosses nothing
        ways = [counted(len(spec.combinations), "combination")]
    return f"{' x '.join([*ways, counted(len(spec.seeds), 'seed')])} = {count}"


def refuse_singular(overrides: Sequence[str]) -> None:
    """Raises UsageError for `level=2000` and `arm=steps`, which no program knows: a sweep takes lists."""
    for text in overrides:
        key, _, value = text.partition("=")
        if key in ("level", "arm"):
            raise UsageError(f"{text}: a sweep has {key}s. Choose them with {key}s=[{value.strip('[]')}].")


def expand(
    spec: SweepSpec,
    overrides: Sequence[str],
    compose: Callable[[str, Sequence[str]], DictConfig],
    identity: Callable[[DictConfig], Identity],
) -> list[Cell]:
    """The cells of a sweep: main arm first, then by level, seeds innermost. Composed once, or once a level that chooses a group.

    overrides: the user's, after those of the preset. compose, identity: the program's.
    Raises UsageError for a wrong override, RmlabError where the cells do not share their control hash.
    """
    refuse_owned(spec.factors, overrides)
    declared = spec.factors
    try:
        common = compose(spec.program, [*spec.overrides, *overrides])
    except UsageError:
        refuse_singular(overrides)
        raise
    if "tracking" not in common or SEED not in common:
        raise UsageError(
            f"program {spec.program!r} cannot be swept: its configuration lacks the keys seed and tracking"
        )
    cells = []
    for level, arm in spec.combinations:
        set_level = spec.sets(level, arm)
        base = with_values(common, set_level) or compose(spec.program, [*spec.overrides, *overrides, *set_level])
        OmegaConf.resolve(base)  # once a level: it is most of what a cell costs
        for seed in spec.seeds:
            config = base.copy()
            with open_dict(config):
                config[SEED] = seed
                config.tracking.update(
                    experiment=spec.name,
                    sweep=spec.name,
                    preset=spec.preset,
                    factors=[f.name for f in declared],
                    level=str(level),
                    arm=str(arm),
                    baseline=str(spec.baseline),
                    place=spec.levels.index(level) if level in spec.levels else None,
                    name=cell_name(spec, str(level), str(arm), seed),
                    asked=asked_keys([*set_level, *overrides, *spec.overrides]),
                )
            cells.append(Cell(spec, str(level), str(arm), seed, config, identity(config)))
    check_control(cells)
    return cells


def check_control(cells: Sequence[Cell]) -> None:
    """Raises RmlabError, naming a key, where two cells differ in more than their declared factors and seed."""
    for cell in cells[1:]:
        if cell.identity.control_hash != cells[0].identity.control_hash:
            differing = differing_keys(cells[0].identity.control, cell.identity.control)
            raise RmlabError(
                f"{cells[0].name} and {cell.name} differ in {', '.join(differing)}, which no declared factor "
                f"({', '.join(f.name for f in cell.sweep.factors)}) owns: the sweep would not be controlled. "
                "Remove it from the levels, or declare the factor that owns it."
            )


def plain(config: DictConfig) -> dict[str, Any]:
    """A cell's configuration as it travels to its process: resolved, plain, with enumerations by name."""
    container = OmegaConf.to_container(config, resolve=True, enum_to_str=True)
    assert isinstance(container, dict)
    return {str(key): value for key, value in container.items()}
