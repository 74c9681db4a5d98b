"""Reads what an RL run left behind, and proves it: a figure is drawn of whole outcomes or not at all.

Raises DataError that names the run and the file for what is no JSON, lacks a key, or holds another kind of value or no number.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any, NoReturn

from rmlab.errors import DataError
from rmlab.tracking.bundles.reading import AnyRun

WAYS = ("sampled", "greedy")
PAIRED = ("before", "after", "difference", "low", "high")


def read_json(run: AnyRun, name: str) -> dict[str, Any]:
    """An artifact that is one JSON object of finite numbers."""
    path = run.artifact(name)

    def no_number(word: str) -> NoReturn:
        raise ValueError(f"{word} is no number")

    try:
        found = json.loads(path.read_text(encoding="utf-8"), parse_constant=no_number)
    except ValueError as error:  # of JSON, of its constants and of UTF-8
        raise damaged(run, name, str(error)) from error
    if not isinstance(found, dict):
        raise damaged(run, name, "it is no JSON object")
    return found


def read_outcome(run: AnyRun) -> dict[str, Any]:
    """outcome.json (see rmlab.rl.outcome), with its evaluations in the order of their steps."""
    name = "outcome.json"
    found = read_json(run, name)
    try:
        if held_out := _object(found["held_out"]):  # empty where no task was held out
            for way in WAYS:
                _numbers(held_out["all"][way], PAIRED)
        _numbers({key: found[key] for key in ("area", "hacking_gap")}, ("area", "hacking_gap"), optional=True)
        if found["collapse"] not in (True, False, None):
            raise ValueError(f"collapse is {found['collapse']!r}")
        steps = [_look(row) for row in found["curve"]]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise damaged(run, name, f"{type(error).__name__} {error}") from error
    if steps != sorted(set(steps)):
        raise damaged(run, name, f"its evaluations are at the steps {steps}, which do not rise")
    return found


def read_report(run: AnyRun, name: str = "verifier_report.json") -> dict[str, Any]:
    """The verifier on its own evaluation set."""
    found = read_json(run, name)
    try:
        _numbers(found, ("auc_within_task", "auc_pooled", "ece_width_10", "advantage_cosine_all"), optional=True)
        curve, ends = _object(found.get("rm_at_k") or {}), _object(found.get("ci95") or {})
        _numbers(curve, sorted(curve, key=int))
        pairs = [
            *_object(ends.get("rm_at_k") or {}).values(),
            *(value for value in ends.values() if not isinstance(value, dict)),
        ]
        for low, high in filter(None, pairs):
            if not float(low) <= float(high):
                raise ValueError(f"an interval goes from {low} to {high}")
    except (TypeError, ValueError) as error:
        raise damaged(run, name, f"{type(error).__name__} {error}") from error
    return found


def parameter(run: AnyRun, name: str) -> str:
    """A parameter of the run. Raises DataError where it has none of that name."""
    value = run.params.get(name)
    if value is None:
        raise DataError(
            f"{run.name} ({run.run_id}) has no parameter {name}: it is no run of RL as `rmlab rl` makes them"
        )
    return value


def count(run: AnyRun, name: str) -> int:
    """The same as a whole number."""
    value = parameter(run, name)
    if not value.isdecimal():
        raise DataError(f"{run.name} ({run.run_id}): parameter {name} is {value!r}, which is no whole number")
    return int(value)


def damaged(run: AnyRun, name: str, reason: str) -> DataError:
    """The error that names run and file."""
    return DataError(
        f"{name} of {run.name} ({run.run_id}) cannot be read: {reason}. Get the bundle or the store again."
    )


def _look(row: Mapping[str, Any]) -> int:
    for key, value in row.items():
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise ValueError(f"{key} of an evaluation is {value!r}")
    return int(row["step"])


def _object(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{value!r} stands where an object belongs")
    return value


def _numbers(row: Mapping[str, Any], names: Iterable[str], optional: bool = False) -> None:
    """optional: a name may be missing, or null."""
    for name in names:
        value = row.get(name) if optional else row[name]
        if not (optional and value is None) and (not isinstance(value, int | float) or isinstance(value, bool)):
            raise ValueError(f"{name} is {value!r}")
