"""Which program did each message of a recorded attempt leave? Its edits, made again."""

from collections.abc import Sequence

from rmlab.microswe import grammar
from rmlab.microswe.episode import Edits


def replayed(code: str, said: Sequence[str], edits: Edits) -> list[str]:
    """The program before each message of the agent, and the one after the last: len(said) + 1 programs.

    code: the issue's program. A message that is no edit, or one that cannot be made, leaves the program as it is.
    """
    programs = [code]
    for text in said:
        present = programs[-1]
        try:
            action = grammar.parse(text)
            if isinstance(action, grammar.Edit):
                present = grammar.apply(code if edits is Edits.start_over else present, action)
        except grammar.UnreadableAction:
            pass  # the agent was told so, and nothing changed
        programs.append(present)
    return programs
