"""The numbers of the pages beside their sources: what is wrong, what has no source, marks for a new page, new values for an old one.

    python -m analysis.pages.mark_numbers               # what is wrong, and how many numbers of each kind each page has
    python -m analysis.pages.mark_numbers once          # the numbers of one kind, block by block
    python -m analysis.pages.mark_numbers sourced       # of those without a source, what a CSV beside the page has: look whether it is that
    python -m analysis.pages.mark_numbers mark PAGE     # adds marks where none are; sources are guessed, so look at them
    python -m analysis.pages.mark_numbers write PAGE    # puts the values that the sources have now into the page

After new tables: put them into the page, `mark` it (tables whose numbers no longer fit their marks, by more than new values, are marked
anew), `write` it, read what its sentences say now, and mend those that no longer hold. Where numbers came into a block or left it, take
its marks out of `numbers.yaml` and `mark` again. A guess is a column of a small CSV beside the page that has a value with these digits;
`unknown` has none. `analysis.pages.sources` says what a mark is.
"""

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import yaml

from analysis.pages.blocks import Block, Token, blocks
from analysis.pages.sources import agrees, check, checked, marks_of, page_key, pages, plain, read_source
from rmlab.files import write_text
from rmlab.paths import REPOSITORY

KEYS = ("config_hash", "arm", "level", "metric", "seed", "verifier", "base", "scale", "learning_rate", "group", "panel")
MOST_ROWS = 100  # a larger CSV has nearly every value somewhere
LEAST_DIGITS = 3
NEAR = 60  # characters around a number in which its row may be named
Cell = tuple[str, str]  # a source, a column


def summary() -> list[str]:
    """What is wrong on every page, and a line with its numbers by kind."""
    lines = []
    for page in pages():
        found = checked(page)
        name = page.relative_to(REPOSITORY)
        lines += [f"{name}: {one.block}: {one.wrong}" for one in found if one.wrong]
        kinds = Counter(one.kind if "." not in one.kind else "with a source" for one in found)
        lines.append(f"{name}: {', '.join(f'{count} {kind}' for kind, count in sorted(kinds.items()))}")
    return lines


def of_kind(kind: str) -> list[str]:
    """The numbers of one kind, a line a block."""
    lines = []
    for page in pages():
        for block, found in groupby((one for one in checked(page) if one.kind == kind), key=lambda one: one.block):
            numbers = [one.token.text for one in found]
            lines.append(f"{page.relative_to(REPOSITORY)}: {block}: {len(numbers)}: {' '.join(numbers)}")
    return lines


def sourced() -> list[str]:
    """Numbers marked as of the design or measured once that a small CSV beside the page has, with its first row that does; what names a row
    (a level, a seed) is of the design.

    Only those of three digits and more: others stand in nearly every CSV.
    """
    lines = []
    for page in pages():
        cells = list(_cells(page.parent)) if page.parent != REPOSITORY else []
        for one in checked(page):
            if one.kind in ("design", "once") and sum(map(str.isdigit, one.token.text)) >= LEAST_DIGITS:
                fitting = [cell for value, cell in cells if cell[1] not in KEYS and agrees(one.token.text, value)]
                source = next(iter(fitting), None)
                if source:
                    place = f"{page.relative_to(REPOSITORY)}: {one.block}"
                    lines.append(f"{place}: {one.kind} {one.token.text}: {': '.join(source)}")
    return lines


def mark(page: Path) -> int:
    """Adds marks for the numbers of a page that have none; returns how many. Tables that disagree with their marks by more than new values,
    which `write` puts in, are marked anew."""
    path, marks = marks_of(page)
    text = page.read_text(encoding="utf-8")
    old = marks.get(page_key(page), {})
    wrong = {one.block for one in check(path.parent, text, old) if one.wrong and one.value is None}
    new = {}
    for block in blocks(text):
        new[block.key] = list(old.get(block.key, []))
        if not new[block.key] or (block.cells and block.key in wrong):
            of_table = [one for one in new[block.key] if "table" in one]
            new[block.key] = _whole_table(path.parent, block) or of_table
    cells = list(_cells(path.parent))
    bare = [one for one in check(path.parent, text, new) if one.kind == "none" and one.wrong.endswith("has no mark")]
    for key, found in groupby(bare, key=lambda one: one.block):
        tokens = [one.token for one in found]
        sources = [_guess(token, text, tokens[i + 1 : i + 2], cells) for i, token in enumerate(tokens)]
        for kind, group in groupby(sources, key=lambda source: source[0]):
            new[key].append({kind: " ".join(item for _, item in group)})
    marks[page_key(page)] = new
    write_text(path, yaml.safe_dump(marks, allow_unicode=True, sort_keys=False, width=1000))
    return len(bare)


def _whole_table(folder: Path, block: Block) -> list[dict[str, Any]]:
    """The mark of a table that `rmlab figures` wrote, where its CSV is beside the page."""
    head = block.cells[0] if block.cells else []
    name = "differences.csv" if "metric" in head else "table.csv" if "seeds" in head else ""
    return [{"table": name}] if name and (folder / name).exists() else []


def _cells(folder: Path) -> Iterator[tuple[float, Cell]]:
    """Every value of the small CSV files of a folder, with the source that names its row."""
    for path in sorted(folder.rglob("*.csv")):
        rows = read_source(path)
        if len(rows) > MOST_ROWS:
            continue
        keys = [key for key in KEYS if rows and key in rows[0]]
        for row in rows:
            where = [f"{key}={plain(row[key])}" for key in keys if row[key]]
            for column, text in row.items():
                try:
                    yield float(text), (" ".join([str(path.relative_to(folder)), *where]), column)
                except ValueError:
                    continue


def _guess(token: Token, text: str, following: Sequence[Token], cells: Sequence[tuple[float, Cell]]) -> Cell:
    """A guess for one number: of the cells that fit, one whose row fits the next number too and is named around the number."""
    digits = len(token.text.partition(".")[2])
    if not digits:
        return "design", token.text
    fitting = [cell for value, cell in cells if digits > 2 and agrees(token.text, value)]
    rows = {cell[0] for other in following for value, cell in cells if agrees(other.text, value)}
    around = text[max(0, token.start - NEAR) : token.start + NEAR]

    def fit(cell: Cell) -> tuple[int, bool]:
        named = [part.partition("=")[2] for part in cell[0].split()[1:]]
        return (cell[0] in rows) + sum(name.replace("_", " ") in around for name in named), "runs" not in cell[0]

    best = max(fitting, key=fit, default=None)
    return (f"guess {best[0]}", best[1]) if best else ("unknown", token.text)


def write(page: Path) -> int:
    """Puts the values that the sources have now into a page, with the digits that stand there. Returns how many changed."""
    text = page.read_text(encoding="utf-8")
    changed = [one for one in checked(page) if one.wrong and one.value is not None]
    for one in sorted(changed, key=lambda one: -one.token.start):
        assert one.value is not None
        end = one.token.start + len(one.token.text)
        text = text[: one.token.start] + shown(one.value, one.token.text) + text[end:]
    write_text(page, text)
    return len(changed)


def shown(value: float, like: str) -> str:
    """A value with the digits, the sign and the commas that another number has."""
    digits = len(like.partition(".")[2])
    value = round(value, digits) + 0.0  # no -0.0
    return f"{value:{'+' if like[0] in '+-' and ' ' not in like else ''}{',' if ',' in like else ''}.{digits}f}"


def main(arguments: Sequence[str]) -> int:
    """Exit 1 where something is wrong."""
    if not arguments:
        lines = summary()
        print("\n".join(lines))
        return int(any(line.count(": ") > 1 for line in lines))
    if len(arguments) == 2 and arguments[0] in ("mark", "write"):
        page = Path(arguments[1]).resolve()
        print(f"{mark(page)} numbers marked" if arguments[0] == "mark" else f"{write(page)} numbers changed")
        return 0
    print("\n".join(sourced() if arguments == ["sourced"] else of_kind(arguments[0])))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
