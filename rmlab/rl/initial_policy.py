"""May reinforcement learning go on from this policy, on these tasks and by these rules?

What a warm start wrote into policy.json: the clusters of functions that it was shown, and the rules that it was taught.
"""

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from rmlab.errors import DataError
from rmlab.microswe.episode import Edits, EnvironmentConfig
from rmlab.microswe.task import Task

PASSED_ON = ("shown_clusters",)
"""Of a start's record, what holds of the policies that come from it. The rules of play are those of their own training."""


def select_tasks(
    record: Mapping[str, Any], tasks: Sequence[Task], name: str, environment: EnvironmentConfig
) -> list[Task]:
    """The tasks of the part `rl` to train on; says what is left out of them, and which rules of play the start was not taught.

    Raises DataError as `check_shown` does.
    """
    check_shown(record, tasks, name)
    for words in other_rules(record, environment):
        print(words, file=sys.stderr)
    whole = [task for task in tasks if task.part == "rl"]
    trainable = trainable_tasks(whole, environment)
    if len(trainable) < len(whole):
        print(
            f"{len(whole) - len(trainable)} of {len(whole)} tasks have two changed lines and are not trained on: edits start over"
        )
    return trainable


def check_shown(record: Mapping[str, Any], tasks: Sequence[Task], name: str) -> None:
    """Raises DataError where a task of another part than `supervised` is in a cluster that the policy was shown.

    record: policy.json, {} where there is none: nothing is known of a policy from elsewhere.
    """
    clusters = record.get("shown_clusters", [])
    if not isinstance(clusters, list) or not all(isinstance(name, str) for name in clusters):
        raise DataError(f"start={name}: shown_clusters of its policy.json is no list of names: get the policy again")
    shown = set(clusters)
    mixed = next((task for task in tasks if task.part != "supervised" and task.cluster in shown), None)
    if mixed is not None:
        raise DataError(
            f"start={name} was shown functions of the cluster {mixed.cluster}, and {mixed.task_id} of the part {mixed.part} is "
            "in it: the parts never mix. Name the tasks files that its demonstrations were kept apart from, or teach it anew."
        )


def other_rules(record: Mapping[str, Any], environment: EnvironmentConfig) -> list[str]:
    """The rules of play that the policy was taught and that differ from these, in words: allowed, and said."""
    taught = record.get("environment", {})
    now = {"edits": environment.edits.value, "max_turns": environment.max_turns}
    if taught:
        taught = {"edits": Edits.build_up.value, **taught}  # from before there was a choice
    return [
        f"environment.{key}={value}, and the start was taught under {taught[key]}"
        for key, value in now.items()
        if key in taught and taught[key] != value
    ]


def trainable_tasks(tasks: Sequence[Task], environment: EnvironmentConfig) -> list[Task]:
    """The tasks that a policy can learn from: where edits start over, none with two changed lines, which one edit cannot mend."""
    return [task for task in tasks if environment.edits is Edits.build_up or len(task.lines) == 1]
