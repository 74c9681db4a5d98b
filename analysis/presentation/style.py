"""What all figures share: one look, and three files each (PDF for the paper, PNG to look at, CSV that it is drawn from)."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rmlab.files import atomic_path, write_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DASHES: Any = ("-", "--", ":")  # of the arms of a sweep
RESOLVED, UNRESOLVED = "#0072B2", "#D55E00"  # Okabe and Ito: told apart with colour-blind eyes too
CHANCE = "0.5: no better than chance"  # as a legend names that line of an AUC
REFERENCE = "0.45"  # grey of oracles, chance and other lines that no verifier drew
BASELINE_LOOK: dict[str, tuple[str, Any]] = {
    "last_value": ("black", "-."),
    "majority": ("black", (0, (4, 1))),
    "shape": ("0.45", (0, (1, 1))),
    "length": ("0.45", (0, (3, 1, 1, 1, 1, 1))),
}
"""Colour and dash of the baselines that curves show; the others stand in the table."""

SETTINGS: Any = {
    "font.size": 8,
    "axes.titlesize": 9,
    "axes.titleweight": "bold",
    "axes.labelsize": 8,
    "legend.fontsize": 7,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "0.92",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "lines.linewidth": 1.4,
    "pdf.fonttype": 42,  # text stays text in the paper's PDF
    "figure.constrained_layout.use": True,
    "savefig.dpi": 160,
    "text.parse_math": False,  # a $ in a name is a $
}


@contextmanager
def figure(rows: int, columns: int, width: float, height: float, **options: Any) -> "Iterator[tuple[Figure, Any]]":
    """A figure of rows × columns axes (always a 2-d array), closed when the block ends. width, height: inches of one panel."""
    with blank(width * columns, height * rows) as drawn:
        yield drawn, drawn.subplots(rows, columns, squeeze=False, **options)


@contextmanager
def blank(width: float, height: float) -> "Iterator[Figure]":
    """A figure without axes, closed when the block ends. width, height: its inches.

    It starts from matplotlib's own defaults: a user's matplotlibrc changes no byte of it.
    """
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(SETTINGS)
        drawn = plt.figure(figsize=(width, height))
        try:
            yield drawn
        finally:
            plt.close(drawn)


TWO_COLUMNS, ONE_COLUMN = 6.9, 3.35
"""Inches of a paper's text, and of one of its two columns: figures for papers are drawn at both, in the same 7 to 9 points."""

WORDS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8C564B", "#7F7F7F")


def level_colours(levels: Sequence[str], ordered: bool = True) -> dict[str, Any]:
    """One colour a level: dark to light in the order given where they are amounts, never so light that it vanishes on white;
    colours that have no order where they are words (and not too many)."""
    import matplotlib as mpl

    if not ordered and len(levels) <= len(WORDS):
        return dict(zip(levels, WORDS, strict=False))
    ramp = mpl.colormaps["viridis"]
    return {level: ramp(0.85 * i / max(len(levels) - 1, 1)) for i, level in enumerate(levels)}


MARKERS = ("o", "^", "s", "v", "D", "P", "<", "X", ">")


def level_looks(levels: Sequence[str], ordered: bool = True) -> dict[str, dict[str, Any]]:
    """Colour and marker of each level, as matplotlib takes them: the marker tells neighbours apart, in grey too."""
    edge = {"markersize": 5, "markeredgecolor": "white", "markeredgewidth": 0.5}
    colours = level_colours(levels, ordered)
    return {
        level: {"color": colours[level], "marker": MARKERS[i % len(MARKERS)]} | edge for i, level in enumerate(levels)
    }


def short(text: str, most: int = 26) -> str:
    """A level's name as a legend has room for it."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def cell(value: object) -> str:
    """A value in a Markdown table: on one line, and no bar of its own."""
    return " ".join(str(value).split()).replace("|", "\\|")


def title(factor: str, level: str) -> str:
    """Of a narrow panel: factor and level where there is room for both."""
    return f"{factor} {level}" if len(factor) + len(level) < 22 else short(level, 22)


def grid(panels: int, most: int = 5) -> tuple[int, int]:
    """Rows and columns for so many panels, at most so many side by side, the rows about equally long."""
    rows = -(-panels // most)
    return rows, -(-panels // rows)


def level_axis(axes: Sequence["Axes"], levels: Sequence[str], numbers: dict[str, float]) -> dict[str, float]:
    """x of each level, with ticks: numbers on a numeric axis, logarithmic where they span a factor of 5; words side by side.

    numbers: level to number, empty for words. Returns level to x.
    """
    place = (
        {level: float(i) for i, level in enumerate(levels)}
        if not numbers
        else {level: numbers[level] for level in levels}
    )
    values = list(place.values())
    for axis in axes:
        if not numbers:
            axis.set_xticks(values, labels=[short(level, 18) for level in levels])
            axis.set_xlim(-0.5, len(levels) - 0.5)
        elif min(values) > 0 and max(values) >= 5 * min(values):
            log_ticks(axis, values)
        else:
            axis.set_xticks(values, labels=[f"{value:g}" for value in values])
        if len(levels) > 4 or (not numbers and max(map(len, levels)) > 8):
            axis.tick_params(axis="x", labelrotation=35)
            for label in axis.get_xticklabels():
                label.set(ha="right", rotation_mode="anchor")
    return place


def pieces(points: Sequence[tuple[float, ...]], joined: bool) -> Sequence[Sequence[tuple[float, ...]]]:
    """Lines through the points (x and values) of levels: one where they are numbers (joined). Words have nothing between them: a short
    piece at each."""
    return [points] if joined else [[(x - 0.3, *values), (x + 0.3, *values)] for x, *values in points]


def legend(axes: Any) -> tuple[list[Any], list[str]]:
    """Handles and labels of all panels: each label once."""
    entries = {label: handle for axis in axes for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)}
    return list(entries.values()), list(entries)


def footnote(drawn: "Figure", text: str) -> None:
    """A note below the panels, wrapped to the figure's width: what was drawn from how much, and what the marks mean."""
    import textwrap

    characters = int(drawn.get_figwidth() / 0.047)  # at the size below
    lines = [line for part in text.split("\n") for line in textwrap.wrap(part, characters)]
    drawn.supxlabel("\n".join(lines), fontsize=6.5, color="0.35", x=0.01, ha="left")


def log_ticks(axes: "Axes", values: Sequence[float]) -> None:
    """A logarithmic x axis with a tick at each value, written as a plain number."""
    axes.set_xscale("log", base=2)
    axes.set_xticks(list(values), labels=[f"{value:g}" for value in values])
    axes.minorticks_off()


def save(drawn: "Figure", folder: Path, name: str, rows: Sequence[dict[str, Any]]) -> list[Path]:
    """Writes NAME.pdf, NAME.png and NAME.csv, each whole or not at all; the same runs give the same bytes.

    rows: what the figure is drawn from, one dict a drawn point.
    """
    paths = [folder / f"{name}.pdf", folder / f"{name}.png", folder / f"{name}.csv"]
    for path in paths[:2]:
        save_picture(drawn, path)
    write_text(paths[-1], csv_text(rows))
    return paths


def save_picture(drawn: "Figure", path: Path) -> Path:
    """Writes a figure as PDF or PNG, by the name, without a date; returns the path.

    The backend's own method lays the figure out and draws it once. `Figure.savefig` writes the same bytes, and draws it twice.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.backends.backend_pdf import FigureCanvasPdf

    drawn.set_dpi(SETTINGS["savefig.dpi"])
    # Any: their methods have no types.
    canvas: Any = FigureCanvasPdf(drawn) if path.suffix == ".pdf" else FigureCanvasAgg(drawn)
    with atomic_path(path) as temporary:
        if path.suffix == ".pdf":
            canvas.print_pdf(temporary, metadata={"CreationDate": None, "Creator": "rmlab"})
        else:
            canvas.print_png(temporary, metadata={"Software": "rmlab"})
    return path


DIGITS = 12
"""Of a fraction in a CSV: fewer than float64 has. Processors add up in different orders, so that the last ones differ between machines."""


def csv_text(rows: Sequence[dict[str, Any]], digits: int | None = None) -> str:
    """Rows as CSV with the union of their columns in order of appearance; None is an empty cell. digits: significant ones of fractions,
    default DIGITS."""
    import csv
    import io

    def cell(x: Any) -> Any:
        if not isinstance(x, float):
            return x
        return f"{x:.{digits}g}" if digits else float(f"{x:.{DIGITS}g}")

    columns = list(dict.fromkeys(name for row in rows for name in row))
    out = io.StringIO()
    writer = csv.DictWriter(out, columns, lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({name: cell(x) for name, x in row.items()})
    return out.getvalue()


def write_csv(path: Path, rows: Sequence[dict[str, Any]], digits: int | None = None) -> None:
    """Writes rows as `csv_text` has them."""
    write_text(path, csv_text(rows, digits))
