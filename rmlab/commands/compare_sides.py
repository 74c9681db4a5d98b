"""What `rmlab compare A B` compares: which runs, files or rule the two sides are, and in what two runs differ."""

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rmlab.commands.compare_rules import rules
from rmlab.errors import AmbiguousName, DataError, MissingArtifact, StoreError, StoreOutOfReach
from rmlab.files import FORMATS
from rmlab.wording import listed, near

if TYPE_CHECKING:
    from rmlab.tracking.bundles.reading import AnyRun

TIME_LIMITS = ("rl.max_minutes",)
"""Keys that say only after how long a run pauses: the same command goes on, and the result is the same."""
FindRun = Callable[[str], "AnyRun"]
"""A run by its name (`rmlab.tracking.references`)."""


@dataclass(frozen=True)
class Side:
    """One side of the comparison: its name as given, and its run (None for a file, a folder or a rule)."""

    given: str
    run: "AnyRun | None"
    is_rule: bool = False

    def __str__(self) -> str:
        if self.is_rule:
            return f"the rule {self.given}"
        return f"{self.run.name} (run {self.run.run_id})" if self.run else self.given


@contextmanager
def lookup(source: str | None) -> Iterator[FindRun]:
    """Finds runs by name, with their artifacts as long as the block runs.

    source: a store's URL or file, a bundle, or a folder of bundles; None = the project's own store. Raises StoreError for a store that
    was named and is not there, UsageError for a folder without bundles, DataError for a damaged bundle.
    """
    from rmlab.tracking.bundles.several import bundled_runs, bundles_named
    from rmlab.tracking.references import find_run, run_among
    from rmlab.tracking.store import Store

    if source and (bundles := bundles_named(source)):
        with bundled_runs(bundles) as inside:
            yield lambda name: _found(name, lambda: run_among(name, inside, source))
        return
    if source:
        Store.to_read(source)
    yield lambda name: _found(name, lambda: find_run(name, source))


def _found(name: str, find: "Callable[[], AnyRun]") -> "AnyRun":
    """What `find` finds. What cannot be a run's name, but a level's, is said to be one."""
    from rmlab.tracking.query import SHORTEST

    try:
        return find()
    except (StoreOutOfReach, MissingArtifact, AmbiguousName):
        raise
    except (DataError, StoreError) as error:
        is_file = Path(name).suffix.lower() in FORMATS
        if "/" in name or is_file or re.fullmatch(rf"[0-9a-f]{{{SHORTEST},32}}", name):
            raise
        from rmlab.baselines.rules import SCORING

        raise type(error)(
            f"{str(error).rstrip('.')}. Rules that need no verifier are named {rules()}{near(name, SCORING)}. "
            "Levels of a sweep are compared with --sweep NAME."
        ) from error


def differences(a: "AnyRun", b: "AnyRun") -> dict[str, list[Any]]:
    """How two runs differ: keys of their configurations that can matter and tags of their origin, with both values."""
    import yaml

    from rmlab.tracking.parameters import TRACKING, differing_keys

    configs = [yaml.safe_load(run.artifact("config.yaml").read_text(encoding="utf-8")) for run in (a, b)]
    differing = {}
    for key in differing_keys(*configs):
        if not key.startswith(f"{TRACKING}.") and key not in TIME_LIMITS:
            differing[key] = [_at(config, key) for config in configs]
    for tag in ("dataset", "commit", "device"):
        values = [run.tags.get(tag) for run in (a, b)]
        if values[0] != values[1]:
            differing[tag] = values
    # a folder of one name may hold weights that were trained again
    for tag in ("start_fingerprint", "verifier_fingerprint"):
        prints = [run.tags.get(tag) for run in (a, b)]
        if all(prints) and prints[0] != prints[1]:
            differing[tag] = prints
    return differing


def _at(config: Any, key: str) -> Any:
    for part in key.split("."):
        config = config.get(part) if isinstance(config, dict) else None
    return config


def with_runs(sides: Sequence[Side], comparison: dict[str, Any]) -> dict[str, Any]:
    """The comparison, and where both sides are runs which they are and in what they differ."""
    a, b = (side.run for side in sides)
    if a is None or b is None:
        return comparison
    names = {side: {"name": run.name, "run_id": run.run_id} for side, run in (("a", a), ("b", b))}
    try:
        return {**comparison, "runs": names, "differ_in": differences(a, b)}
    except MissingArtifact as error:  # a bundle may have come without it
        print(f"how the two differ is unknown: {error}", file=sys.stderr)
        return {**comparison, "runs": names, "differ_in": None}


def show_sides(sides: Sequence[Side], comparison: dict[str, Any]) -> None:
    """Their names, and in what they differ."""
    print(f"A = {sides[0]}\nB = {sides[1]}")
    keys = comparison.get("differ_in")
    if keys:
        print("they differ in (A | B):", *(f"  {key}: {a} | {b}" for key, (a, b) in keys.items()), sep="\n")
    elif keys is not None:
        known = [tag for tag in ("commit", "device") if _is_known(sides, tag)]
        print(f"they do not differ: same {listed(['configuration', *known])}")


def _is_known(sides: Sequence[Side], tag: str) -> bool:
    """Whether both runs say what a tag of their origin is. A run outside a checkout, for one, does not know its commit."""
    from rmlab.tracking.tags import UNKNOWN

    return all(side.run is not None and side.run.tags.get(tag, UNKNOWN) != UNKNOWN for side in sides)
