"""`rmlab figures`: draws figures again from tracked runs: finds the sweeps in a store, draws every figure that fits, names the files."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rmlab.errors import RmlabError, UsageError
from rmlab.paths import runs_folder

if TYPE_CHECKING:
    from analysis.tracked import AnyRun, SweepRuns

app = typer.Typer()


@app.command(epilog="Example: `rmlab figures data_scale -o figures`")
def figures(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="Sweeps or figures; none = all.", show_default=False)
    ] = None,
    source: Annotated[
        str | None, typer.Option("--from", help="A store's URL or file, or a bundle. Default: the project's own.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder. Default: figures/ in the runs folder.")
    ] = None,
) -> list[Path]:
    """Draw figures again from tracked runs: PDF, PNG and the CSV that each is drawn from."""
    paths = draw_figures(names or [], source, out)
    for path in paths:
        print(path)
    return paths


def draw_figures(names: Sequence[str] = (), source: str | None = None, out: Path | None = None) -> list[Path]:
    """Draws figures and returns the files written.

    names: sweeps (all figures of each) or figures (of every sweep, or of all RL runs); none = all of them. source: a store's
    URI, the path of a sqlite file or of a bundle; default the project's own store. out: default `figures/` in the runs folder.
    Raises UsageError for an unknown name, RmlabError where there is no finished run to draw, DataError for a damaged bundle.
    """
    from rmlab.tracking.bundles.reading import is_bundle, open_bundle
    from rmlab.tracking.query import runs
    from rmlab.tracking.store import Store
    from rmlab.tracking.tags import FINISHED, STATUS

    if source and is_bundle(Path(source)):
        with open_bundle(Path(source)) as bundle:
            return _draw_all(bundle.runs(), source, names, out)
    store = Store.open(source)
    found = [run for kind in ("verifier", "rl") for run in runs(store, tags={"kind": kind, STATUS: FINISHED})]
    return _draw_all(found, store.uri, names, out)


def _draw_all(found: "Sequence[AnyRun]", source: str, names: Sequence[str], out: Path | None) -> list[Path]:
    """Figures of RL runs, of verifier sweeps, or both where no name is given."""
    from analysis.policies import policy_runs
    from analysis.registry import Needs, registered
    from analysis.tracked import group_runs

    drawable = registered(Needs.rl)
    policies, of_policies = policy_runs(found), [name for name in names if name in drawable]
    if of_policies and not policies:
        raise RmlabError(
            f"{source} holds no finished RL run, which {of_policies[0]} is drawn from. Launch one first: `rmlab rl`."
        )
    paths = [
        path
        for name in (of_policies if names else drawable)
        if policies
        for path in drawable[name].draw(policies, out or runs_folder() / "figures")
    ]
    rest, groups = [name for name in names if name not in drawable], group_runs(found)
    if rest or (not names and (groups or not paths)):
        paths += _draw_chosen(groups, source, rest, out)
    return paths


def _draw_chosen(groups: "Sequence[SweepRuns]", source: str, names: Sequence[str], out: Path | None) -> list[Path]:
    from analysis.registry import Needs, draw_sweep, registered

    if not groups:
        raise RmlabError(
            f"{source} holds no finished run of a sweep. Launch one first, e.g. `rmlab sweep data_scale preset=smoke`."
        )
    sweeps = {group.sweep for group in groups}
    drawable = registered(Needs.sweep)
    unknown = [name for name in names if name not in sweeps and name not in drawable]
    if unknown:
        raise UsageError(
            f"{unknown[0]!r} is neither a sweep in {source} ({', '.join(sorted(sweeps))}) nor a figure "
            f"({', '.join([*drawable, *registered(Needs.rl)])})"
        )
    chosen_sweeps = [n for n in names if n in sweeps] or sorted(sweeps)
    chosen_figures = [n for n in names if n in drawable] or list(drawable)
    chosen = [group for group in groups if group.sweep in chosen_sweeps]
    return [path for group in chosen for path in draw_sweep(group, out or runs_folder() / "figures", chosen_figures)]
