"""The rollout engine: many attempts of one language model, decoded in slots while programs run.

An attempt opens (its issue needs the public call's value), takes a slot, reads, speaks, may wait there for what `run` shows,
leaves the slot when it submits or runs out of turns, and closes (its last program is tested). The slot is given to the next
attempt at once. Where `overlap` is off, programs run whenever an eighth of the slots waits for them, so that a run on a CPU
repeats itself exactly.
"""

from collections.abc import Callable, Sequence

from rmlab.errors import UsageError
from rmlab.policies.engine import Rollouts, Sampling
from rmlab.policies.engine_core import EngineCore
from rmlab.policies.rollout import Planned
from rmlab.policies.rollout_schedule import RolloutSchedule
from rmlab.progress import Advance
from rmlab.trajectories.record import Trajectory


class LanguageEngine(EngineCore):
    """`rmlab.policies.engine.Engine` over one model."""

    def rollout(
        self,
        planned: Sequence[Planned],
        sampling: Sampling | Sequence[Sampling],
        seed: int,
        advance: Advance | None = None,
        on_finished: Callable[[Trajectory], None] | None = None,
    ) -> Rollouts:
        """See `rmlab.policies.engine.Engine.rollout`. on_finished: is called with each trajectory as it is finished."""
        sampling_N = [sampling] * len(planned) if isinstance(sampling, Sampling) else list(sampling)
        for one in dict.fromkeys(sampling_N):
            if one.temperature < 0 or one.max_action_tokens < 1:
                raise UsageError(
                    f"temperature={one.temperature}, max_action_tokens={one.max_action_tokens}: at least 0, and 1"
                )
        with RolloutSchedule(self, planned, sampling_N, seed, advance, on_finished) as schedule:
            return Rollouts(schedule.play(), schedule.seconds)
