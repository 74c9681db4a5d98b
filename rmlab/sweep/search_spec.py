"""A search in a sweep file: the factors that it may set, the objectives, the number of trials, and the sampler.

```yaml
search:
  trials: 24                                    # in all, over every launch
  objectives: {validation/rm_at_k@8: maximize}  # a metric of the finished run; NAME@K = its value at step K
  space:
    learning_rate: {low: 3.0e-4, high: 1.0e-2, log: true}
    batch_size: {choices: [16, 32, 64]}
  sampler: {_target_: optuna.samplers.TPESampler, seed: 0}
  pruning: {metric: train/loss, goal: minimize, pruner: {_target_: optuna.pruners.MedianPruner}}   # one objective only
```
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rmlab.errors import UsageError
from rmlab.sweep.factors import find_factors
from rmlab.wording import near

GOALS = ("minimize", "maximize")
_RANGE = {"low", "high", "log", "step"}


@dataclass
class SearchSpec:
    """trials: their total number. objectives: metric (or metric@step) to goal. space: factor to its range {low, high, log, step} or
    {choices}. sampler, pruning.pruner: built from `_target_`. storage: database of the study, null = a sqlite file in the runs folder.
    """

    trials: int
    objectives: dict[str, str]
    space: dict[str, dict[str, Any]]
    sampler: dict[str, Any] = field(default_factory=lambda: {"_target_": "optuna.samplers.TPESampler", "seed": 0})
    pruning: dict[str, Any] | None = None
    storage: str | None = None

    def check(self, path: Path, named: Mapping[str, Any]) -> None:
        """Raises UsageError, in one line, for what cannot be searched. named: what the names of choices mean."""
        find_factors(self.space)
        if self.trials < 1 or not self.objectives or not self.space:
            raise UsageError(f"{path}: search needs trials (at least 1), objectives and a space")
        for metric, goal in self.objectives.items():
            if goal not in GOALS:
                raise UsageError(f"{path}, search: {metric}: {goal} must be minimize or maximize")
            if metric.startswith("eval/"):
                raise UsageError(
                    f"{path}, search: objective {metric} belongs to the evaluation part, which a search must not see. "
                    f"Use validation/{metric.removeprefix('eval/')}."
                )
        if self.pruning and len(self.objectives) > 1:
            raise UsageError(
                f"{path}, search: pruning in Optuna works with one objective only, and there are "
                f"{len(self.objectives)}. Remove pruning, or all objectives but one."
            )
        if self.pruning and not {"metric", "pruner"} <= self.pruning.keys() <= {"metric", "pruner", "goal"}:
            raise UsageError(
                f"{path}, search: pruning takes the keys metric, goal and pruner, but was given {', '.join(self.pruning)}"
            )
        for factor in find_factors(self.space):
            allowed = self.space[factor.name]
            choices = allowed.get("choices")
            if not (
                (isinstance(choices, list) and choices and len(allowed) == 1)
                or {"low", "high"} <= allowed.keys() <= _RANGE
            ):
                raise UsageError(
                    f"{path}, search: {factor.name}={allowed} must be {{low, high}} (with log or step) or {{choices}}"
                )
            if not factor.sets and (lost := [c for c in choices or ["a number"] if str(c) not in named]):
                raise UsageError(
                    f"{path}: choice {lost[0]} of {factor.name} is not defined{near(str(lost[0]), named)}; "
                    f"`named` defines: {', '.join(named) or 'none'}"
                )


def read_search(raw: dict[str, Any], path: Path) -> SearchSpec:
    """Takes `search` out of a sweep file's mapping and fills in what a search does not have: factor, levels and baseline."""
    search = raw.pop("search")
    known = list(SearchSpec.__dataclass_fields__)
    if (
        not isinstance(search, dict)
        or not isinstance(search.get("space"), dict)
        or not isinstance(search.get("objectives"), dict)
    ):
        raise UsageError(f"{path}: search must have trials, objectives {{METRIC: GOAL}} and space {{FACTOR: RANGE}}")
    for key in search:
        if key not in known:
            raise UsageError(
                f"{path}, search: there is no key {key!r}{near(str(key), known)}; the keys are {', '.join(known)}"
            )
    for name, allowed in search["space"].items():
        if not isinstance(allowed, dict):
            raise UsageError(
                f"{path}, search: {name}={allowed} must be {{low, high}} (with log or step) or {{choices}}"
            )
    for key, kind, what in (
        ("sampler", dict, "a mapping with `_target_`"),
        ("pruning", dict, "a mapping with the keys metric, goal and pruner"),
        ("storage", str, "the URL of a database"),
    ):
        if search.get(key) is not None and not isinstance(search[key], kind):
            raise UsageError(f"{path}, search: {key}={search[key]} must be {what}")
    if not isinstance(search.get("trials"), int) or isinstance(search["trials"], bool):
        raise UsageError(f"{path}, search: trials must be a whole number")
    for key in ("factor", "levels", "baseline"):
        if key in raw:
            raise UsageError(f"{path}: a search has no {key}: its space defines what varies")
    raw |= {"factor": next(iter(search["space"]), ""), "levels": ["searched"], "baseline": "searched"}
    return SearchSpec(**search)
