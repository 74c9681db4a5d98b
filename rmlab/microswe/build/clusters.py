"""Which functions are so alike that they must not stand on both sides of a split?

Two functions are joined when their syntax trees are equal after renaming, when the trigrams of their tokens have a
Jaccard overlap of at least 0.6, or when one is among the helpers that travel with the other. Clusters are the connected
components. Tokens are those of the plain text as it is written, names included: a policy reads names, and a common
skeleton with other names is what the first rule is for.
"""

import ast
import io
import tokenize
from collections import Counter, defaultdict
from collections.abc import Mapping

LEAST_OVERLAP = 0.6
_LAYOUT = {tokenize.NEWLINE, tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER, tokenize.COMMENT}
Trigram = tuple[str, str, str]


def renamed(code: str) -> str:
    """The syntax tree as text, with every name that the text itself binds replaced by its order of appearance."""
    tree = ast.parse(code)
    own: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case (
                ast.FunctionDef(name=name)
                | ast.ClassDef(name=name)
                | ast.arg(arg=name)
                | ast.ExceptHandler(name=str(name))
            ):
                own.add(name)
            case ast.Name(id=name, ctx=ast.Store()):
                own.add(name)
    order: dict[str, str] = {}

    def new(name: str) -> str:
        return order.setdefault(name, f"v{len(order)}") if name in own else name

    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef() | ast.ClassDef():
                node.name = new(node.name)
            case ast.arg():
                node.arg = new(node.arg)
            case ast.Name():
                node.id = new(node.id)
            case ast.ExceptHandler(name=str(name)):
                node.name = new(name)
    return ast.dump(tree)


def trigrams(code: str) -> frozenset[Trigram]:
    """All runs of three tokens, layout and comments left out."""
    tokens = [t.string for t in tokenize.generate_tokens(io.StringIO(code).readline) if t.type not in _LAYOUT]
    return frozenset(zip(tokens, tokens[1:], tokens[2:], strict=False))


def overlap(a: frozenset[Trigram], b: frozenset[Trigram]) -> float:
    """Jaccard overlap, 0 where both are empty."""
    union = len(a | b)
    return len(a & b) / union if union else 0.0


def clusters(codes: Mapping[str, str], contexts: Mapping[str, str] | None = None) -> dict[str, str]:
    """Function id to its cluster, which goes by the smallest id in it.

    codes: plain texts of functions by id. contexts: what travels with each; helpers are compared as functions are.
    """
    parent = {name: name for name in codes}

    def root(name: str) -> str:
        while parent[name] != name:
            parent[name] = parent[parent[name]]
            name = parent[name]
        return name

    def join(a: str, b: str) -> None:
        a, b = sorted((root(a), root(b)))
        parent[b] = a

    by_tree: dict[str, str] = {}
    for name, code in codes.items():
        join(name, by_tree.setdefault(renamed(code), name))
    for name, context in (contexts or {}).items():
        for statement in ast.parse(context).body:
            if (
                isinstance(statement, ast.FunctionDef)
                and (twin := by_tree.get(renamed(ast.unparse(statement)))) is not None
            ):
                join(name, twin)
    for a, b in _alike({name: trigrams(code) for name, code in codes.items()}):
        join(a, b)
    return {name: root(name) for name in codes}


def _alike(grams: Mapping[str, frozenset[Trigram]]) -> list[tuple[str, str]]:
    """Pairs whose overlap reaches LEAST_OVERLAP, found through shared trigrams."""
    holders: dict[Trigram, list[str]] = defaultdict(list)
    found = []
    for name, own in grams.items():
        shared = Counter(other for gram in own for other in holders[gram])
        found += [
            (other, name) for other, n in shared.items() if n >= LEAST_OVERLAP * (len(own) + len(grams[other]) - n)
        ]
        for gram in own:
            holders[gram].append(name)
    return found
