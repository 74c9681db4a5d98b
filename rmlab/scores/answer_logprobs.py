"""A score from the log-probabilities that a judge model's sampler reports for the tokens of its answer.

Score = two-way softmax of YES and NO, as for our verifiers. A sampler lists a few of the likeliest tokens, which may include other
spellings of the same word (' YES', 'Yes'): these are not the answers YES and NO, so they are left out and reported with
their probability. If only they are listed, they stand for the word, which is also reported.
"""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rmlab.wording import counted

YES, NO = "YES", "NO"
LARGEST_DOUBT = 0.05  # of a score where one answer is not listed


class NoAnswer(ValueError):
    """The log-probabilities give no score; the text says why."""


@dataclass
class Tokens:
    """What was read so far: used: how often each (yes, no) pair of tokens gave the score. beside: the other spellings that
    were listed, with the largest probability of each. unlisted: scores where one answer was not listed; doubt: the most
    that such a score may be off. later: answers that were not the first position."""

    used: Counter[tuple[str, str]] = field(default_factory=Counter)
    beside: dict[str, float] = field(default_factory=dict)
    unlisted: int = 0
    doubt: float = 0.0
    later: int = 0

    def notes(self) -> list[str]:
        """What a reader of the scores should know, a line each."""
        lines = [
            f"score: two-way softmax of {yes!r} and {no!r} in {counted(count, 'attempt')}"
            for (yes, no), count in sorted(self.used.items())
        ]
        if self.beside:
            names = ", ".join(
                repr(token) for token, _ in sorted(self.beside.items(), key=lambda pair: (-pair[1], pair[0]))[:8]
            )
            lines.append(
                f"other spellings were ignored: {names} ({len(self.beside)} in all, at most "
                f"{max(self.beside.values()):.2g} of the probability)"
            )
        if self.unlisted:
            lines.append(
                f"in {counted(self.unlisted, 'attempt')} one answer is not listed and gets the smallest listed probability "
                f"(scores off by at most {self.doubt:.2g})"
            )
        if self.later:
            lines.append(
                f"in {counted(self.later, 'attempt')} the answer is not the first token: the first position that answers was read"
            )
        return lines


def score_of_logprobs(cell: Any, tokens: Tokens) -> float:
    """The score of one attempt; `tokens` remembers what was read.

    cell: {token: log-probability}, [{"token": ..., "logprob": ...}, ...], or a list of either, one a position.
    Raises NoAnswer.
    """
    positions = _positions(cell)
    for number, listed in enumerate(positions):
        spoken = {token: word for token in listed if (word := _word(token))}
        if spoken and _word(max(listed, key=lambda token: listed[token])):
            tokens.later += number > 0
            return _score(listed, spoken, tokens)
    raise NoAnswer("YES or NO is not the likeliest token at any position")


def score_of_pair(yes: float, no: float) -> float:
    """Two-way softmax of two log-probabilities or logits; -inf = impossible. Raises NoAnswer where neither is possible."""
    if yes == no == -math.inf:
        raise NoAnswer("neither YES nor NO is possible")
    difference = yes - no
    return 1 / (1 + math.exp(-difference)) if difference >= 0 else math.exp(difference) / (1 + math.exp(difference))


def _score(listed: Mapping[str, float], spoken: Mapping[str, str], tokens: Tokens) -> float:
    chosen: dict[str, str] = {}
    for word in (YES, NO):
        spellings = [token for token, spelt in spoken.items() if spelt == word]
        if spellings:
            chosen[word] = word if word in spellings else max(spellings, key=lambda token: listed[token])
    for token in spoken:
        if token not in chosen.values():
            tokens.beside[token] = max(tokens.beside.get(token, 0.0), math.exp(listed[token]))
    least = min(listed.values())
    score = score_of_pair(
        listed[chosen[YES]] if YES in chosen else least, listed[chosen[NO]] if NO in chosen else least
    )
    if len(chosen) < 2:
        doubt = 1 - score if YES in chosen else score
        if doubt > LARGEST_DOUBT:
            raise NoAnswer(
                f"only {next(iter(chosen.values()))!r} is listed among {len(listed)} tokens: the score may be off by "
                f"{doubt:.2f}; list more tokens"
            )
        tokens.unlisted += 1
        tokens.doubt = max(tokens.doubt, doubt)
    tokens.used[chosen.get(YES, "(not listed)"), chosen.get(NO, "(not listed)")] += 1
    return score


def _word(token: str) -> str:
    """YES or NO where the token spells it, else nothing."""
    word = token.strip(" \t\n\r\u2581\u0120_.:=(<>\"'`*").upper()
    return word if word in (YES, NO) else ""


def _positions(cell: Any) -> list[dict[str, float]]:
    if isinstance(cell, Mapping):
        if isinstance(cell.get("content"), list):  # a chat completion's `logprobs`
            return _positions(cell["content"])
        if isinstance(cell.get("top_logprobs"), list):
            return [_listed(cell["top_logprobs"])]
        return [_listed(cell)]
    if isinstance(cell, list) and cell and all(isinstance(one, Mapping) for one in cell):
        if all("token" in one and "logprob" in one and "top_logprobs" not in one for one in cell):
            return [_listed(cell)]
        return [position for one in cell for position in _positions(one)]
    if isinstance(cell, list) and cell and all(isinstance(one, list) for one in cell):
        return [_listed(one) for one in cell]
    raise NoAnswer(f"{str(cell)[:80]!r} holds no log-probabilities by token")


def _listed(pairs: Any) -> dict[str, float]:
    """{token: log-probability} of one position."""
    if isinstance(pairs, Mapping):
        value_of = dict(pairs)
    elif isinstance(pairs, list) and all(isinstance(p, Mapping) and "token" in p and "logprob" in p for p in pairs):
        value_of = {p["token"]: p["logprob"] for p in pairs}
    else:
        raise NoAnswer(f"{str(pairs)[:80]!r} holds no log-probabilities by token")
    listed = {
        token: value for token, value in value_of.items() if value is not None
    }  # Parquet fills structs up with nulls
    for token, value in listed.items():
        if not isinstance(token, str) or type(value) not in (int, float) or math.isnan(value) or value > 1e-6:
            raise NoAnswer(f"{str(token)[:40]!r}: {str(value)[:40]} is not a log-probability (they are at most 0)")
    if not listed:
        raise NoAnswer("no token is listed")
    return {token: float(value) for token, value in listed.items()}
