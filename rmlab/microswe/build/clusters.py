"""Which functions are so alike that they must not stand on both sides of a split?

Two functions are joined when their syntax trees are equal after renaming, when the trigrams of their tokens have a
Jaccard overlap of at least 0.6, or when one is among the helpers that travel with the other. Clusters are the connected
components. Tokens are those of the plain text as it is written, names included: a policy reads names, and a common
skeleton with other names is what the first rule is for.

In which of the five parts does each cluster stand? Whole clusters are dealt out, source by source, to the part that is furthest below
its share of tasks. One source is withheld: it stands in evaluation only, so that evaluation also asks about functions of a kind never
trained on.
"""

import ast
import io
import tokenize
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from rmlab.errors import UsageError
from rmlab.fingerprint import fingerprint
from rmlab.microswe.task import Task
from rmlab.trajectories.record import Split
from rmlab.trajectories.splitting import joined

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
    pairs: list[tuple[str, str]] = []
    by_tree: dict[str, str] = {}
    for name, code in codes.items():
        pairs.append((name, by_tree.setdefault(renamed(code), name)))
    for name, context in (contexts or {}).items():
        for statement in ast.parse(context).body:
            if (
                isinstance(statement, ast.FunctionDef)
                and (twin := by_tree.get(renamed(ast.unparse(statement)))) is not None
            ):
                pairs.append((name, twin))
    pairs += _alike({name: trigrams(code) for name, code in codes.items()})
    return joined(codes, pairs)


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


SHARES: dict[Split, float] = {"supervised": 0.22, "verifier": 0.38, "validation": 0.06, "rl": 0.16, "evaluation": 0.18}
"""Share of the tasks of every source that is not withheld."""


def deal(
    sizes: Mapping[str, Mapping[str, int]], withheld: str, seed: int, shares: Mapping[Split, float] = SHARES
) -> dict[str, Split]:
    """Cluster to part.

    sizes: source -> cluster -> tasks. A cluster that reaches over several sources counts where most of its tasks are,
    and goes to evaluation where any of them is withheld. withheld: a source, or "" for none. Deterministic by seed.
    """
    parts: dict[str, Split] = dict.fromkeys(sizes.get(withheld, {}), "evaluation")
    home: dict[str, str] = {}
    total: dict[str, int] = {}
    for source, clusters in sizes.items():
        for cluster, tasks in clusters.items():
            total[cluster] = total.get(cluster, 0) + tasks
            if tasks > sizes.get(home.get(cluster, ""), {}).get(cluster, 0):
                home[cluster] = source
    for source in sorted(sizes):
        names = [c for c in home if home[c] == source and c not in parts]
        # large clusters first: the small ones that follow even the shares out
        names.sort(key=lambda c: (-total[c] // 24, fingerprint([seed, c])))
        dealt: dict[Split, Fraction] = dict.fromkeys(shares, Fraction(0))
        for cluster in names:
            part = min(shares, key=lambda p: (dealt[p] + total[cluster] / 2) / Fraction(shares[p]))
            dealt[part] += total[cluster]
            parts[cluster] = part
    return parts


def counted(tasks: Sequence[Task]) -> dict[str, Any]:
    """What a tasks file states of its tasks: how many there are of what, by part, source and operator."""
    cluster_of = {task.function_id: task.cluster for task in tasks}
    sizes = Counter(cluster_of.values())
    largest, most = min(sizes.items(), key=lambda pair: (-pair[1], pair[0]))
    return {
        "tasks": len(tasks),
        "functions": len(cluster_of),
        "clusters": len(sizes),
        "largest_cluster": {"name": largest, "functions": most},
        "tasks_of_largest_cluster": sum(t.cluster == largest for t in tasks),
        "by_part": {part: Counter(t.source for t in tasks if t.part == part) for part in SHARES},
        "by_source": dict(sorted(Counter(t.source for t in tasks).items())),
        "functions_by_part": {part: len({t.function_id for t in tasks if t.part == part}) for part in SHARES},
        "two_bugs": sum(len(t.lines) == 2 for t in tasks),
        "operators": Counter(name for t in tasks for name in t.operators),
    }


def demonstration_split(
    tasks: Sequence[Task], beside: Sequence[Task], share: float, seed: int = 0
) -> tuple[list[Task], list[Task]]:
    """(those that stay, those that go to the part `supervised`). Deterministic by seed, in the order of `tasks`.

    beside: the tasks that they were built beside. share: of the tasks, reached by whole clusters in the order of their hash.
    Raises UsageError for a share that is not between 0 and 1, or that no whole cluster fits in.
    """
    if not 0 < share < 1:
        raise UsageError(f"share={share}: must be between 0 and 1")
    there = {task.cluster for task in beside}
    free = sorted({task.cluster for task in tasks} - there, key=lambda name: fingerprint(["apart", seed, name]))
    sizes = dict.fromkeys(free, 0)
    for task in tasks:
        if task.cluster in sizes:
            sizes[task.cluster] += 1
    going, taken = set[str](), 0
    for name in free:
        if taken + sizes[name] <= share * len(tasks):
            going.add(name)
            taken += sizes[name]
    if not going:
        raise UsageError(
            f"share={share}: no whole cluster is that small, so nothing would be set apart. Use a larger share."
        )
    stay = [task for task in tasks if task.cluster not in going]
    return stay, [replace(task, part="supervised") for task in tasks if task.cluster in going]
