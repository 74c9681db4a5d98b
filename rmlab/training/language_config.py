"""How long, how wide and in which arithmetic a base model reads its corpus."""

from dataclasses import dataclass

from rmlab.training.config import Dtype


@dataclass
class LanguageConfig:
    """tokens: next tokens asked for in all, over as many epochs as that takes; max_minutes (behind the
    first step, which compiles) ends training sooner.

    context: tokens of a row. batch_tokens: of a step, a multiple of the context. held_out: share of the documents that is not
    read. evaluations: how often their loss is taken. compile: by torch, which pays from some ten million tokens on.
    comparisons: questions whether two values are equal (rmlab.pretraining.comparisons; 0 = none), of which only the answer is
    asked for. comparison_share: of a step's rows. comparison_weight: of the mean loss of their answers beside that of the text.
    """

    tokens: int = 2_400_000_000
    max_minutes: float = 8.0
    context: int = 768
    batch_tokens: int = 98_304
    held_out: float = 0.01
    comparisons: int = 600_000
    comparison_share: float = 0.25
    comparison_weight: float = 1.0
    evaluations: int = 10
    compile: bool = False
    dtype: Dtype = Dtype.bfloat16
    threads: int = 2
