"""What a language-model policy reads and says, as token ids: the one renderer of a policy's conversation.

ChatML turns, as verifiers read them. A conversation grows by pieces (the issue, a message, an observation, ...), and every
piece is tokenised by itself: what a policy is taught, what it sees when it acts and what it is trained on by reinforcement
learning are the same ids.
"""

from collections.abc import Sequence

from rmlab.models.tokenizer import IM_END, IM_START, Tokenizer
from rmlab.verifiers.prompt import escape

OPEN = f"{IM_START}assistant\n"


class PolicyPrompt:
    """Pieces of conversations in the ids of one tokenizer. Issues and observations (`ok`) repeat, so they are remembered."""

    def __init__(self, tokenizer: Tokenizer):
        self.tokenizer = tokenizer
        self.stop_id = int(tokenizer.hf.convert_tokens_to_ids(IM_END))
        self._front = len(tokenizer.front)
        self._known: dict[str, list[int]] = {}

    def issue(self, content: str) -> list[int]:
        """From the conversation's first token to where the policy begins to speak; one BOS where the tokenizer has one."""
        return self._whole(f"{IM_START}user\n{self._escaped(content)}{IM_END}\n{OPEN}")[:]

    def observation(self, content: str, ended: bool = True) -> list[int]:
        """What follows a message: the end of its turn (ended: the policy said <|im_end|> itself), the answer, the next turn's start."""
        return self._ids(f"{'' if ended else IM_END}\n{IM_START}user\n{self._escaped(content)}{IM_END}\n{OPEN}")

    def message(self, content: str) -> list[int]:
        """A message as a policy says it, with the <|im_end|> that ends it."""
        return [*self._ids(self._escaped(content)), self.stop_id]

    def begun(self, texts: Sequence[str]) -> list[list[int]]:
        """Many beginnings of conversations that are rendered and escaped already."""
        return self.tokenizer.encode(texts)

    def ended(self, texts: Sequence[str]) -> list[list[int]]:
        """Many messages that are escaped already, each with its <|im_end|>."""
        return [[*ids[self._front :], self.stop_id] for ids in self.tokenizer.encode(texts)]

    def text(self, ids: Sequence[int]) -> str:
        """The message that a policy said, without the <|im_end|> behind it."""
        tokens = list(ids)
        return self.tokenizer.decode(tokens[:-1] if tokens and tokens[-1] == self.stop_id else tokens)

    def _escaped(self, content: str) -> str:
        return escape(content, self.tokenizer.reserved)

    def _ids(self, text: str) -> list[int]:
        return self._whole(text)[self._front :]

    def _whole(self, text: str) -> list[int]:
        if text not in self._known:
            if len(self._known) > 100_000:
                self._known.clear()
            self._known[text] = self.tokenizer.encode([text])[0]
        return self._known[text]
