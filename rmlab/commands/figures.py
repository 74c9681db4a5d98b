"""`rmlab figures`: finds the sweeps among tracked runs, draws every figure that their runs allow, and prints the files."""

import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rmlab.errors import RmlabError, UsageError
from rmlab.files import atomic_path
from rmlab.paths import SWEEPS, runs_folder
from rmlab.progress import progress
from rmlab.scratch import scratch_folder
from rmlab.wording import counted, near

if TYPE_CHECKING:
    from analysis.rl.policies import PolicyRun
    from analysis.sweep.tracked import SweepRuns
    from rmlab.tracking.bundles.reading import AnyRun

app = typer.Typer()

ON_PAGES = (".png", ".csv")


@app.command(
    epilog="Example: `rmlab figures data_scale -o figures`. From the runs that travel with a study: "
    "`rmlab figures --from experiments/studies/label_ratio/runs.zip --page experiments/studies/label_ratio`"
)
def figures(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME]...", help="Sweeps or figures. Default: all.", show_default=False),
    ] = None,
    source: Annotated[
        str | None,
        typer.Option(
            "--from",
            help="A store's URL or file, a bundle, an extracted bundle, or a folder of bundles. Default: the project's store.",
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder. Default: figures/ in the runs folder.")
    ] = None,
    page: Annotated[
        Path | None,
        typer.Option(
            help="Write PNG and CSV directly into this folder, a study's page; of several sweeps each into a folder of its name. The "
            "runs of a sweep must share their figures."
        ),
    ] = None,
    group: Annotated[
        str, typer.Option(help="Only runs whose figure folder (SWEEP/PRESET-CONTROLHASH, rl/...) contains this text.")
    ] = "",
) -> list[Path]:
    """Redraw figures and tables from tracked runs: PDF, PNG and the CSV behind each. The same runs give the same bytes."""
    began = time.monotonic()
    paths = draw_figures(names or [], source, out, page=page, group=group)
    for path in paths:
        print(path)
    drawn = dict.fromkeys(path.stem for path in paths)
    took = time.monotonic() - began
    print(f"drawn in {took:.1f} s: {', '.join(drawn) or 'nothing'}", file=sys.stderr)
    return paths


def draw_figures(
    names: Sequence[str] = (),
    source: str | None = None,
    out: Path | None = None,
    *,
    page: Path | None = None,
    group: str = "",
) -> list[Path]:
    """Draws figures and returns the files written.

    names: sweeps (all figures of each) or figures (of every sweep, or of all RL runs); none = all of them. source: a store's
    URI, the path of a sqlite file, a bundle or a folder with bundles; default the project's own store. out: default `figures/` in
    the runs folder. page: instead of `out`, the folder that gets PNG and CSV themselves, those of several sweeps in a folder of each
    one's name. group: only runs with this in the name of their folder.
    Raises UsageError for an unknown name, RmlabError where there is no finished run to draw, DataError for a damaged bundle.
    """
    from analysis.sweep.tracked import source_runs
    from rmlab.tracking.tags import FINISHED, REPLACED

    if page is not None and out is not None:
        raise UsageError("name --page or --out, not both")
    with source_runs(source, ("verifier", "rl"), (FINISHED, REPLACED)) as (where, tracked):
        drawings = _chosen(tracked, where, names, group, is_own=source is None)
        if page is None:
            return _drawn(drawings, out or runs_folder() / "figures")
        folders = list(dict.fromkeys(folder for drawing in drawings for folder in drawing.folders))
        apart = _apart(folders, where)
        with scratch_folder() as scratch:

            def place(path: Path) -> Path:
                names = (name for folder, name in apart.items() if scratch / folder in path.parents)
                return page / next(names, "")

            return [copy for path in _drawn(drawings, scratch) for copy in onto_page([path], place(path))]


def _apart(folders: Sequence[str], source: str) -> dict[str, str]:
    """Where runs do not share figures: each of their folders -> its sweep, the folder of its figures on a page. Raises UsageError where
    that does not tell them apart."""
    if len(folders) < 2:
        return {}
    names = {folder: folder.partition("/")[0] for folder in folders}
    if len(set(names.values())) < len(folders) or "rl" in names.values():
        raise UsageError(
            f"{source} holds runs that do not share figures, and a page can show only one group of a sweep or of RL runs: "
            f"{', '.join(folders)}. Choose one with --group."
        )
    return names


def onto_page(paths: Sequence[Path], page: Path) -> list[Path]:
    """Copies of those files that stand on pages of studies, in the folder `page`."""
    chosen = [path for path in paths if path.suffix in ON_PAGES]
    for path in chosen:
        with atomic_path(page / path.name) as temporary:
            temporary.write_bytes(path.read_bytes())
    return [page / path.name for path in chosen]


class _Drawing:
    """One figure that will be drawn. folders: below the folder of figures, those that its files go to. lacks: why it is not drawn,
    asked where it draws nothing."""

    def __init__(
        self,
        name: str,
        folders: Sequence[str],
        draw: Callable[[Path], list[Path]],
        lacks: Callable[[], str] = lambda: "",
    ) -> None:
        self.name, self.folders, self.draw, self.lacks = name, folders, draw, lacks


def _drawn(drawings: Sequence[_Drawing], out: Path) -> list[Path]:
    paths, missing = [], []
    with progress("drawing", len(drawings), "figures") as advance:
        for drawing in drawings:
            files = drawing.draw(out)
            paths += files
            advance(1, drawing.name)
            if not files and (why := drawing.lacks()):
                missing.append(f"{drawing.name} of {', '.join(drawing.folders)} is not drawn: {why}")
    for line in missing:
        print(line, file=sys.stderr)
    return paths


def _chosen(
    tracked: "Sequence[AnyRun]", source: str, names: Sequence[str], part: str, is_own: bool = True
) -> list[_Drawing]:
    """Figures of RL runs, of verifier sweeps, or both where no name is given. is_own: whether the source is the project's own store."""
    from analysis.registry import Needs, registered
    from analysis.rl.policies import comparable, policy_runs
    from analysis.sweep.tracked import group_runs

    drawable = registered(Needs.rl) | registered(Needs.rl_study)
    of_policies = [name for name in names if name in drawable]
    policies = policy_runs(tracked) if of_policies or not names else []
    groups = {f"{group.folder(Path())}": group for group in group_runs(tracked)}
    of_rl = {f"rl/{name}": runs for name, runs in comparable(policies).items()}
    if part and not any(part in folder for folder in (*groups, *of_rl)):
        raise UsageError(
            f"--group {part} matches no run; {source} has {', '.join((*groups, *of_rl)) or 'no finished run'}"
        )
    groups = {folder: group for folder, group in groups.items() if part in folder}
    of_rl = {folder: runs for folder, runs in of_rl.items() if part in folder}

    if of_policies and not of_rl:
        raise RmlabError(
            f"{source} holds no finished RL run, which {of_policies[0]} needs" + _instead("`rmlab rl`", tracked, is_own)
        )
    drawings = [_of_policies(name, of_rl) for name in (of_policies if names else drawable) if of_rl]
    rest = [name for name in names if name not in drawable]
    if rest or (not names and (groups or not drawings)):
        launch = "e.g. `rmlab sweep data_scale preset=smoke`"
        drawings += _of_sweeps(groups, source, rest, _instead(launch, tracked, is_own))
    return drawings


def _instead(command: str, tracked: "Sequence[AnyRun]", is_own: bool) -> str:
    """How a message ends that a kind of run is lacking: the command that makes one, or of a source that was named what it holds."""
    if is_own:
        return f". Launch one first{',' if command.startswith('e.g.') else ':'} {command}."
    kinds = Counter("RL run" if run.tags["kind"] == "rl" else "verifier run" for run in tracked)
    held = " and ".join(counted(number, f"finished {kind}") for kind, number in kinds.items())
    return f"; it holds {held or 'no finished run of RL or of a verifier'}. Name another source with --from."


def _of_policies(name: str, of_rl: "dict[str, list[PolicyRun]]") -> _Drawing:
    from analysis.registry import Needs, registered

    policies = [run for runs in of_rl.values() for run in runs]
    figure = registered()[name]
    folders = [] if figure.needs is Needs.rl_study else list(of_rl)  # one of all runs goes beside any other
    return _Drawing(name, folders, lambda out: figure.draw(policies, out))


def _of_sweeps(groups: "dict[str, SweepRuns]", source: str, names: Sequence[str], instead: str) -> list[_Drawing]:
    from analysis.registry import Needs, draw_sweep, registered

    sweeps = {group.sweep for group in groups.values()}
    drawable = registered(Needs.sweep)
    unknown = [name for name in names if name not in sweeps and name not in drawable]
    if unknown and (elsewhere := registered().get(unknown[0])):
        raise UsageError(f"{elsewhere.name} is drawn from {elsewhere.needs}: `{elsewhere.needs.command}` draws it")
    declared = {path.stem for path in SWEEPS.glob("*.yaml")}  # one of these has not run yet
    hint = (
        near(unknown[0], [*sorted(sweeps | declared), *registered()]) if unknown and unknown[0] not in declared else ""
    )
    if not groups and not hint:
        raise RmlabError(f"{source} holds no finished run of a sweep{instead}")
    if unknown:
        raise UsageError(
            f"{unknown[0]!r}{hint} is neither a sweep in {source} ({', '.join(sorted(sweeps)) or 'none'}) nor a figure "
            f"({', '.join([*drawable, *registered(Needs.rl), *registered(Needs.rl_study)])})"
        )
    chosen_sweeps = [n for n in names if n in sweeps] or sorted(sweeps)
    chosen_figures = [n for n in names if n in drawable] or list(drawable)
    return [
        _Drawing(
            figure,
            [folder],
            partial(draw_sweep, group, names=[figure]),
            partial(drawable[figure].lacks or _unknown, group) if figure in names else _unknown,
        )
        for folder, group in groups.items()
        if group.sweep in chosen_sweeps
        for figure in chosen_figures
    ]


def _unknown(*_: object) -> str:
    """Why a figure is not drawn, where nobody asked for it by name or it does not say."""
    return ""
