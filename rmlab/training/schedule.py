"""Learning rate by step: linear warm-up, then cosine decay to a fraction of the peak."""

import math

from rmlab.training.config import OptimizerConfig


def learning_rate(step: int, steps: int, config: OptimizerConfig) -> float:
    """The rate of optimiser step `step` (0-based) of `steps`.

    The first ceil(warmup_fraction · steps) steps rise linearly and end at the peak; the last step is at
    `final_fraction` of it.
    """
    warmup = math.ceil(config.warmup_fraction * steps)
    if step < warmup:
        return config.learning_rate * (step + 1) / warmup
    done = (step - warmup) / max(steps - 1 - warmup, 1)
    cosine = 0.5 * (1 + math.cos(math.pi * min(done, 1.0)))
    return config.learning_rate * (config.final_fraction + (1 - config.final_fraction) * cosine)
