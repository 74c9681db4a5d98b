"""How a model that rmlab has not trained is prompted: a text template within the chat template of the model's own tokenizer.

The filled template is one user message; the answer that follows is one of two words, each checked to be one token there. A
tokenizer without a chat template gets the text alone, followed by "Answer:". A model with a classification head is asked no
question. Text of an attempt that looks like a special token of the tokenizer is escaped.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from rmlab.errors import DataError, UsageError
from rmlab.models.tokenizer import Tokenizer
from rmlab.progress import progress
from rmlab.trajectories.record import Message, Trajectory
from rmlab.verifiers.answer import AnswerTokens, prove_answers, spread
from rmlab.verifiers.encoding import Encoded, Ids, cut_to_fit, in_chunks
from rmlab.verifiers.prompt import NO, YES, escape
from rmlab.verifiers.truncation import TokenCounts
from rmlab.wording import near

ATTEMPT = """You are shown an issue of a software repository, what a coding agent did about it, and the patch that it left.

{turns}

<patch>
{patch}
</patch>"""
QUESTION = """

Does the patch solve the issue, so that hidden tests of the issue would pass? Answer {yes} or {no}."""
FIELDS = ("turns", "patch", "issue", "yes", "no")
FIELD = re.compile(rf"\{{({'|'.join(FIELDS)})\}}")
NAMED = re.compile(r"(?<![\w$])\{([A-Za-z_]\w*)\}")
"""What looks like a field, whether there is one of that name or not; not so the argument in `\\boxed{YES}` or `${HOME}`."""
OPENED = "\n\nAnswer:"


@dataclass(frozen=True)
class ForeignTokenizer(Tokenizer):
    """A tokenizer from elsewhere. with_specials: it adds special tokens itself, because no chat template has them."""

    with_specials: bool = False

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids of each text as the tokenizer's publisher meant them, no truncation."""
        backend = self.hf.backend_tokenizer
        backend.no_truncation()
        backend.no_padding()
        return [e.ids for e in backend.encode_batch_fast(list(texts), add_special_tokens=self.with_specials)]


@dataclass(frozen=True)
class JudgePrompt:
    """tokenizer: of the model. template: text with {turns}, {patch}, {issue}, {yes}, {no}. answers: the words for yes and no; None =
    the model has a classification head. max_tokens: the context, answer included.

    Raises UsageError for a template that names an unknown field, shows nothing of an attempt or does not ask for the answers.
    """

    tokenizer: ForeignTokenizer
    template: str
    answers: tuple[str, str] | None
    max_tokens: int

    def __post_init__(self) -> None:
        named = ((name, near(name.lower(), FIELDS)) for name in NAMED.findall(self.template) if name not in FIELDS)
        if unknown := [(name, meant) for name, meant in named if meant]:  # other words in braces are text
            raise UsageError(
                f"the template has the unknown field {{{unknown[0][0]}}}{unknown[0][1]}. There are "
                f"{', '.join(f'{{{name}}}' for name in FIELDS)}; for text in braces, put spaces inside them: {{ {unknown[0][0]} }}"
            )
        if not {"turns", "patch"} & set(FIELD.findall(self.template)):
            raise UsageError(
                "the template has neither {turns} nor {patch}, so it would show nothing of an attempt. `rmlab score --show-prompt` prints "
                "the default one."
            )
        for field, word in zip(("yes", "no"), self.answers or (), strict=False):
            word = word.strip()
            if f"{{{field}}}" not in self.template and not re.search(rf"(?<!\w){re.escape(word)}(?!\w)", self.template):
                raise UsageError(
                    f"the template has neither {{{field}}} nor the word {word}, so the model would not know that it may answer {word}. "
                    "`rmlab score --show-prompt` prints the default template."
                )

    def text(self, shown: Trajectory) -> str:
        """The prompt, markers of the chat template included; an answer follows it directly."""
        reserved = self.tokenizer.reserved
        yes, no = self.answers or (YES, NO)
        values = {
            "issue": escape(next((m.content for m in shown.messages if m.role == "user"), ""), reserved),
            "turns": "".join(_turn(message, reserved) for message in shown.messages).strip(),
            "patch": escape((shown.patch or "none").strip(), reserved),
            "yes": yes.strip(),
            "no": no.strip(),
        }
        content = FIELD.sub(lambda match: values[match[1]], self.template)
        if not self.tokenizer.hf.chat_template:
            return content + (OPENED if self.answers else "")
        return self._in_chat(content)

    def _in_chat(self, content: str) -> str:
        from jinja2 import TemplateError

        try:
            return str(
                self.tokenizer.hf.apply_chat_template(
                    [{"role": "user", "content": content}],
                    tokenize=False,
                    add_generation_prompt=self.answers is not None,
                    enable_thinking=False,  # the answer is wanted at once; templates that know no thinking do not read it
                )
            )
        except (TemplateError, ValueError, TypeError) as error:
            raise DataError(
                f"the chat template of the model cannot be filled ({str(error).splitlines()[0]}): fix chat_template in its folder"
            ) from error

    def encode(self, trajectories: Sequence[Trajectory], show: bool = False) -> list[Encoded]:
        """Prompts in order; long ones have their observations cut as `cut_observations` does, what cannot fit has no ids."""
        specials = self._specials(self._ids(_empty()))
        read: list[Encoded] = []
        with progress("tokenising", len(trajectories), "trajectories", show=show) as advance:
            for chunk in in_chunks(trajectories):
                whole = self.tokenizer.encode([self.text(t) for t in chunk])
                for trajectory, ids in zip(chunk, whole, strict=True):
                    if self._specials(ids) != specials:
                        raise DataError(
                            f"the prompt of {trajectory.trajectory_id} has {self._specials(ids)} special tokens instead of {specials}: "
                            "this tokenizer reads special tokens where there are none"
                        )
                    read.append(self._as_read(trajectory, np.array(ids, dtype=np.int32)))
                advance(len(chunk))
        return read

    def _as_read(self, trajectory: Trajectory, ids: Ids) -> Encoded:
        room = self.max_tokens - (self.answers is not None)
        if len(ids) <= room:
            return Encoded(trajectory, ids, len(ids))
        unread = Encoded(trajectory, None, len(ids))
        if "{turns}" not in self.template:
            return unread
        reserved, front = self.tokenizer.reserved, len(self.tokenizer.encode([""])[0])

        def count(text: str) -> int:
            return len(self.tokenizer.encode([escape(text, reserved)])[0]) - front

        turn_M = [len(self.tokenizer.encode([_turn(m, reserved)])[0]) - front for m in trajectory.messages]
        marks = max(
            (
                len(self.tokenizer.encode([_turn(replace(m, content=""), reserved)])[0]) - front
                for m in trajectory.messages
            ),
            default=0,
        )
        counts = TokenCounts(turn_M, max(len(ids) - sum(turn_M), 0), marks)
        return cut_to_fit(
            unread, trajectory, room, count, counts, lambda short: np.array(self._ids(short), dtype=np.int32)
        )

    def _ids(self, shown: Trajectory) -> list[int]:
        return self.tokenizer.encode([self.text(shown)])[0]

    def _specials(self, ids: Sequence[int]) -> int:
        """Special tokens among ids, but for the one that stands for what is not known."""
        hf = self.tokenizer.hf
        special = {i for i, token in hf.added_tokens_decoder.items() if token.special} - {hf.unk_token_id}
        return sum(token in special for token in ids)

    def summary(self, answer: AnswerTokens | None) -> str:
        """How a score is made, in a few words."""
        if self.answers is None or answer is None:
            return "a classification head, score = sigmoid of its number"
        (yes, no), context = self.answers, f"context {self.max_tokens:,} tokens"
        return f"answers {yes!r} (token {answer.yes}) and {no!r} (token {answer.no}), {context}"

    def proven(self, trajectories: Sequence[Trajectory]) -> tuple["JudgePrompt", AnswerTokens | None]:
        """The prompt with its words as they stand behind prompts of these trajectories, and their ids; None with a classification head.

        A word may need a space before it: where the tokenizer has a chat template the word alone is tried first, else that with the
        space. Raises DataError where neither is one token everywhere.
        """
        if self.answers is None:
            return self, None
        yes, no = (word.strip() for word in self.answers)
        ways = [(yes, no), (f" {yes}", f" {no}")]
        prompts = [self.text(trajectories[i]) for i in spread(len(trajectories))]
        refused: DataError | None = None
        for words in ways if self.tokenizer.hf.chat_template else reversed(ways):
            try:
                return replace(self, answers=words), prove_answers(
                    self.tokenizer, prompts, words, "use other words, e.g. --answers YES,NO"
                )
            except DataError as error:
                refused = refused or error
        raise refused or DataError("no answers")


def _turn(message: Message, reserved: Sequence[str]) -> str:
    return f"[{message.role}]\n{escape(message.content, reserved)}\n\n"


def _empty() -> Trajectory:
    """An attempt that says nothing: what its prompt has of special tokens is what every prompt has."""
    return Trajectory("", "", "", "", 0, (), None, "submitted", None)


def read_template(path: Path) -> str:
    """The text of a template's file. Raises DataError where it is none."""
    try:
        return path.read_text(encoding="utf-8").rstrip("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(
            f"{path} is not readable as a template ({error}): it must be UTF-8 text with {{turns}} and {{patch}}"
        ) from error


def answer_words(text: str) -> tuple[str, str]:
    """`YES,NO` as two words. Raises UsageError."""
    words = [word.strip() for word in text.split(",")]
    if len(words) != 2 or not all(words) or words[0] == words[1]:
        raise UsageError(
            f"--answers {text!r}: write two different words separated by a comma, the one for resolved first: YES,NO"
        )
    return words[0], words[1]
