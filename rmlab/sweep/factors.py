"""Factors: named choices, each of which owns a declared set of configuration keys.

A sweep may vary only the keys that its declared factors own; `control_hash` proves that everything else is equal in all its cells.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from rmlab.errors import UsageError


@dataclass(frozen=True)
class Factor:
    """owns: keys of the configuration (a key owns what is below it). sets: overrides that set a level, `{level}` in its place.

    No `sets`: every level has a name, and the sweep file says what it means. owns_pool, owns_tokenizer: its levels change the
    pool of trajectories or their labels, or what turns text into ids, so that fingerprint is its own too.
    """

    name: str
    owns: tuple[str, ...]
    sets: tuple[str, ...]
    about: str
    owns_pool: bool = False
    owns_tokenizer: bool = False

    def overrides(self, level: str | int | float) -> list[str]:
        """What sets the configuration to a level that the sweep file does not name."""
        return [text.format(level=level) for text in self.sets]

    def owns_key(self, key: str) -> bool:
        """Whether a dotted key is one of its own, or lies below one."""
        return any(key == owned or key.startswith(f"{owned}.") for owned in self.owns)


FACTORS = {
    factor.name: factor
    for factor in (
        Factor("data_scale", ("data.scale",), ("data.scale={level}",), "training examples"),
        Factor(
            "match", ("training.match",), ("training.match={level}",), "what stays equal when the amount of data varies"
        ),
        Factor(
            "label_ratio",
            ("data.label_ratio",),
            ("data.label_ratio={level}",),
            "resolved:unresolved at a fixed total; `pool` = as in the pool",
        ),
        Factor("policy_mixture", ("data.policies",), (), "whose attempts a verifier learns from"),
        Factor("source_composition", ("data.sources",), (), "the families of tasks that a verifier learns from"),
        Factor(
            "architecture",
            ("model",),
            ("model={level}",),
            "shape, experts and first weights of the model",
            owns_tokenizer=True,
        ),
        Factor(
            "context_length",
            ("prompt.max_tokens", "data.refilter"),
            ("prompt.max_tokens={level}",),
            "tokens that a verifier reads",
        ),
        Factor(
            "over_length",
            ("prompt.over_length",),
            ("prompt.over_length={level}",),
            "what becomes of attempts that do not fit",
        ),
        Factor(
            "lora",
            ("lora", "optimizer.learning_rate"),  # adapters take another rate than all weights do (conf/model/hf.yaml)
            ("lora.rank={level}",),
            "rank of the adapters that are trained on a pretrained model; 0 = all its weights",
        ),
        Factor(
            "first_weights",
            ("model", "optimizer.learning_rate"),  # random weights take another rate than those that have read text
            (),
            "pretrained or random weights of the model, each with the learning rate that fits it",
            owns_tokenizer=True,
        ),
        Factor("objective", ("objective",), ("objective={level}",), "what a verifier learns to say, and from what"),
        Factor(
            "label_noise",
            ("data.hidden_tests",),
            ("data.hidden_tests={level}",),
            "hidden tests that label the training set",
            owns_pool=True,
        ),
        Factor(
            "turn_visibility", ("prompt.shows",), ("prompt.shows={level}",), "how much of an attempt a verifier reads"
        ),
        Factor(
            "training_choice",
            ("data.scale", "data.label_ratio", "prompt.shows"),
            (),
            "amount, ratio, or what is shown: one of them at a time, in one family of tests",
        ),
        Factor(
            "learning_rate",
            ("optimizer.learning_rate",),
            ("optimizer.learning_rate={level}",),
            "peak of the learning rate",
        ),
        Factor("batch_size", ("training.batch_size",), ("training.batch_size={level}",), "examples an optimiser step"),
        Factor(
            "width",
            ("model.hidden_size", "model.intermediate_size", "model.heads", "model.kv_heads"),
            (),
            "width of the model",
        ),
        Factor("depth", ("model.layers",), ("model.layers={level}",), "layers of the model"),
        Factor(
            "label_smoothing",
            ("objective.smoothing",),
            ("objective.smoothing={level}",),
            "share of the target of the wrong answer",
        ),
        Factor(
            "evidence",
            ("prompt.evidence",),
            ("prompt.evidence={level}",),
            "whether every attempt ends with its final value",
        ),
        Factor("reward", ("reward",), ("reward={level}",), "what a policy is paid for"),
        Factor("verifier", ("verifier",), ("verifier={level}",), "which verifier pays a policy, or watches it"),
        Factor(
            "rl_evidence",
            ("environment.evidence",),
            ("environment.evidence={level}",),
            "whether the environment shows a policy's final value to its verifier",
        ),
    )
}


def find_factors(names: Iterable[str]) -> tuple[Factor, ...]:
    """The factors of these names. Raises UsageError for one that is not declared."""
    declared = []
    for name in names:
        if name not in FACTORS:
            raise UsageError(f"there is no factor {name!r}; there are: {', '.join(sorted(FACTORS))}")
        declared.append(FACTORS[name])
    return tuple(declared)
