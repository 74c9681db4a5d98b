"""Which inputs test a function? Variations of known ones that keep their types, and a choice of those that tell most.

All randomness comes from a generator that the caller seeds with the function's id. Nothing here runs the function: what
is proposed is tried out by `rmlab.microswe.build.trial`, and `choose` picks from what came out.
"""

import ast
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from typing import TypeVar

from rmlab.microswe.build.examples import LONGEST
from rmlab.microswe.sandbox import Result

T = TypeVar("T")


def round_robin(items: Sequence[T], kind: Callable[[T], str]) -> list[T]:
    """The first of each kind, then the second of each, and so on; kinds and what is within them keep the order given."""
    seen: Counter[str] = Counter()
    ranked: list[tuple[int, T]] = []
    for item in items:
        ranked.append((seen[kind(item)], item))
        seen[kind(item)] += 1
    return [item for _, item in sorted(ranked, key=lambda pair: pair[0])]


FEWEST, MOST = 8, 16
"""Inputs a function has in the end."""
MOST_RAISING = 2
LONGEST_OUTPUT = 300
_ADDRESS = re.compile(r"0x[0-9a-f]{6,}")


def choose(sources: Sequence[str], results: Sequence[Result], code: str) -> list[tuple[str, str]] | None:
    """Inputs with their encoded outputs, FEWEST to MOST of those that were tried; None where they do not test enough.

    Outputs take turns, so that a rare one is not crowded out. An exception counts as an output where the function raises
    it itself, at most MOST_RAISING times. Left out: long outputs, memory addresses, endless iterators. None also where
    more than three quarters of the outputs are alike.
    """
    usable: list[tuple[str, str]] = []
    raising = 0
    for source, result in zip(sources, results, strict=True):
        output = result.encoded
        if output is None or len(output) > LONGEST_OUTPUT or _ADDRESS.search(output) or output.startswith('{"endless"'):
            continue
        if result.kind == "raised":
            if raising == MOST_RAISING or not re.search(rf"\braise {result.value}\b", code):
                continue
            raising += 1
        usable.append((source, output))
    chosen = round_robin(usable, lambda pair: pair[1])[:MOST]
    values = [output for _, output in chosen]
    if len(chosen) < FEWEST or len(set(values)) < 2 or max(map(values.count, set(values))) > 0.75 * len(values):
        return None
    return chosen


def variations(sources: Sequence[str], total: int, rng: random.Random) -> list[str]:
    """Up to `total` argument tuples: the given ones first, then copies with one to three literals changed."""
    found = dict.fromkeys(sources[:total])
    for _ in range(6 * total):
        if len(found) >= total or not sources:
            break
        tree = ast.parse(rng.choice(sources), mode="eval").body
        for _ in range(rng.choice((1, 1, 2, 3))):
            tree = _vary(tree, rng)
        source = ast.unparse(ast.fix_missing_locations(tree))
        if len(source) <= LONGEST:
            found.setdefault(source)
    return list(found)


def _vary(tree: ast.expr, rng: random.Random) -> ast.expr:
    tree = deepcopy(tree)
    holder = ast.Expression(tree)
    places = list(_places(holder, top=tree))
    if places:
        parent, field, index, node = rng.choice(places)
        new = _varied(node, rng)
        if index is None:
            setattr(parent, field, new)
        else:
            getattr(parent, field)[index] = new
    return holder.body


def _places(node: ast.AST, top: ast.expr) -> Iterator[tuple[ast.AST, str, int | None, ast.expr]]:
    for field, value in ast.iter_fields(node):
        for index, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if not isinstance(child, ast.AST) or isinstance(child, ast.JoinedStr):
                continue
            literal = isinstance(child, ast.Constant) and child.value is not None
            negative = (
                isinstance(child, ast.UnaryOp)
                and isinstance(child.op, ast.USub)
                and isinstance(child.operand, ast.Constant)
            )
            if child is not top and (literal or negative or isinstance(child, (ast.List, ast.Set, ast.Dict))):
                assert isinstance(child, ast.expr)
                yield node, field, index, child
            if not negative and not isinstance(child, ast.Lambda):
                yield from _places(child, top)


def _varied(node: ast.expr, rng: random.Random) -> ast.expr:
    if isinstance(node, ast.UnaryOp):
        value = ast.literal_eval(node)
        return ast.parse(repr(_literal(value, rng)), mode="eval").body
    if isinstance(node, ast.Constant):
        return ast.parse(repr(_literal(node.value, rng)), mode="eval").body
    if isinstance(node, ast.Dict):
        pairs = list(zip(node.keys, node.values, strict=True))
        if pairs and rng.random() < 0.5:
            del pairs[rng.randrange(len(pairs))]
        elif pairs and isinstance(pairs[-1][0], ast.Constant):
            pairs.append((_varied(pairs[-1][0], rng), deepcopy(rng.choice(pairs)[1])))
        return ast.Dict([k for k, _ in pairs], [v for _, v in pairs])
    assert isinstance(node, (ast.List, ast.Set))
    items = list(node.elts)
    action = rng.randrange(5)
    if items and action == 0:
        del items[rng.randrange(len(items))]
    elif items and action == 1:
        items.insert(rng.randrange(len(items) + 1), deepcopy(rng.choice(items)))
    elif len(items) > 1 and action == 2:
        i, j = rng.sample(range(len(items)), 2)
        items[i], items[j] = items[j], items[i]
    elif items and isinstance(items[0], (ast.Constant, ast.UnaryOp)):
        literals = [item for item in items if isinstance(item, (ast.Constant, ast.UnaryOp))]
        items.insert(rng.randrange(len(items) + 1), _varied(rng.choice(literals), rng))
    elif len(items) > 1:
        items.reverse()
    if isinstance(node, ast.Set) and not items:
        return node
    return type(node)(items, ast.Load()) if isinstance(node, ast.List) else ast.Set(items)


def _literal(value: object, rng: random.Random) -> object:
    """Another literal of the same type."""
    match value:
        case bool():
            return not value
        case int():
            near = [value + 1, value - 1, value + rng.randint(2, 5), value * 2, rng.randint(0, 12), value // 2, 0, 1]
            new = rng.choice(near)
            return new if new >= 0 or value < 0 or rng.random() < 0.3 else abs(new)
        case float():
            return rng.choice([value + 0.5, value - 1.0, value * 2, round(value / 3, 2), 0.0, -value, value + 1.0])
        case str():
            return _string(value, rng)
        case bytes():
            return _string(value.decode("latin-1"), rng).encode("latin-1", "ignore")
    return value


def _string(value: str, rng: random.Random) -> str:
    if not value:
        return rng.choice(["a", "ab", " ", "1"])
    i = rng.randrange(len(value))
    char = value[i]
    alike = "0123456789" if char.isdigit() else "abcdexyz" if char.islower() else "ABCXYZ" if char.isupper() else value
    return rng.choice(
        [
            value[:i] + value[i + 1 :],
            value[:i] + char + value[i:],
            value[:i] + rng.choice(alike) + value[i + 1 :],
            value + rng.choice(value),
            value[::-1],
            value[i:] + value[:i],
            value[: i + 1],
            value[:i] + rng.choice(alike) + value[i:],
            value.swapcase() if rng.random() < 0.3 else value[i:],
        ]
    )
