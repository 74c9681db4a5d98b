"""What a verifier reads, how it answers, and what it is evaluated on."""

import json
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from rmlab.errors import RmlabError
from rmlab.fingerprint import OMIT_DEFAULT
from rmlab.microswe.episode import Evidence
from rmlab.models.config import ModelConfig
from rmlab.training import config as training

SEMANTICS: dict[str, int] = {"render": 2, "train": training.SEMANTICS, "score": 1}
"""Hand-bumped, part of every config hash. render: the same trajectory gives other text or ids (2: observations can be cut, see
`rmlab.verifiers.truncation`); score: the same model gives the same prompt another score."""


class OverLength(StrEnum):
    """What happens to an attempt whose prompt does not fit the context; the factor `over_length` varies it."""

    rank_last = "rank_last"
    truncate_middle = "truncate_middle"
    truncate_head = "truncate_head"
    cut_observations = "cut_observations"  # see `rmlab.verifiers.truncation`; what still does not fit is ranked last
    drop = "drop"


class PromptView(StrEnum):
    """How much of an attempt a prompt shows."""

    whole = "whole"
    patch_only = "patch_only"  # the issue and the patch, no turns
    without_runs = "without_runs"  # everything except the agent's own runs and their output


@dataclass
class PromptConfig:
    """max_tokens: the context, answer token included. over_length: see OverLength. shows: see PromptView.

    evidence: voluntary leaves out the environment's own final value, as if collected with `environment.evidence=voluntary`.
    """

    max_tokens: int = 512
    over_length: OverLength = OverLength.rank_last
    shows: PromptView = PromptView.whole
    evidence: Evidence = Evidence.final


class Objective(StrEnum):
    """What a verifier learns to say: see `rmlab.verifiers.objective`."""

    answer = "answer"  # YES or NO as the next token
    scalar = "scalar"  # one number from a separate head, binary cross-entropy
    pairs = "pairs"  # the same head; ranks a resolved attempt above an unresolved one at the same task (Bradley-Terry)


@dataclass
class ObjectiveConfig:
    """smoothing: share of the target given to the wrong answer, 0 to 0.5. difficulty: 0 = all examples have the same weight, else
    exp(difficulty × share of unresolved attempts at the task), with mean 1."""

    kind: Objective = Objective.answer
    smoothing: float = 0.0
    difficulty: float = 0.0


@dataclass
class EvaluationConfig:
    """tasks, validation_tasks: how many tasks of these parts are scored, in the order of SHA-256 of the task id; null = all.

    attempts: most attempts per task and policy, by number. policies: names, empty = every policy in the part.
    pools: more sets of attempts to judge a finished verifier on, each with its own report: name -> the policies whose
    attempts at the tasks of the evaluation part belong to it, e.g. {after_rl: [hacked, trained]}.
    replicates: bootstrap replicates of the intervals. batch_tokens: tokens scored at once, padding included.
    """

    tasks: int | None = None
    validation_tasks: int | None = None
    attempts: int = 16
    policies: list[str] = field(default_factory=list)
    pools: dict[str, list[str]] = field(default_factory=dict, metadata=OMIT_DEFAULT)
    replicates: int = 2000
    batch_tokens: int = 16384


def check_context(model: ModelConfig, prompt: PromptConfig) -> None:
    """Raises RmlabError where the context is longer than the model has positions; of a pretrained one as far as its folder says."""
    if not model.pretrained:
        check_positions(model.max_positions, model, prompt)
        return
    try:
        stated = json.loads((Path(model.pretrained) / "config.json").read_text(encoding="utf-8")).get(
            "max_position_embeddings"
        )
    except (OSError, ValueError, AttributeError):
        return  # loading it says what is wrong with the folder
    if isinstance(stated, int):
        check_positions(stated, model, prompt)


def check_positions(positions: int, model: ModelConfig, prompt: PromptConfig) -> None:
    """The same for a known number of positions."""
    if prompt.max_tokens > positions:
        raise RmlabError(
            f"prompt.max_tokens={prompt.max_tokens} is longer than the {positions} positions of "
            f"{model.pretrained or f'model={model.name}'}: set prompt.max_tokens={positions}, or take a model with random weights "
            f"(model=scratch) and model.max_positions={prompt.max_tokens}"
        )
