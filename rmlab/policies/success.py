"""How good is a policy? pass@1 with its interval, and how its attempts go.

pass@1 = the mean over tasks of the share of attempts that are resolved (a mean over tasks, not over rows). Attempts at
one task, and at tasks of one cluster, stand or fall together: the bootstrap draws whole clusters.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rmlab.errors import DataError, UsageError
from rmlab.fingerprint import fingerprint
from rmlab.metrics.uncertainty import cluster_weights, interval
from rmlab.microswe.actions import Run, try_parse
from rmlab.microswe.episode import EnvironmentConfig
from rmlab.microswe.loading import LoadedTasks
from rmlab.microswe.sandbox import Sandbox
from rmlab.microswe.task import Task
from rmlab.policies.demonstrations import HeldOutConfig
from rmlab.policies.engine import EngineConfig, Sampling
from rmlab.policies.rollout import Planned, plan
from rmlab.progress import progress
from rmlab.training.config import RuntimeConfig
from rmlab.trajectories.record import Trajectory
from rmlab.wording import counted, estimate

if TYPE_CHECKING:
    from rmlab.models.tokenizer import Tokenizer

REPLICATES = 2000


@dataclass(frozen=True)
class Success:
    """pass_at_1 with its 95 % percentile interval. The shares are over attempts. unlabelled: left out, counted."""

    pass_at_1: float
    low: float
    high: float
    tasks: int
    attempts: int
    unlabelled: int
    unfinished: float
    ran: float
    unreadable: float
    turns: float

    def metrics(self, group: str) -> dict[str, float]:
        """By metric name, as `GROUP/pass_at_1`."""
        names = ("pass_at_1", "unfinished", "ran", "unreadable", "turns")
        return {f"{group}/{name}": getattr(self, name) for name in names} | {
            f"{group}/pass_at_1_low": self.low,
            f"{group}/pass_at_1_high": self.high,
        }

    def __str__(self) -> str:
        return (
            f"pass@1 {estimate(self.pass_at_1, (self.low, self.high))}, "
            f"{counted(self.tasks, 'task')}, {counted(self.attempts, 'attempt')} "
            f"({self.unlabelled} without label), unfinished {self.unfinished:.3f}, ran {self.ran:.3f}, "
            f"unreadable messages {self.unreadable:.3f}, {self.turns:.2f} turns"
        )


def success(trajectories: Sequence[Trajectory], seed: int = 0) -> Success:
    """Measures the attempts of one policy. Raises DataError where none has a label."""
    labelled = [t for t in trajectories if t.resolved is not None]
    if not labelled:
        raise DataError(f"none of {len(trajectories)} attempts has a label: there is no pass@1")
    by_task: dict[str, list[bool]] = {}
    cluster_of: dict[str, str] = {}
    for t in labelled:
        by_task.setdefault(t.task_id, []).append(bool(t.resolved))
        cluster_of[t.task_id] = t.cluster
    clusters = {name: i for i, name in enumerate(sorted(set(cluster_of.values())))}
    cluster_K = np.array([clusters[cluster_of[task]] for task in by_task])
    rate_K = np.array([np.mean(labels) for labels in by_task.values()])
    sum_C = np.bincount(cluster_K, rate_K, len(clusters))
    count_C = np.bincount(cluster_K, minlength=len(clusters)).astype(float)
    value_R = np.concatenate(
        [(w_RC @ sum_C) / (w_RC @ count_C) for w_RC in cluster_weights(len(clusters), REPLICATES, seed)]
    )
    estimate = float(rate_K.mean())
    low, high = interval(estimate, value_R) or (np.nan, np.nan)
    return Success(
        estimate, low, high, len(by_task), len(labelled), len(trajectories) - len(labelled), **conduct(labelled)
    )


def conduct(trajectories: Sequence[Trajectory]) -> dict[str, float]:
    """How attempts go, whatever their outcome. unfinished: share that never submitted. ran: share that ran the public call.
    unreadable: share of the policy's messages that are no action. turns: its messages an attempt."""
    actions = [[try_parse(m.content) for m in t.messages if m.role == "assistant"] for t in trajectories]
    every = [action for own in actions for action in own]
    return {
        "unfinished": float(np.mean([t.exit_status == "unfinished" for t in trajectories])),
        "ran": float(np.mean([any(isinstance(action, Run) for action in own) for own in actions])),
        "unreadable": float(np.mean([action is None for action in every])) if every else 0.0,
        "turns": float(np.mean([len(own) for own in actions])),
    }


def held_out_success(
    model: Any,
    tokenizer: "Tokenizer",
    title: str = "",
    *,
    loaded: LoadedTasks,
    sandbox: Sandbox,
    config: HeldOutConfig,
    environment: EnvironmentConfig,
    engine: EngineConfig,
    runtime: RuntimeConfig,
    name: str,
    seed: int,
) -> dict[str, Success]:
    """pass@1 by PART_sampled and PART_greedy, {} where config.tasks is 0; prints a line each, behind the title.

    name: of the policy, by which its attempts are drawn. Raises UsageError as `held_out_tasks` does.
    """
    from rmlab.policies.language_engine import LanguageEngine
    from rmlab.training.device import prepare_device

    by_way = dict[str, Success]()
    if config.tasks == 0:
        return {}
    playing = LanguageEngine(model, tokenizer, sandbox, environment, engine, prepare_device(runtime.device))
    wanted: list[tuple[str, Planned, Sampling]] = []  # all in one queue: only one of them waits for its longest line
    for part in config.parts:
        chosen = held_out_tasks(loaded, part, config.tasks, seed)
        for way, temperature, attempts in (("sampled", config.temperature, config.attempts), ("greedy", 0.0, 1)):
            sampling = Sampling(temperature, config.max_action_tokens)
            wanted += [(f"{part}_{way}", planned, sampling) for planned in plan(chosen, [name], attempts)]
    with progress("held out", len(wanted), "episodes", runtime.progress) as advance:
        made, seconds = playing.rollout(
            [planned for _, planned, _ in wanted], [sampling for _, _, sampling in wanted], seed, advance
        )
    for which in dict.fromkeys(which for which, _, _ in wanted):
        by_way[which] = success(
            [rollout.trajectory for rollout, (own, _, _) in zip(made, wanted, strict=True) if own == which]
        )
        print(f"{title}{which.replace('_', ', ')}: {by_way[which]}")
    print(f"{title}{len(made)} held-out attempts in {seconds}")
    return by_way


def held_out_tasks(loaded: LoadedTasks, part: str, number: int | None, seed: int) -> list[Task]:
    """Tasks of a part, drawn by seed. Raises UsageError for the supervised part, an unknown one, or too few."""
    tasks = [task for task in loaded.tasks if task.part == part]
    if part == "supervised" or len(tasks) < (number or 1):
        raise UsageError(
            f"held_out.parts={part}, held_out.tasks={number}: that part has {counted(len(tasks), 'task')} here, and the "
            "supervised part is learned from. Choose among validation, rl, verifier, evaluation."
        )
    return sorted(tasks, key=lambda task: fingerprint([seed, task.task_id]))[:number]
