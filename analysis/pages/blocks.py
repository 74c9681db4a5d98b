"""The numbers of a Markdown page, block by block: a paragraph, an item of a list, a heading or a table.

What stands in code, links, names and hashes is no number here (EXEMPT).
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

EXEMPT = {
    "code": r"`[^`]*`",
    "link": r"\]\([^)]*\)|https?://\S+",
    "paper": r"arXiv \d{4}\.\d{5}",
    "hash": r"\b(?=[0-9a-f]*[a-f])(?=[0-9a-f]*\d)[0-9a-f]{7,32}\b",
    "name": r"(?<!\w)[A-Za-z_][\w.@]*(?:-[\w.]*[A-Za-z][\w.]*)*|\b\d+(?!e-?\d)[A-Za-z][\w-]*|(?<=Claude )3\.5|(?<=Gemini )3",
}
NUMBER = re.compile(r"(?:(?<![\w.,)%\]])[+-])?(?<![\d.])\d+(?:,\d{3})*(?:\.\d+)?(?:e-?\d+)?(?::\d+)?")


@dataclass(frozen=True)
class Token:
    """A number of a page: its text, where it starts in the page; in a table its row (0 = heading) and column.

    bound: it stands behind `<` or `≤`; one of BOUNDS may then be far above the value.
    """

    text: str
    start: int
    cell: tuple[int, int] = (0, 0)
    bound: bool = False


@dataclass
class Block:
    """A paragraph, item, heading or table. cells: the rows of a table, heading first, without the line of dashes."""

    key: str
    tokens: list[Token]
    cells: list[list[str]] = field(default_factory=list)


def blocks(text: str) -> list[Block]:
    """The blocks of a page that hold a number, in order. Code blocks hold none."""
    found: list[Block] = []
    lines: list[tuple[int, str]] = []

    def close() -> None:
        if lines:
            block = _block(lines)
            same = sum(other.key.partition(" ~")[0] == block.key for other in found)
            block.key += f" ~{same + 1}" if same else ""
            if block.tokens:
                found.append(block)
            lines.clear()

    start, fenced = 0, False
    for line in text.splitlines(keepends=True):
        fence = line.startswith("```")
        fenced ^= fence
        code = fenced or fence or line.startswith("    ")
        table = bool(lines) and line.startswith("|") and lines[-1][1].startswith("|")
        if code or not line.strip() or (re.match(r"\||[-#]+ |\d+\. ", line) and not table):
            close()
        if line.strip() and not code:
            lines.append((start, line))
        start += len(line)
    close()
    return found


def _block(lines: Sequence[tuple[int, str]]) -> Block:
    key = re.sub(r"\d+", "#", " ".join("".join(line for _, line in lines).split()))[:40].rstrip()
    if not lines[0][1].startswith("|"):
        text = "".join(line for _, line in lines)
        return Block(key, _tokens(text, lines[0][0]))
    cells: list[list[str]] = []
    tokens: list[Token] = []
    for start, line in lines:
        if not re.fullmatch(r"[|\s:-]+", line):
            parts = line.strip().removeprefix("|").removesuffix("|").split("|")
            at = start + 1
            for column, part in enumerate(parts):
                tokens += _tokens(part, at, (len(cells), column))
                at += len(part) + 1
            cells.append([part.strip() for part in parts])
    return Block(key, tokens, cells)


def _tokens(text: str, start: int, cell: tuple[int, int] = (0, 0)) -> list[Token]:
    for pattern in EXEMPT.values():
        text = re.sub(pattern, lambda match: "x" * len(match[0]), text)
    return [
        Token(match[0], start + match.start(), cell, text[: match.start()].rstrip()[-1:] in ("<", "≤"))
        for match in NUMBER.finditer(text)
    ]
