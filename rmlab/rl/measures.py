"""What do a policy's attempts look like? Plain shares and means, by the names that a run tracks."""

from collections.abc import Sequence

import numpy as np

from rmlab.microswe.grammar import Run, UnreadableAction, parse
from rmlab.policies.engine import Rollout
from rmlab.rl.rewards import Rewards
from rmlab.trajectories.record import Trajectory


def behaviour(rollouts: Sequence[Rollout]) -> dict[str, float]:
    """Of attempts with labels. true_rate: resolved. ran_share: made the public call at least once. turns: messages of the policy.
    tokens: that it said. distinct_share: different conversations among all. truncated_share: outgrew the engine's room."""
    if not rollouts:
        return {}
    own = [r.trajectory for r in rollouts]
    return {
        "true_rate": float(np.mean([bool(t.resolved) for t in own])),
        "unfinished_rate": float(np.mean([t.exit_status == "unfinished" for t in own])),
        "ran_share": float(np.mean([any(_is_run(said) for said in messages(t)) for t in own])),
        "public_share": float(np.mean([bool(t.extra.get("public_passed")) for t in own])),
        "turns": float(np.mean([len(messages(t)) for t in own])),
        "tokens": float(np.mean([r.own_tokens for r in rollouts])),
        "distinct_share": len({(t.task_id, t.content_id) for t in own}) / len(own),
        "truncated_share": float(np.mean([r.truncated for r in rollouts])),
    }


def paid(found: Rewards) -> dict[str, float]:
    """The mean reward, its standard deviation over attempts, and the mean of each of its parts."""
    return {
        "reward": float(found.total_N.mean()),
        "reward_std": float(found.total_N.std()),
        **{f"reward_{name}": float(part_N.mean()) for name, part_N in found.parts.items()},
    }


def messages(trajectory: Trajectory) -> list[str]:
    """What the policy said."""
    return [message.content for message in trajectory.messages if message.role == "assistant"]


def _is_run(text: str) -> bool:
    try:
        return isinstance(parse(text), Run)
    except UnreadableAction:
        return False
