"""The answer is one token: checked in the real context, before anything is trained or scored."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from rmlab.errors import DataError
from rmlab.models.config import TokenizerConfig
from rmlab.models.tokenizer import Tokenizer, cached_tokenizer, train_tokenizer
from rmlab.trajectories.record import Split, Trajectory
from rmlab.verifiers.prompt import NO, OPEN_ANSWER, YES, render

PROVEN_ON = 16  # prompts, spread evenly over those given


@dataclass(frozen=True)
class AnswerTokens:
    """The ids of YES and NO directly behind a prompt: the two labels in training, the two logits in scoring."""

    yes: int
    no: int

    def target(self, resolved: bool) -> int:
        """The id that should follow the prompt of a resolved or unresolved trajectory."""
        return self.yes if resolved else self.no


def prove_answers(
    tokenizer: Tokenizer,
    prompts: Sequence[str],
    answers: tuple[str, str] = (YES, NO),
    advice: str = "raise model.tokenizer.vocab_size or use another one",
) -> AnswerTokens:
    """The answers' ids. prompts: rendered texts, at least one. answers: the words for yes and for no.

    Proves for prompts spread over those given that encode(prompt + answer) == encode(prompt) + [id], one id everywhere
    and two different ids. Raises DataError with the prompt's end and the ids otherwise; advice: what to do then.
    """
    if not prompts:
        raise DataError("the answer tokens cannot be checked without a prompt: the set of trajectories is empty")
    shown = [prompts[i] for i in spread(len(prompts))]
    id_of: dict[str, int] = {}
    bare = tokenizer.encode(shown)
    for answer in answers:
        for prompt, before, after in zip(shown, bare, tokenizer.encode([p + answer for p in shown]), strict=True):
            if after[:-1] != before or id_of.setdefault(answer, after[-1]) != after[-1]:
                raise DataError(
                    f"{answer} is not a single token after {prompt[-40:]!r} (ids {after[-4:]} after {before[-3:]}): "
                    f"this tokenizer cannot answer; {advice}."
                )
    yes, no = answers
    if id_of[yes] == id_of[no]:
        raise DataError(f"{yes} and {no} are the same token {id_of[yes]}: this tokenizer cannot answer")
    return AnswerTokens(id_of[yes], id_of[no])


def spread(n: int) -> list[int]:
    """Indices of PROVEN_ON of n, evenly from the first to the last; all where there are fewer."""
    count = min(n, PROVEN_ON)
    return [round(i * (n - 1) / max(count - 1, 1)) for i in range(count)]


LONG = 4_000  # characters of a prompt that is no episode of micro-SWE
ANSWERS = (
    40  # how often either answer is read for every LONG characters: often enough for a place in the smallest vocabulary
)
ENOUGH = 20_000_000  # characters: more text gives hardly other merges, and takes minutes


def lesson_part(parts: Collection[Split | None]) -> Split:
    """The part of a pool that a tokenizer is trained on. parts: those that the pool has."""
    return "supervised" if "supervised" in parts else "verifier"


def verifier_tokenizer(
    supervised: Sequence[Trajectory], config: TokenizerConfig, cache: Path | None = None
) -> Tokenizer:
    """BPE over the rendered prompts; the same trajectories in any order give the same tokenizer.

    Both answers follow every opened turn, whatever the label, once or as often as a long prompt asks for, so that each becomes
    one token.
    Of more than ENOUGH characters the first are read, in the order of the ids, which are hashes: a draw without a choice.
    cache: folder that remembers it. Raises DataError where the part is empty.
    """
    if not supervised:
        raise DataError(
            "the pool has neither a supervised nor a verifier part to train a tokenizer on. Split the pool into parts "
            "(rmlab trajectories split), or use a pretrained model (model.pretrained=FOLDER)."
        )
    texts: list[str] = []
    characters = 0
    for trajectory in sorted(supervised, key=lambda t: t.trajectory_id):
        texts.append(render(trajectory))
        characters += len(texts[-1])
        if characters >= ENOUGH:
            break
    times = sum(max(len(text) // LONG * ANSWERS, 1) for text in texts)
    texts += [OPEN_ANSWER + answer for answer in (YES, NO) for _ in range(times)]
    return cached_tokenizer(texts, config, cache) if cache else train_tokenizer(texts, config)
