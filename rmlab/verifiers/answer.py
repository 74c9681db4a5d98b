"""The answer is one token: proven in the real context, before anything is trained or scored."""

from collections.abc import Sequence
from dataclasses import dataclass

from rmlab.errors import DataError
from rmlab.models.tokenizer import Tokenizer
from rmlab.verifiers.prompt import NO, YES

PROVEN_ON = 16  # prompts, spread evenly over those given


@dataclass(frozen=True)
class AnswerTokens:
    """The ids of YES and NO directly behind a prompt: the two labels in training, the two logits in scoring."""

    yes: int
    no: int

    def target(self, resolved: bool) -> int:
        """The id that should follow the prompt of a resolved or unresolved trajectory."""
        return self.yes if resolved else self.no


def prove_answers(tokenizer: Tokenizer, prompts: Sequence[str]) -> AnswerTokens:
    """The answers' ids. prompts: rendered texts, at least one.

    Proves for prompts spread over those given that encode(prompt + answer) == encode(prompt) + [id], one id everywhere
    and two different ids. Raises DataError with the prompt's end and the ids otherwise.
    """
    if not prompts:
        raise DataError("no prompt is there to prove the answer tokens on: the set of trajectories is empty")
    shown = [prompts[i] for i in spread(len(prompts))]
    found: dict[str, int] = {}
    bare = tokenizer.encode(shown)
    for answer in (YES, NO):
        for prompt, before, after in zip(shown, bare, tokenizer.encode([p + answer for p in shown]), strict=True):
            if after[:-1] != before or found.setdefault(answer, after[-1]) != after[-1]:
                raise DataError(
                    f"{answer} is not one token of its own behind {prompt[-40:]!r} (ids {after[-4:]} after {before[-3:]}): "
                    "this tokenizer cannot answer; raise model.tokenizer.vocab_size or take another."
                )
    if found[YES] == found[NO]:
        raise DataError(f"{YES} and {NO} are the same token {found[YES]}: this tokenizer cannot answer")
    return AnswerTokens(found[YES], found[NO])


def spread(n: int) -> list[int]:
    """Indices of PROVEN_ON of n, evenly from the first to the last; all where there are fewer."""
    count = min(n, PROVEN_ON)
    return [round(i * (n - 1) / max(count - 1, 1)) for i in range(count)]
