"""Is a function one that must not be read, or nearly one? The cluster rule, asked of many functions.

The rule is that of `rmlab.microswe.build.clusters`: equal syntax trees after renaming, or token trigrams with a Jaccard overlap of
at least 0.6. Trigrams are found through an index, and trees are only renamed where their shape is that of a known one, so
that a hundred thousand functions take a minute.
"""

import ast
from collections import Counter, defaultdict
from collections.abc import Iterable

from rmlab.microswe.build.clusters import LEAST_OVERLAP, Trigram, renamed, trigrams
from rmlab.microswe.task import Task
from rmlab.trajectories.record import Split

HELD_OUT: tuple[Split, ...] = ("verifier", "validation", "rl", "evaluation")


def held_out_functions(tasks: Iterable[Task]) -> list[str]:
    """Texts of the functions of the held-out parts: every original, and the helpers that travel with it."""
    texts: dict[str, None] = {}
    for task in tasks:
        if task.part in HELD_OUT:
            for code in dict.fromkeys((task.original, task.context)):
                texts.update(
                    (ast.unparse(node), None) for node in ast.walk(ast.parse(code)) if isinstance(node, ast.FunctionDef)
                )
    return list(texts)


class NearCopies:
    """Knows functions by text; `found` says whether a function is a near copy of one of them."""

    def __init__(self, texts: Iterable[str]):
        known = [(text, ast.parse(text).body[0]) for text in texts]
        self._trees = {renamed(text) for text, _ in known}
        self._shapes = {_shape(tree) for _, tree in known}
        self._sizes: list[int] = []
        self._holders: dict[Trigram, list[int]] = defaultdict(list)
        for number, (text, _) in enumerate(known):
            grams = trigrams(text)
            self._sizes.append(len(grams))
            for gram in grams:
                self._holders[gram].append(number)

    def found(self, code: str, tree: ast.AST | None = None) -> bool:
        """Whether a function, or one nested in it, is a near copy.

        code: the text of one definition. tree: its syntax tree, where it is there already.
        """
        whole = tree or ast.parse(code).body[0]
        functions = [node for node in ast.walk(whole) if isinstance(node, ast.FunctionDef)]
        return any(self._is_copy(node, code if node is whole else ast.unparse(node)) for node in functions)

    def _is_copy(self, function: ast.FunctionDef, text: str) -> bool:
        own = trigrams(text)
        shared = Counter(number for gram in own for number in self._holders.get(gram, ()))
        if any(n >= LEAST_OVERLAP * (len(own) + self._sizes[number] - n) for number, n in shared.items()):
            return True
        return _shape(function) in self._shapes and renamed(text) in self._trees


def _shape(tree: ast.AST) -> int:
    """Of the kinds of nodes in their order, which renaming leaves as they are. Only compared within a process."""
    return hash(tuple(map(type, ast.walk(tree))))
