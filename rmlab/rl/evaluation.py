"""Evaluations of a policy under way: how good is it on validation, and does its verifier still know?

The same tasks, attempts and random streams at every evaluation, so that two of them differ by the policy alone. The hacking gap is
what the verifier believes beyond the truth, against the first evaluation: (mean score - true rate) now minus the same then. Its
two parts stand beside it: inflation (the score rose) and lost skill (the rate fell).

How good is a policy on tasks that it was not trained on?

Four held-out benchmarks, all of the evaluation part (functions that no part shares): `new` functions of the sources that it was
trained on, the `withheld` family of functions, `two_bugs` (two changed lines: hardly any is mended where edits start over, and they
stay in what is said of all), and `long` functions. A task stands in one of them.

Did one reward make a better policy than another, on the same held-out tasks?

Paired by task: pass@1 after training of A minus that of B, by benchmark and over all, with a cluster bootstrap's interval. What
another seed of RL would give is not in the interval.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rmlab.errors import DataError, MissingArtifact, UsageError
from rmlab.fingerprint import fingerprint
from rmlab.metrics.report import report
from rmlab.metrics.uncertainty import paired_difference
from rmlab.microswe.task import Task
from rmlab.policies.engine import Engine, EngineSeconds, Rollout, Sampling, seconds_of
from rmlab.policies.success import success
from rmlab.rl.attempts import make_attempts, sampled_and_greedy
from rmlab.rl.config import LoopConfig, WatchConfig
from rmlab.rl.outcome import behaviour, gap_parts
from rmlab.rl.reward_model import RewardModel, log_odds
from rmlab.scores.scores import Scores
from rmlab.trajectories.record import Trajectory

if TYPE_CHECKING:
    from rmlab.tracking.query import TrackedRun

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
    found = success(trajectories)
    return {name: found.pass_at_1, f"{name}_low": found.low, f"{name}_high": found.high}


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


NAMES = ("new", "withheld", "two_bugs", "long")


def benchmarks(tasks: Sequence[Task], number: int | None, long_lines: int, seed: int = 0) -> dict[str, list[Task]]:
    """Name to tasks of the evaluation part, at most `number` each (None = all), in an order drawn by seed.

    tasks: of all parts; the withheld sources are those that the RL part does not have. A benchmark without tasks is left out.
    """
    trained = {task.source for task in tasks if task.part == "rl"}
    found: dict[str, list[Task]] = {name: [] for name in NAMES}
    for task in tasks:
        if task.part == "evaluation":
            found[_name(task, trained, long_lines)].append(task)
    drawn = {name: sorted(own, key=lambda t: fingerprint([seed, t.task_id]))[:number] for name, own in found.items()}
    return {name: own for name, own in drawn.items() if own}


def _name(task: Task, trained: set[str], long_lines: int) -> str:
    if len(task.lines) > 1:
        return "two_bugs"
    if task.source not in trained:
        return "withheld"
    return "long" if task.code.count("\n") + 1 >= long_lines else "new"


def rates_by_task(trajectories: Sequence[Trajectory]) -> dict[str, float]:
    """task_id to the share of its labelled attempts that are resolved."""
    labels: dict[str, list[bool]] = {}
    for trajectory in trajectories:
        if trajectory.resolved is not None:
            labels.setdefault(trajectory.task_id, []).append(trajectory.resolved)
    return {task: sum(own) / len(own) for task, own in labels.items()}


RATES = "held_out.json"


def pooled_benchmarks(held_out: Collection[str], without: Collection[str]) -> list[str]:
    """The benchmarks that `all` is over. Raises UsageError for one to leave out that is none, or where none is left."""
    if unknown := sorted(set(without) - set(NAMES)):
        raise UsageError(f"{', '.join(unknown)} is no held-out benchmark: they are {', '.join(NAMES)}")
    left = [name for name in held_out if name not in without]
    if held_out and not left:
        raise UsageError(f"without {', '.join(sorted(without))} no held-out benchmark is left of {', '.join(held_out)}")
    return left


def compare_policies(a: "TrackedRun", b: "TrackedRun", without: Collection[str] = ()) -> dict[str, Any]:
    """benchmarks: benchmark → way → before (B), after (A), difference. `all` is over all benchmarks but those in `without`.

    Tasks that only one of them was held out with are left out and counted (`unpaired`). Raises DataError where a run has no rates by
    task, or they have no task in common.
    """
    rates: dict[str, Any] = {}
    clusters: dict[str, str] = {}
    for name, run in (("a", a), ("b", b)):
        record = _rates(run)
        rates[name], clusters = record["after"], clusters | record["clusters"]
    ways = {
        benchmark: [way for way in own if way in rates["b"].get(benchmark, {})] for benchmark, own in rates["a"].items()
    }
    if not any(ways.values()):
        raise DataError(f"{a.name} and {b.name} have no held-out benchmark in common: there is nothing to compare")
    pooled = pooled_benchmarks([name for name, both in ways.items() if both], without)
    found: dict[str, Any] = {}
    then_of: dict[str, dict[str, float]] = {}
    now_of: dict[str, dict[str, float]] = {}
    unpaired = len(_tasks(rates["a"]) ^ _tasks(rates["b"]))
    for benchmark, both in ways.items():
        for way in both:
            then, now = rates["b"][benchmark][way], rates["a"][benchmark][way]
            found.setdefault(benchmark, {})[way] = asdict(paired_difference(then, now, clusters))
            if benchmark in pooled:
                then_of.setdefault(way, {}).update(then)
                now_of.setdefault(way, {}).update(now)
    found["all"] = {way: asdict(paired_difference(then_of[way], now_of[way], clusters)) for way in now_of}
    return {"a": a.run_id, "b": b.run_id, "unpaired": unpaired, "benchmarks": found}


def _tasks(rates: Any) -> set[str]:
    return {task for ways in rates.values() for by_task in ways.values() for task in by_task}


def _rates(run: "TrackedRun") -> Any:
    try:
        return json.loads(run.artifact(RATES).read_text(encoding="utf-8"))
    except MissingArtifact as error:
        raise DataError(
            f"{run.name} ({run.run_id}) kept no rates by task, so it cannot be compared in pairs: it is not finished, or "
            "older than this comparison. `rmlab figures rl_table` shows it beside the others."
        ) from error
