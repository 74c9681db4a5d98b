"""What cells are made from: the pool, read and proven, and its parts as token ids."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rmlab.errors import DataError
from rmlab.models.config import ModelConfig
from rmlab.models.tokenizer import Tokenizer, load_tokenizer
from rmlab.trajectories.parts import check_parts
from rmlab.trajectories.record import Part, Trajectory
from rmlab.trajectories.store import TrajectorySet, read_trajectories
from rmlab.verifiers.config import EvaluationConfig, PromptConfig
from rmlab.verifiers.encoding import Encoded, encode
from rmlab.verifiers.leaks import check_leaks
from rmlab.verifiers.tokens import verifier_tokenizer

READ: tuple[Part, ...] = ("supervised", "verifier", "validation", "evaluation")


@dataclass(frozen=True)
class Material:
    """pool: the whole file. verifier: that part; validation, evaluation: the attempts of these parts that are scored."""

    pool: TrajectorySet
    tokenizer: Tokenizer
    verifier: list[Encoded]
    validation: list[Encoded]
    evaluation: list[Encoded]

    @property
    def judged(self) -> TrajectorySet:
        """The attempts of `evaluation`, as a set."""
        return TrajectorySet(tuple(e.trajectory for e in self.evaluation), self.pool.metadata)


def read_material(path: Path, model: ModelConfig, prompt: PromptConfig, evaluation: EvaluationConfig, cache: Path) -> Material:
    """Reads the pool, proves that parts do not mix and prompts do not leak, and tokenises what is trained on and scored.

    cache: folder of tokenizers and token ids that all cells share. Raises DataError.
    """
    pool = read_trajectories(path)
    check_parts(pool.trajectories)
    read = TrajectorySet(tuple(t for t in pool.trajectories if t.split in READ), pool.metadata)
    check_leaks(read.trajectories)
    if model.pretrained:
        tokenizer = load_tokenizer(Path(model.pretrained))
    else:
        tokenizer = verifier_tokenizer(read.part("supervised").trajectories, model.tokenizer, cache / "tokenizers")
    judged = evaluated(read.part("evaluation").trajectories, evaluation, evaluation.tasks)
    watched = evaluated(read.part("validation").trajectories, evaluation, evaluation.validation_tasks)
    if not judged:
        raise DataError(f"{path} has no evaluation attempts of {' or '.join(evaluation.policies) or 'any policy'}: nothing can be "
                        "judged on it. Collect some, or change evaluation.policies.")

    def encoded(trajectories: Sequence[Trajectory]) -> list[Encoded]:
        return encode(trajectories, tokenizer, prompt, cache / "token_ids")

    return Material(pool, tokenizer, encoded(read.part("verifier").trajectories), encoded(watched), encoded(judged))


def evaluated(trajectories: Sequence[Trajectory], config: EvaluationConfig, number: int | None) -> list[Trajectory]:
    """The attempts that are scored: so many tasks (None = all) in the order of SHA-256 of their ids, so many attempts of each policy."""
    taken = [t for t in trajectories if t.attempt < config.attempts and (not config.policies or t.policy in config.policies)]
    tasks = sorted({t.task_id for t in taken}, key=lambda name: hashlib.sha256(name.encode()).digest())
    kept = set(tasks[:number])
    return [t for t in taken if t.task_id in kept]
