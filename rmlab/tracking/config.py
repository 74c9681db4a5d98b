"""Where runs are tracked, and what a sweep records about the runs that it launches."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from omegaconf import DictConfig


LEVEL_NUMBER = "level_number"


@dataclass
class TrackingConfig:
    """uri: MLflow store; null = the project's own sqlite file in the runs folder. experiment: its name; null = by the kind of run.

    A sweep sets the rest, which is empty for a single run. factors: every declared factor, beginning with the one whose levels
    are compared; arm: level of the second factor, "" if there is none. baseline: the level that the others are
    compared with; place: position of this level among them. name: name of the run.
    settings: for a trial of a search, factor -> choice.
    asked: configuration keys that were given explicitly, listed first among the parameters.
    replaces: ids of finished runs of the same configuration that this one replaces; without it, a finished run is not repeated.
    """

    HASHED: ClassVar[bool] = False  # where a run is tracked changes no result

    uri: str | None = None
    experiment: str | None = None
    sweep: str = ""
    preset: str = ""
    factors: list[str] = field(default_factory=list)
    level: str = ""
    arm: str = ""
    baseline: str = ""
    place: int | None = None
    name: str = ""
    settings: dict[str, str] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    replaces: list[str] = field(default_factory=list)


def level_number(tracking: "TrackingConfig | DictConfig") -> float | None:
    """The level as a number, so that a chart can have it on an axis: 2000, a ratio 2:1 as 2, another word as its place."""
    first, colon, second = tracking.level.partition(":")
    try:
        return float(first) / float(second) if colon else float(first)
    except (ValueError, ZeroDivisionError):
        return None if tracking.place is None else float(tracking.place)


def sweep_params(tracking: "TrackingConfig | DictConfig") -> dict[str, str]:
    """Parameters of a sweep's runs: the level as a number, or the choices of a search by factor; {} for a single run."""
    number = level_number(tracking)
    return dict(tracking.settings) | ({LEVEL_NUMBER: f"{number:g}"} if number is not None else {})


def sweep_tags(tracking: "TrackingConfig | DictConfig") -> dict[str, str]:
    """The tags by which a sweep's runs are found; what is empty is left out."""
    tags = {
        "sweep": tracking.sweep,
        "preset": tracking.preset,
        "factor": tracking.factors[0] if tracking.factors else "",
        "level": tracking.level,
        "arm": tracking.arm,
        "baseline": tracking.baseline,
        "place": "" if tracking.place is None else str(tracking.place),
    }
    return {name: value for name, value in tags.items() if value}
