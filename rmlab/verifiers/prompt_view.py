"""What of an attempt is a verifier shown? The whole of it, its patch alone, or all but what the agent ran itself.

Leaving turns out here instead of collecting other attempts keeps everything else of an ablation still: the same attempts are
drawn, and score tables can be compared row by row. Which turns are runs is known for micro-SWE only; another conversation is
refused rather than shown whole in silence.
"""

from dataclasses import replace

from rmlab.errors import DataError
from rmlab.microswe.actions import Run, try_parse
from rmlab.microswe.episode import FINAL, GOT, Evidence, expected_value
from rmlab.trajectories.record import Message, Trajectory
from rmlab.verifiers.config import PromptConfig, PromptView


def visible(trajectory: Trajectory, config: PromptConfig) -> Trajectory:
    """The attempt with the messages that a prompt of this configuration shows; the attempt itself where that is all.

    Raises DataError where turns are to be left out of a conversation that is no micro-SWE episode.
    """
    if config.evidence is Evidence.final and config.shows is PromptView.whole:
        return trajectory
    messages = list(trajectory.messages)
    if config.shows is PromptView.patch_only:
        first = next((i for i, m in enumerate(messages) if m.role == "user"), 0)
        return replace(trajectory, messages=tuple(messages[: first + 1]))
    if expected_value(trajectory.messages) is None:
        key = (
            "prompt.evidence=voluntary"
            if config.evidence is Evidence.voluntary
            else f"prompt.shows={config.shows.value}"
        )
        whole = [
            *(["prompt.evidence=final"] if config.evidence is not Evidence.final else []),
            *(["prompt.shows=whole (or patch_only)"] if config.shows is not PromptView.whole else []),
        ]
        raise DataError(
            f"{key}: trajectory {trajectory.trajectory_id} ({trajectory.source}) is no micro-SWE episode, so which of its "
            f"turns show a value is not known. Take {' and '.join(whole)}."
        )
    if config.evidence is Evidence.voluntary and messages[-1].content.startswith(FINAL):
        messages.pop()
    if config.shows is PromptView.without_runs:
        messages = _without_runs(messages)
    return replace(trajectory, messages=tuple(messages))


def _without_runs(messages: list[Message]) -> list[Message]:
    kept: list[Message] = []
    ran = False
    for message in messages:
        if ran and message.role == "user" and message.content.startswith(GOT):
            kept.pop()
            ran = False
            continue
        kept.append(message)
        ran = message.role == "assistant" and isinstance(try_parse(message.content), Run)
    return kept
