"""The data of cells: the pool, read and validated, and its parts as token ids."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Literal

from rmlab.errors import DataError, UsageError
from rmlab.fingerprint import file_fingerprint
from rmlab.microswe.task import read_tasks, tasks_fingerprint
from rmlab.models.config import ModelConfig
from rmlab.models.load import tasks_of_base
from rmlab.models.tokenizer import Tokenizer, load_tokenizer
from rmlab.paths import STARTER
from rmlab.selection.pool import read_index
from rmlab.selection.select import DataConfig
from rmlab.selection.weak_tests import WeakLabels, weak_labels
from rmlab.trajectories.record import Split, Trajectory
from rmlab.trajectories.set_file import NAMED_BY, check_set_file
from rmlab.trajectories.splitting import check_parts
from rmlab.trajectories.store import TrajectorySet, read_trajectories
from rmlab.verifiers.answer import lesson_part, verifier_tokenizer
from rmlab.verifiers.config import EvaluationConfig, PromptConfig
from rmlab.verifiers.encoding import Encoded, encode
from rmlab.verifiers.prompt import check_leaks, visible
from rmlab.wording import counted


@dataclass(frozen=True)
class VerifierData:
    """pool: the whole file. verifier: that part; validation, evaluation: the attempts of these parts that are scored.

    pools: name -> the attempts of a further set that is scored (`evaluation.pools`).
    tasks_there: tasks of a part that could be scored, of which `evaluation.tasks` and `validation_tasks` choose.
    pretraining: what is known of the text that the model has read before. weak: where the verifier part is labelled by a few of
    the hidden tests; its attempts in `verifier` then carry those labels, `pool` keeps the full ones.
    """

    pool: TrajectorySet
    tokenizer: Tokenizer
    verifier: list[Encoded]
    validation: list[Encoded]
    evaluation: list[Encoded]
    prompt: PromptConfig
    pretraining: str
    weak: WeakLabels | None = None
    pools: Mapping[str, list[Encoded]] = field(default_factory=dict)
    tasks_there: Mapping[Split, int] = field(default_factory=dict)

    @property
    def judged(self) -> TrajectorySet:
        """The attempts of `evaluation` as the environment shows them (`prompt.evidence`), whole: what baselines read."""
        return self.shown(self.evaluation)

    @property
    def fitted(self) -> TrajectorySet:
        """All attempts of the validation part, likewise: what baselines are fitted on."""
        return self._visible(self.pool.part("validation").trajectories)

    def scored_words(self, part: Literal["evaluation", "validation"]) -> str:
        """What of a part is scored: `136 attempts (3 more without a label) at 80 of 105 tasks (evaluation.tasks=80)`."""
        attempts = [e.trajectory for e in (self.evaluation if part == "evaluation" else self.validation)]
        tasks = len({t.task_id for t in attempts})
        key = "evaluation.tasks" if part == "evaluation" else "evaluation.validation_tasks"
        return scored_words(attempts, self.tasks_there.get(part, tasks), f"{key}={tasks}")

    def shown(self, attempts: Sequence[Encoded]) -> TrajectorySet:
        """Some of the attempts, as `judged` gives those of `evaluation`."""
        return self._visible([e.trajectory for e in attempts])

    def _visible(self, trajectories: Sequence[Trajectory]) -> TrajectorySet:
        environment = PromptConfig(evidence=self.prompt.evidence)
        return TrajectorySet(tuple(visible(t, environment) for t in trajectories), self.pool.metadata)


def scored_words(attempts: Sequence[Trajectory], there: int, setting: str) -> str:
    """The attempts that are scored, and at how many tasks of those that could be (there), with the setting that leaves some out."""
    labelled = sum(t.resolved is not None for t in attempts)
    more = f" ({len(attempts) - labelled:,} more without a label)" if labelled < len(attempts) else ""
    tasks = len({t.task_id for t in attempts})
    at = counted(tasks, "task") if tasks == there else f"{tasks:,} of {counted(there, 'task')} ({setting})"
    return f"{counted(labelled, 'attempt')}{more} at {at}"


def read_verifier_data(
    path: Path, model: ModelConfig, prompt: PromptConfig, evaluation: EvaluationConfig, cache: Path, show: bool = False
) -> VerifierData:
    """Reads the pool, checks that parts do not mix and prompts do not leak, and tokenises what is trained on and scored.

    cache: folder of tokenizers and token ids that all cells share. show: progress. Raises DataError.
    """
    pool = validated_pool(path)
    read = TrajectorySet(tuple(t for t in pool.trajectories if t.split in READ), pool.metadata)
    if not read.trajectories:
        raise DataError(
            f"none of the {len(pool)} trajectories of {path} has a part (verifier, validation, evaluation): "
            f"`rmlab trajectories split {path} -o SPLIT.parquet` gives them one."
        )
    pretraining = check_pretraining(Path(model.pretrained) if model.pretrained else None, pool)
    if model.pretrained:
        tokenizer = load_tokenizer(Path(model.pretrained), add_markers=True)
    else:
        lessons = read.part(lesson_part({t.split for t in read.trajectories}))
        tokenizer = verifier_tokenizer(lessons.trajectories, model.tokenizer, cache / "tokenizers")
    judged = evaluated(read.part("evaluation").trajectories, evaluation, evaluation.tasks)
    watched = evaluated(read.part("validation").trajectories, evaluation, evaluation.validation_tasks)
    if not judged:
        raise DataError(
            f"{path} has no evaluation attempts of {' or '.join(evaluation.policies) or 'any policy'}: there is nothing "
            "to judge on. Collect some, or change evaluation.policies."
        )

    pools = {
        name: _pool(name, read.part("evaluation").trajectories, evaluation, policies)
        for name, policies in evaluation.pools.items()
    }

    def encoded(trajectories: Sequence[Trajectory]) -> list[Encoded]:
        return encode(trajectories, tokenizer, prompt, cache / "token_ids", show=show)

    return VerifierData(
        pool,
        tokenizer,
        encoded(read.part("verifier").trajectories),
        encoded(watched),
        encoded(judged),
        prompt,
        pretraining,
        pools={name: encoded(attempts) for name, attempts in pools.items()},
        tasks_there={
            part: _tasks_there(read.part(part).trajectories, evaluation) for part in ("evaluation", "validation")
        },
    )


def _pool(
    name: str, part: Sequence[Trajectory], evaluation: EvaluationConfig, policies: Sequence[str]
) -> list[Trajectory]:
    """The attempts of one of `evaluation.pools`. Raises UsageError for a name that no file can have, DataError for missing attempts."""
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or name == "validation":
        raise UsageError(
            f"evaluation.pools: {name!r} becomes part of metric and file names: use lower-case letters, digits and underscores, and not "
            "validation, the name of the validation part"
        )
    if missing := sorted(set(policies) - {t.policy for t in part}):
        raise DataError(
            f"evaluation.pools.{name}: the evaluation part has no attempts of {', '.join(missing)}, only of "
            f"{', '.join(sorted({t.policy for t in part}))}"
        )
    if not policies:
        raise UsageError(
            f"evaluation.pools.{name} names no policy: give a list, e.g. evaluation.pools.{name}=[careful]"
        )
    attempts = evaluated(part, replace(evaluation, policies=list(policies)), evaluation.tasks)
    if not attempts:
        raise DataError(
            f"evaluation.pools.{name}: every attempt of {', '.join(policies)} is numbered evaluation.attempts="
            f"{evaluation.attempts} or more. Raise it, or leave the pool out."
        )
    return attempts


def weakly_labelled(
    ready: VerifierData, data: DataConfig, cache: Path, show: bool = False, allow_weak: bool = False
) -> VerifierData:
    """The same with the verifier part labelled by `data.hidden_tests` of each task's tests; as it is where that is null.

    allow_weak: of the sandbox that the tests run in.
    """
    if data.hidden_tests is None:
        return ready
    weak = weak_labels(ready.pool.part("verifier"), Path(data.tasks), data.hidden_tests, cache, show, allow_weak)
    relabelled = [
        replace(
            e,
            trajectory=replace(
                e.trajectory,
                resolved=weak.resolved.get(e.trajectory.trajectory_id),
                label_source=f"{weak.tests} hidden tests",
            ),
        )
        for e in ready.verifier
    ]
    return replace(ready, verifier=relabelled, weak=weak)


def check_pretraining(folder: Path | None, pool: TrajectorySet) -> str:
    """What is known of whether a model has read what it will be judged on, in a few words.

    Raises DataError for a base that was kept clear of other tasks than those of the pool. A pool names the tasks that held where it
    was collected; where that is not all of the shipped ones, of which the base was kept clear, its attempts show whether it is some.
    """
    if folder is None:
        return "none"
    kept_clear, tasks = tasks_of_base(folder), pool.metadata.get("tasks_fingerprint")
    if kept_clear is None:
        return "unknown: the model is from elsewhere"
    if tasks is None:
        return f"unknown: kept clear of the tasks {kept_clear}, the pool does not name its own"
    if kept_clear != tasks and not _at_shipped_tasks(kept_clear, pool):
        raise DataError(
            f"{folder} was kept clear of the tasks {kept_clear}, but the pool was collected on the tasks {tasks}: it may have read "
            "what it will be judged on. Use a base and a pool that belong together, or pretrain again."
        )
    return f"kept clear of the pool's tasks ({kept_clear})"


def _at_shipped_tasks(named: str, pool: TrajectorySet) -> bool:
    """Whether the shipped tasks have this fingerprint, and all attempts are at some of them."""
    shipped, _ = read_tasks(STARTER / "tasks.parquet")
    return tasks_fingerprint(shipped) == named and {t.task_id for t in pool.trajectories} <= {
        task.task_id for task in shipped
    }


def evaluated(trajectories: Sequence[Trajectory], config: EvaluationConfig, number: int | None) -> list[Trajectory]:
    """The attempts that are scored: so many tasks (None = all) in the order of SHA-256 of their ids, so many attempts of each policy."""
    attempts, policies = config.attempts, frozenset(config.policies)  # read once, not for each attempt
    taken = [t for t in trajectories if t.attempt < attempts and (not policies or t.policy in policies)]
    tasks = sorted({t.task_id for t in taken}, key=lambda name: hashlib.sha256(name.encode()).digest())
    kept = set(tasks[:number])
    return [t for t in taken if t.task_id in kept]


def _tasks_there(part: Sequence[Trajectory], config: EvaluationConfig) -> int:
    return len({t.task_id for t in evaluated(part, config, None)})


READ: tuple[Split, ...] = ("supervised", "verifier", "validation", "evaluation")


def validated_pool(path: Path) -> TrajectorySet:
    """The whole pool of a file, with its parts apart and its prompts free of outcomes. Raises DataError."""
    check_set_file(path, NAMED_BY)
    return _validated(path.resolve(), file_fingerprint(path))


@lru_cache(maxsize=2)
def _validated(path: Path, content: str) -> TrajectorySet:
    pool = read_trajectories(path)
    check_parts(pool.trajectories)
    check_leaks(t for t in pool.trajectories if t.split in READ)
    if file_fingerprint(path) != content:
        raise DataError(f"{path} was written to while it was read. Give the command again when that has ended.")
    return pool


def preload(path: str) -> None:
    """Reads and validates a pool for the processes that are forked from this one, with the identities that they ask of it."""
    index, pool = read_index(path), validated_pool(Path(path))
    index.part("supervised")
    if index.fingerprint != pool.fingerprint:
        raise DataError(f"{path} was written to while it was read. Give the command again when that has ended.")
    for trajectory in pool.trajectories:
        _ = trajectory.content_id
