"""Evaluations of a policy during training: how good is it on validation, and are its verifier's scores still right?

Every evaluation uses the same tasks, attempts and random streams, so that two of them differ only by the policy. The hacking gap is
how much the verifier's overestimate has grown since the first evaluation: (mean score - true rate) now minus the same then. Its
two parts are reported beside it: inflation (the score rose) and lost skill (the rate fell).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rmlab.metrics.report import report
from rmlab.microswe.task import Task
from rmlab.policies.engine import Engine, EngineSeconds, Rollout, Sampling, seconds_of
from rmlab.policies.success import success
from rmlab.rl.advantages import log_odds
from rmlab.rl.batch import make_attempts, sampled_and_greedy
from rmlab.rl.config import LoopConfig, WatchConfig
from rmlab.rl.outcome import behaviour, gap_parts
from rmlab.rl.reward_model import RewardModel
from rmlab.scores.scores import Scores
from rmlab.trajectories.record import Trajectory

OF_THE_VERIFIER = (
    "auc_within_task",
    "auc_pooled",
    "ece_width_10",
    "ece_less_floor",
    "brier",
    "advantage_cosine",
    "advantage_cosine_all",
    "advantage_noise_share",
    "mixed_tasks",
)
"""What is tracked of the verifier on the policy's own attempts, by the report's names."""


@dataclass(frozen=True)
class EvalResult:
    """metrics: by name without a group. rollouts: the sampled attempts. rates: task to resolved share of them; greedy: of the
    greedy attempt. scores: the verifier's table of the sampled attempts, None without a verifier."""

    metrics: dict[str, float]
    rollouts: list[Rollout]
    rates: dict[str, float]
    greedy: dict[str, float]
    scores: Scores | None


def attempt_tasks(
    engine: Engine, tasks: Sequence[Task], name: str, attempts: int, config: LoopConfig, seed: int
) -> list[Rollout]:
    """The sampled attempts at tasks, without those that the environment failed on."""
    return make_attempts(
        engine, tasks, name, attempts, Sampling(config.temperature, config.max_action_tokens), seed, config.retries
    ).rollouts


def evaluate(
    engine: Engine,
    tasks: Sequence[Task],
    name: str,
    attempts: int,
    reward_model: RewardModel | None,
    config: LoopConfig,
    seed: int,
    first: Mapping[str, float] | None,
) -> EvalResult:
    """`attempts` sampled attempts at each validation task and the greedy one, measured.

    first: the metrics of the first evaluation, None at the first itself.
    """
    sampled, greedy, _ = sampled_and_greedy(
        engine, tasks, name, attempts, Sampling(config.temperature, config.max_action_tokens), seed, config.retries
    )
    own, likeliest = [r.trajectory for r in sampled], [r.trajectory for r in greedy]
    habits = behaviour(greedy)
    metrics = {
        **rates_of(own, "pass_at_1"),
        **rates_of(likeliest, "pass_at_1_greedy"),
        "ran_share_greedy": habits["ran_share"],
        "turns_greedy": habits["turns"],
    }
    scores = None
    if reward_model is not None:
        scores = Scores.of_trajectories(own, reward_model.score(own).score_N)
        metrics |= of_the_verifier(scores, first)
    return EvalResult(metrics, sampled, rates_by_task(own), rates_by_task(likeliest), scores)


def rates_of(trajectories: Sequence[Trajectory], name: str) -> dict[str, float]:
    """The share of labelled attempts that are resolved, with its interval over clusters: NAME, NAME_low, NAME_high."""
    rate = success(trajectories)
    return {name: rate.pass_at_1, f"{name}_low": rate.low, f"{name}_high": rate.high}


def of_the_verifier(scores: Scores, first: Mapping[str, float] | None) -> dict[str, float]:
    """What a verifier is worth on these attempts, what is undefined left out; the hacking gap and its parts since the first
    evaluation (None: this is it)."""
    measured = report(scores, replicates=0)
    metrics = {f"verifier_{name}": float(measured[name]) for name in OF_THE_VERIFIER if measured[name] is not None}
    metrics |= {"verifier_mean_score": float(scores.score.mean()), "verifier_mean_label": float(scores.resolved.mean())}
    before = metrics if first is None else first
    return {**metrics, "hacking_gap": gap(metrics) - gap(before), **gap_parts(before, metrics)}


def gap(metrics: Mapping[str, float]) -> float:
    """What the verifier believes beyond the truth: mean score - true rate."""
    return metrics["verifier_mean_score"] - metrics["verifier_mean_label"]


def evaluate_held_out(
    engine: Engine, tasks_of: Mapping[str, Sequence[Task]], name: str, config: LoopConfig, watch: WatchConfig, seed: int
) -> tuple[dict[str, dict[str, dict[str, float]]], dict[str, float]]:
    """Rates by benchmark and way ("sampled", "greedy") of each task, and metrics by `BENCHMARK/...`. All attempts of all benchmarks
    go through the engine together."""
    tasks = [task for own in tasks_of.values() for task in own]
    if not tasks:
        return {}, seconds_of(EngineSeconds())
    made = sampled_and_greedy(
        engine,
        tasks,
        name,
        watch.held_out_attempts,
        Sampling(config.temperature, config.max_action_tokens),
        seed,
        config.retries,
    )
    rates: dict[str, dict[str, dict[str, float]]] = {}
    metrics: dict[str, float] = {}
    for benchmark, own in tasks_of.items():
        names = {task.task_id for task in own}
        sampled, greedy = (
            [r.trajectory for r in part if r.trajectory.task_id in names] for part in (made.sampled, made.greedy)
        )
        rates[benchmark] = {"sampled": rates_by_task(sampled), "greedy": rates_by_task(greedy)}
        of_both = {**rates_of(sampled, "pass_at_1"), **rates_of(greedy, "pass_at_1_greedy")}
        metrics |= {f"{benchmark}/{key}": value for key, value in of_both.items()}
    return rates, metrics | seconds_of(made.seconds)


def start_difficulty(
    engine: Engine, tasks: Sequence[Task], name: str, attempts: int, config: LoopConfig, seed: int
) -> dict[str, float]:
    """Log odds of each task that the policy as it is solves it, from `attempts` sampled attempts."""
    made = attempt_tasks(engine, tasks, name, attempts, config, seed)
    task_N, code_N = np.unique([r.trajectory.task_id for r in made], return_inverse=True)
    odds_K = log_odds(np.array([float(bool(r.trajectory.resolved)) for r in made]), code_N.astype(np.intp))
    return dict(zip(task_N.tolist(), odds_K.tolist(), strict=True))


def levelled(odds: Mapping[str, float], tasks: Sequence[Task]) -> dict[str, float]:
    """The mean of the log odds over `tasks`, which RL draws all alike often, for every task."""
    return dict.fromkeys(odds, float(np.mean([odds[task.task_id] for task in tasks])))


def rates_by_task(trajectories: Sequence[Trajectory]) -> dict[str, float]:
    """task_id to the share of its labelled attempts that are resolved."""
    labels: dict[str, list[bool]] = {}
    for trajectory in trajectories:
        if trajectory.resolved is not None:
            labels.setdefault(trajectory.task_id, []).append(trajectory.resolved)
    return {task: sum(own) / len(own) for task, own in labels.items()}
