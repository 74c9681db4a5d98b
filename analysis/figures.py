"""The figures there are, by name, and how one is drawn: `analysis/NAME.py` has a function `draw`."""

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from analysis.policies import PolicyRun
    from analysis.tracked import SweepRuns

FIGURES = (
    "rm_at_k",
    "differences",
    "discrimination_calibration",
    "reliability",
    "score_distributions",
    "across_policies",
)
"""Of a sweep of verifiers."""
POLICY_FIGURES = ("rl_table", "rl_curves", "relation")
"""Of RL runs, whichever sweep they are of."""


def draw(group: "SweepRuns", out: Path, figures: Sequence[str] = FIGURES) -> list[Path]:
    """Draws figures of one group of comparable runs into its folder below `out`; returns the files."""
    return [path for figure in figures for path in import_module(f"analysis.{figure}").draw(group, out)]


def draw_policies(figure: str, policies: "Sequence[PolicyRun]", out: Path) -> list[Path]:
    """Draws a figure of RL runs; returns the files."""
    paths: list[Path] = import_module(f"analysis.{figure}").draw(policies, out)
    return paths
