"""Regenerates figures from tracked runs: finds the sweeps in a store, draws every figure that fits, names the files."""

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rmlab.errors import RmlabError, UsageError
from rmlab.paths import runs_folder

if TYPE_CHECKING:
    from analysis.tracked import SweepRuns

FIGURES = ("rm_at_k", "discrimination_calibration", "reliability", "score_distributions")


def main(names: Sequence[str] = (), source: str | None = None, out: Path | None = None) -> list[Path]:
    """Draws figures and returns the files written.

    names: sweeps (all figures of each) or figures (of every sweep); none = all of both. source: a store's URI, the path of a
    sqlite file or of a bundle; default the project's own store. out: default `figures/` in the runs folder.
    Raises UsageError for an unknown name, RmlabError where there is no finished run to draw, DataError for a damaged bundle.
    """
    from analysis.tracked import group_runs
    from rmlab.tracking.bundles.reading import is_bundle, open_bundle
    from rmlab.tracking.query import runs
    from rmlab.tracking.run import FINISHED, STATUS
    from rmlab.tracking.store import Store

    if source and is_bundle(Path(source)):
        with open_bundle(Path(source)) as bundle:
            return _draw_chosen(group_runs(bundle.runs()), source, names, out)
    store = Store.open(source)
    return _draw_chosen(group_runs(runs(store, tags={"kind": "verifier", STATUS: FINISHED})), store.uri, names, out)


def _draw_chosen(groups: "Sequence[SweepRuns]", source: str, names: Sequence[str], out: Path | None) -> list[Path]:
    if not groups:
        raise RmlabError(
            f"{source} holds no finished run of a sweep. Launch one first, e.g. `rmlab sweep data_scale preset=smoke`."
        )
    sweeps = {group.sweep for group in groups}
    unknown = [name for name in names if name not in sweeps and name not in FIGURES]
    if unknown:
        raise UsageError(
            f"{unknown[0]!r} is neither a sweep in {source} ({', '.join(sorted(sweeps))}) nor a figure ({', '.join(FIGURES)})"
        )
    chosen_sweeps = [n for n in names if n in sweeps] or sorted(sweeps)
    chosen_figures = [n for n in names if n in FIGURES] or FIGURES
    chosen = [group for group in groups if group.sweep in chosen_sweeps]
    return [path for group in chosen for path in draw(group, out or runs_folder() / "figures", chosen_figures)]


def draw(group: "SweepRuns", out: Path, figures: Sequence[str] = FIGURES) -> list[Path]:
    """Draws figures of one group of comparable runs into its folder below `out`; returns the files."""
    return [path for figure in figures for path in importlib.import_module(f"analysis.{figure}").draw(group, out)]
