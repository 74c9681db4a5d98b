"""How does the verifier score new attempts, and how do the scores become rewards?

One verifier or several, with or without post-hoc calibration and transformation. Every attempt gets a score, or it is an error: a
policy that gets no reward for what the verifier could not read learns to write what cannot be read.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from rmlab.errors import DataError
from rmlab.microswe.episode import Evidence
from rmlab.rl.advantages import Codes, transform
from rmlab.rl.config import Combine, Floats, RewardConfig, Unread
from rmlab.rl.paid_scores import calibrator
from rmlab.tracking.references import Reference
from rmlab.trajectories.record import Trajectory
from rmlab.verifiers.config import OverLength
from rmlab.verifiers.verifier import Verifier, load_verifier


@dataclass(frozen=True)
class RewardScores:
    """score_N: of N attempts. cut_share: of attempts that a verifier read in part (the largest share among several verifiers)."""

    score_N: Floats
    cut_share: float


@dataclass
class RewardModel:
    """verifiers: at least one, on their device; each scores in its own arithmetic (`Verifier.scored_in`). calibrate: one map of scores
    for each. difficulty: log odds of each task that the start solves it, frozen; needed for a difficulty term."""

    verifiers: Sequence[Verifier]
    config: RewardConfig
    calibrate: Sequence[Callable[[Floats], Floats]]
    batch_tokens: int = 65536
    difficulty: Mapping[str, float] = field(default_factory=dict)

    def score(self, trajectories: Sequence[Trajectory]) -> "RewardScores":
        """The scores of N attempts in [0, 1], calibrated, combined and transformed.

        Raises DataError where an attempt has no score, or its task no difficulty though one is asked for.
        """
        if not trajectories:
            return RewardScores(np.zeros(0), 0.0)
        read_V = [self._scores(verifier, trajectories) for verifier in self.verifiers]
        score_VN = np.array([calibrate(read.score_N) for read, calibrate in zip(read_V, self.calibrate, strict=True)])
        score_N = transform(
            combine(score_VN, self.config),
            groups_of(trajectories),
            self.config.transform,
            self._difficulty(trajectories),
        )
        return RewardScores(score_N, max(read.cut_share for read in read_V))

    def _scores(self, verifier: Verifier, trajectories: Sequence[Trajectory]) -> "RewardScores":
        encoded = verifier.encode(trajectories)
        unread = [e for e in encoded if e.ids is None]
        if unread:
            others = [
                f"over_length={way.value}"
                for way in (OverLength.cut_observations, OverLength.truncate_middle)
                if way is not verifier.prompt.over_length
            ]
            raise DataError(
                f"{len(unread)} of {len(encoded)} attempts do not fit the verifier's context of "
                f"{verifier.prompt.max_tokens} tokens (the first has {unread[0].n_tokens}): a missing score is not a "
                f"reward. Set {' or '.join(others)}, or use a verifier with a longer prompt.max_tokens."
            )
        cut_share = sum(e.n_tokens >= verifier.prompt.max_tokens for e in encoded) / len(encoded)
        return RewardScores(verifier.score(encoded, batch_tokens=self.batch_tokens).score, cut_share)

    def _difficulty(self, trajectories: Sequence[Trajectory]) -> Floats | None:
        if not self.config.transform.difficulty:
            return None
        missing = {t.task_id for t in trajectories} - set(self.difficulty)
        if missing:
            raise DataError(f"the difficulty of task {min(missing)} was not measured")
        return np.array([self.difficulty[t.task_id] for t in trajectories])


def combine(score_VN: Floats, config: RewardConfig) -> Floats:
    """One score of V verifiers' scores: their mean, or mean - bound_width × standard deviation (divisor V), at least 0."""
    mean_N = score_VN.mean(0)
    if config.combine is Combine.lower_bound:
        mean_N = np.maximum(mean_N - config.bound_width * score_VN.std(0), 0.0)
    return np.asarray(mean_N, dtype=np.float64)


def groups_of(trajectories: Sequence[Trajectory]) -> Codes:
    """Codes of the attempts' tasks, in the order of their first attempts."""
    codes: dict[str, int] = {}
    return np.array([codes.setdefault(t.task_id, len(codes)) for t in trajectories], dtype=np.intp)


def load_reward_model(
    references: Sequence[Reference],
    config: RewardConfig,
    device: str,
    batch_tokens: int,
    over_length: Unread = Unread.error,
) -> RewardModel:
    """A reward model of saved verifiers. over_length: what becomes of attempts that do not fit their context.

    Raises DataError where one cannot be read, or has no validation scores to be calibrated on.
    """
    verifiers, calibrators = [], []
    for reference in references:
        verifier = load_verifier(reference.folder, device)
        if over_length is not Unread.error:
            verifier = replace(verifier, prompt=replace(verifier.prompt, over_length=OverLength(over_length.value)))
        verifiers.append(verifier)
        calibrators.append(calibrator(reference.beside, config.calibration))
    return RewardModel(verifiers, config, calibrators, batch_tokens)


def reads_less(reward_model: RewardModel, evidence: Evidence) -> bool:
    """Whether a verifier was trained on attempts that end with the environment's own final value, and is now shown none."""
    return evidence is Evidence.voluntary and any(v.prompt.evidence is Evidence.final for v in reward_model.verifiers)
