"""Where does each number on a page come from, and does the page still say what its source says?

`numbers.yaml` beside a page names the source of every number on it, block by block (a paragraph, an item of a list, a heading, a
table), in the order of the text. A block is found by its beginning, digits written as `#`:

    README.md:
      '**Answer.** At #,# trajectories ECE is':
      - design: 4,000                                    # one of KINDS, and the number itself
      - table.csv level=4:1: ece_width_10                # the one row of a CSV where level is 4:1; a column for each number
      - differences.csv level=4:1 metric=ece_width_10: difference low high
      - table.csv: min(rm_at_16) -max(rm_at_16)*100      # over all rows that fit; a minus before, a factor behind
      - ledger.csv config_hash=91aae4fe: in(result@2)    # the second number in a text; in(result@greedy.2): behind a word
      - halves.json: rejected.rm_at_k*100                # a path into JSON
      - derived: 0.860-0.819                             # arithmetic on numbers of the page
      '| label_ratio | seeds | RM@# |':
      - table: table.csv                                 # a whole table (`table_marks`)
      - design: 3                                        # then its numbers that no column covers

Names and values hold letters, digits and `_` for any other sign (`arm=hybrid_good`). Numbers with a source are compared to the
digits that are shown. `analysis.pages.blocks` says what a number is.

`python -m analysis.pages.mark_numbers` lists what is wrong, writes marks and new values.
"""

import ast
import csv
import json
import operator
import re
import shlex
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from analysis.pages.blocks import NUMBER, Block, Token, blocks
from analysis.presentation.metric_names import SCALARS
from rmlab.paths import REPOSITORY

STUDIES = REPOSITORY / "experiments" / "studies"
MARKS = "numbers.yaml"
KINDS = {
    "design": "a setting, a level or a count of the design",
    "cited": "quoted from a source that the text names",
    "once": "measured once, not shipped",
}
FUNCTIONS: dict[str, Callable[[list[float]], float]] = {
    "min": min,
    "max": max,
    "sum": sum,
    "mean": statistics.mean,
    "median": statistics.median,
}
ARITHMETIC = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv}
BOUNDS = ("0.05", "0.01", "0.001", "0.0001")
NAMES = {text: name for name, text in SCALARS.items()}  # as pages write them -> as files do
COLUMNS = {
    "seeds": "seeds",
    "p": "p",
    "p (Holm)": "p_holm",
    "ECE by chance (95 %)": "ece_noise_floor_task_p95",
    "80 % power from (alone / Holm)": "detectable detectable_holm",
}


class MarkError(ValueError):
    """A mark names what is not there."""


@dataclass(frozen=True)
class Checked:
    """A number beside its mark. value: what its source has, None = without a source. wrong: why they disagree, '' = they agree."""

    token: Token
    block: str
    kind: str
    wrong: str = ""
    value: float | None = None


def agrees(text: str, value: float) -> bool:
    """Whether `value` rounds to what is shown, at the digits that are shown."""
    mantissa, _, exponent = text.partition("e")
    half = 0.5 * 10.0 ** (int(exponent or 0) - len(mantissa.partition(".")[2]))
    return ":" not in text and abs(value - float(text.replace(",", ""))) <= half * (1 + 1e-9)


@cache
def read_source(path: Path) -> Any:
    """A JSON file, or the rows of a CSV file with their columns' names as marks write them."""
    if not path.exists():
        raise MarkError(f"{path.name} is not there")
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".json":
        return json.loads(text)
    return [{plain(name): value for name, value in row.items()} for row in csv.DictReader(text.splitlines())]


def plain(text: str) -> str:
    """A name or value as marks write it."""
    return re.sub(r"[^\w:.*+-]+", "_", text).strip("_")


@cache
def selected(folder: Path, source: str) -> list[dict[str, str]]:
    """The rows of a CSV file below `folder` that fit a source's conditions."""
    name, *conditions = shlex.split(source)
    rows = read_source(folder / name)
    wanted = dict(condition.split("=", 1) for condition in conditions)
    return [row for row in rows if all(plain(row[key]) in value.split(",") for key, value in wanted.items())]


def value(folder: Path, source: str, expression: str) -> float:
    """What a source has in a column, or a function of a column over the rows."""
    parts = re.fullmatch(
        r"(-?)(?:(min|max|sum|mean|median|in)\(([^@]+)(?:@(?:(\w+)\.)?(\d+))?\)|([^*]+))(?:\*([\d.]+))?", expression
    )
    if parts is None:
        raise MarkError("neither a column nor a function of one")
    minus, function, inner, word, place, column, factor = parts.groups()
    scale = (-1 if minus else 1) * float(factor or 1)
    if source.endswith(".json"):
        found = read_source(folder / source)
        for step in column.split("."):
            found = found[int(step) if isinstance(found, list) else step]
        values = [float(found)]
    else:
        rows = selected(folder, source)
        texts = [row[inner or column] for row in rows if row[inner or column]]
        if not texts or (function in (None, "in") and len(rows) != 1):
            raise MarkError(f"{len(rows)} rows, {len(texts)} with a value")
        if function == "in":
            if not place:
                raise MarkError("which number? in(COLUMN@2) is the second")
            behind = texts[0].partition(word)[2] if word else texts[0]
            numbers = [float(one.replace(",", "")) for one in NUMBER.findall(behind) if ":" not in one]
            return scale * numbers[int(place) - 1]
        values = [float(text) for text in texts]
    result = FUNCTIONS[function](values) if function else values[0]
    return scale * float(result)


def _calculated(expression: str, page: set[str]) -> float:
    """An expression of numbers that stand on the page (and of 100, for percent)."""
    lacking = [part for part in re.findall(r"\d[\d.]*", expression) if part not in page | {"100"}]
    if lacking:
        raise MarkError(f"{', '.join(lacking)} is not on the page")

    def of(node: ast.expr) -> float:
        if isinstance(node, ast.BinOp):
            return float(ARITHMETIC[type(node.op)](of(node.left), of(node.right)))
        return float(ast.literal_eval(node))

    return of(ast.parse(expression, mode="eval").body)


def check(folder: Path, text: str, marks: dict[str, list[dict[str, Any]]]) -> list[Checked]:
    """Every number of a page beside its mark, and marks without a number. folder: of the sources. marks: by block."""
    found: list[Checked] = []
    of_page = blocks(text)
    everything = {token.text.lstrip("+-").replace(",", "") for block in of_page for token in block.tokens}
    for block in of_page:
        entries, tokens, covered = list(marks.get(block.key, [])), block.tokens, []
        while entries and "table" in entries[0]:
            mark = entries.pop(0)
            try:
                covered += table_marks(folder, block, tokens, mark)
            except (MarkError, LookupError, ValueError) as error:
                found.append(Checked(tokens[0], block.key, "none", f"{mark['table']}: {error}"))
            done = {one.token for one in covered}
            tokens = [token for token in tokens if token not in done]
        named = [(kind, item) for entry in entries for kind, items in entry.items() for item in items.split()]
        found += covered
        found += [_checked(folder, block, t, *one, everything) for t, one in zip(tokens, named, strict=False)]
        found += [Checked(t, block.key, "none", f"{t.text} has no mark") for t in tokens[len(named) :]]
        for kind, item in named[len(tokens) :]:
            found.append(Checked(block.tokens[0], block.key, "none", f"'{kind}: {item}' has no number"))
    lost = set(marks) - {block.key for block in of_page}
    return found + [Checked(Token("", 0), key, "none", "no block with a number begins like this") for key in lost]


def _checked(folder: Path, block: Block, token: Token, kind: str, item: str, everything: set[str]) -> Checked:
    """everything: the numbers of the page, which `derived` may use."""
    if kind in KINDS:
        return Checked(token, block.key, kind, "" if token.text == item else f"{token.text}, marked as {kind}: {item}")
    try:
        actual = _calculated(item, everything) if kind == "derived" else value(folder, kind, item)
    except (MarkError, LookupError, ValueError, SyntaxError) as error:
        return Checked(token, block.key, kind, f"{token.text}: {kind}: {item}: {error}")
    fits = agrees(token.text, actual) or (token.text in BOUNDS and token.bound and actual < float(token.text))
    return Checked(
        token, block.key, kind, "" if fits else f"{token.text}, where {kind}: {item} is {actual:.6g}", actual
    )


def table_marks(folder: Path, block: Block, tokens: Sequence[Token], mark: dict[str, Any]) -> list[Checked]:
    """Those of a table's numbers (`tokens`) that a CSV covers; rows and columns that the CSV lacks are not covered.

    mark: `table` a source; `columns` {heading: a column for each number of its cells}, beside those of the tables that
    `analysis.verifiers.sweep_table` writes; `rows` what names a row: {heading: column of the CSV} (default: the headings before `seeds`
    or up to `metric`, the factor's column being `level`), or a list of conditions, one a row of the page.
    """
    head, *body = block.cells
    own = mark.get("columns", {})
    columns = _standard(head) | own
    by = mark.get("rows") or {
        heading: heading if heading in ("arm", "metric") else "level"
        for heading in head[: head.index("seeds") if "seeds" in head else head.index("metric") + 1]
    }
    found = []
    of_cell: dict[tuple[int, int], list[Token]] = {}
    for token in tokens:
        of_cell.setdefault(token.cell, []).append(token)
    for row, cells in enumerate(body, 1):
        if isinstance(by, dict):
            cell = dict(zip(head, cells, strict=True))
            where = " ".join(f"{column}={_name(cell[heading], column)}" for heading, column in by.items())
        else:
            where = by[row - 1]
        source = f"{mark['table']} {where}"
        there = selected(folder, source)
        for column, heading in enumerate(head):
            here = of_cell.get((row, column), [])
            items = [item for item in columns.get(heading, "").split() if there and there[0].get(item) != ""]
            if items and items[0] not in there[0] and heading not in own:
                items = []  # the table has the heading, this CSV does not
            if there and isinstance(by, dict) and heading in by:
                found += [Checked(token, block.key, source) for token in here]  # they name the row that was found
            for token, item in zip(here, items, strict=False):
                found.append(_checked(folder, block, token, source, item, set()))
    return found


def _name(text: str, column: str) -> str:
    """A level or a metric of a page as files name it."""
    metric = text.removesuffix(" across policies")
    if column != "metric":
        return plain(text.strip("*"))
    return "rm_at_k" if re.fullmatch(r"RM@\d+", metric) else NAMES.get(metric, metric)


def _standard(head: Sequence[str]) -> dict[str, str]:
    columns = dict(COLUMNS)
    for heading in head:
        metric = heading.removesuffix(" across policies")
        name = NAMES.get(metric) or re.sub(r"^RM@(\d+)", r"rm_at_\1", metric).replace(" by sum of scores", "_weighted")
        if heading.startswith("difference from"):
            columns[heading] = "difference low high"
        elif name != metric:
            columns[heading] = f"{name} {name}_low {name}_high"
    return columns


def marks_of(page: Path) -> tuple[Path, dict[str, Any]]:
    """The file of a page's marks, and all that it holds: {page: {block: marks}}. The repository's README has its marks in STUDIES."""
    path = (STUDIES if page.parent == REPOSITORY else page.parent) / MARKS
    return path, yaml.load(path.read_text(encoding="utf-8"), yaml.BaseLoader) or {} if path.exists() else {}


def pages() -> list[Path]:
    """README.md and every page of a study."""
    return [REPOSITORY / "README.md", *sorted(STUDIES.rglob("*.md"))]


def page_key(page: Path) -> str:
    """The name of a page in its file of marks."""
    return "/README.md" if page.parent == REPOSITORY else page.name


def checked(page: Path) -> list[Checked]:
    """Every number of a page as it stands in the repository."""
    path, marks = marks_of(page)
    return check(path.parent, page.read_text(encoding="utf-8"), marks.get(page_key(page), {}))
