"""A Markdown text under construction, and where each number in it comes from: a page that is written has its marks from the start.

text = MarkedText("study_table.csv")
text.say("ECE rises by ").number("0.128", "sweep=label_ratio metric=ece_width_10", "difference")
text.marks()    # what `numbers.yaml` holds of the page (analysis.pages.sources)
"""

from collections.abc import Sequence
from itertools import groupby

from analysis.pages.blocks import blocks


class MarkedText:
    """table: the CSV beside the page that numbers come from, where a source names no other file."""

    def __init__(self, table: str) -> None:
        self.table, self.text = table, ""
        self._spans: list[tuple[int, int, str, str]] = []

    def say(self, words: str, kind: str = "design") -> "MarkedText":
        """Words; numbers in them are of one of `sources.KINDS`."""
        self._spans.append((len(self.text), len(self.text) + len(words), kind, ""))
        self.text += words
        return self

    def number(self, shown: str, where: str, column: str, file: str = "") -> "MarkedText":
        """A number as it is shown. where, column: its row (conditions) and column; a column may be an expression of `sources`."""
        source = " ".join(filter(None, (file or self.table, where)))
        self._spans.append((len(self.text), len(self.text) + len(shown), source, column))
        self.text += shown
        return self

    def add(self, other: "MarkedText") -> "MarkedText":
        """Another text behind this one."""
        at = len(self.text)
        self._spans += [(at + start, at + end, source, item) for start, end, source, item in other._spans]
        self.text += other.text
        return self

    def listed(self, parts: Sequence["MarkedText"]) -> "MarkedText":
        """Several texts behind this one: `a, b and c`."""
        for i, part in enumerate(parts):
            self.say("" if not i else " and " if i == len(parts) - 1 else ", ").add(part)
        return self

    def marks(self) -> dict[str, list[dict[str, str]]]:
        """The marks of every block, in the order of its numbers."""
        found: dict[str, list[dict[str, str]]] = {}
        for block in blocks(self.text):
            sources = [self._source(token.start, token.text) for token in block.tokens]
            found[block.key] = [
                {source: " ".join(item for _, item in group)}
                for source, group in groupby(sources, key=lambda one: one[0])
            ]
        return found

    def _source(self, start: int, text: str) -> tuple[str, str]:
        for begin, end, source, item in self._spans:
            if begin <= start < end:
                return source, item or text
        raise AssertionError(f"no part of the text holds its character {start}")
