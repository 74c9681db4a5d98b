"""Text that teaches to compare: an episode up to an action that follows a run, asked as a verifier is asked.

An agent that has just seen `got 7` goes on by whether 7 is what the issue asks for. Whole episodes teach a model to
foretell that action where the value stands; a verifier has to know it behind the question, where whole episodes have
nothing to foretell. So every such action stands here as the answer to the verifier's own prompt of the episode so far,
with another question. No label goes in: what is foretold is what the agent did.
"""

from collections.abc import Iterator
from dataclasses import replace

from rmlab.microswe import grammar
from rmlab.microswe.episode import GOT
from rmlab.models.tokenizer import IM_END
from rmlab.trajectories.record import Trajectory
from rmlab.verifiers.prompt import escape, render

ASK = "What is done next?"


def decisions(trajectory: Trajectory, code: str) -> Iterator[str]:
    """One text for each action that directly follows the value of a run.

    code: of the task, before any edit; the patch so far is against it.
    """
    present = code
    for i, message in enumerate(trajectory.messages):
        if message.role != "assistant":
            continue
        if i > 1 and trajectory.messages[i - 1].content.startswith(GOT):
            before = replace(trajectory, messages=trajectory.messages[:i], patch=grammar.patch(code, present))
            yield render(before, ask=ASK) + f"{escape(message.content)}{IM_END}\n"
        try:
            action = grammar.parse(message.content)
            present = grammar.apply(present, action) if isinstance(action, grammar.Edit) else present
        except grammar.UnreadableAction:
            continue  # the environment answered with an error; the program stays
