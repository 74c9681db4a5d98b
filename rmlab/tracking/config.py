"""Where runs are tracked."""

from dataclasses import dataclass


@dataclass
class TrackingConfig:
    """uri: MLflow store; null = the project's own sqlite file in the runs folder. experiment: null = by the kind of run.

    sweep, preset, factor, level, name: set by the sweeper; empty for a single run.
    """

    uri: str | None = None
    experiment: str | None = None
    sweep: str = ""
    preset: str = ""
    factor: str = ""
    level: str = ""
    name: str = ""
