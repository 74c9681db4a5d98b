"""What of a long trajectory does a verifier read? Observations are cut in the middle, by one length for all of them.

The issue, the last turns, the patch and everything that the agent said are kept. Where cutting observations is not enough,
turns behind the issue are left out, oldest first, down to the last ones; then the last observations are cut, too, and then
what stands before the issue (an agent's instructions). What was cut is counted, never silent. The cut is made on messages,
before the one renderer reads them: `prompt.over_length=cut_observations` (`rmlab.verifiers.encoding`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from rmlab.trajectories.record import Message, Trajectory

Count = Callable[[str], int]

KEEP_LAST = 6  # turns at the end that are never left out, and cut last: what was seen last is what tells most
SHORTEST = 32  # tokens that are left of an observation, at least
TURN_TOKENS = 6  # what the renderer puts around a turn: markers, role, line breaks
MARK_TOKENS = 16  # "[... 1,234 characters left out ...]"


@dataclass(frozen=True)
class Counted:
    """A prompt's tokens by its pieces, counted once. turn_M: of each of M messages with its markers. around: of all else (the
    question, the opened answer, a BOS). marks: what stands around the text of one turn."""

    turn_M: Sequence[int]
    around: int
    marks: int = TURN_TOKENS


@dataclass(frozen=True)
class Budgeted:
    """trajectory: the messages as they will be read. fits: whether they fit. cut: observations that were cut. left_out: turns
    that are not there at all. characters: of the messages, that are not read. tokens: an estimate of the whole prompt."""

    trajectory: Trajectory
    fits: bool
    cut: int
    left_out: int
    characters: int
    tokens: int


def within(
    trajectory: Trajectory, budget: int, count: Count, counted: Counted | None = None, keep_last: int = KEEP_LAST
) -> Budgeted:
    """The trajectory as a context of `budget` tokens holds it, its patch and the renderer's question included.

    count: tokens of a text. counted: of the whole prompt, where it is known already; None = each message is counted here, and
    what the renderer adds is estimated. Texts are counted again only where they were cut.
    """
    messages = trajectory.messages
    known = counted or Counted([count(m.content) + TURN_TOKENS for m in messages], question_tokens(trajectory, count))
    turn_M, around = known.turn_M, known.around
    whole = around + sum(turn_M)
    if whole <= budget:
        return Budgeted(trajectory, True, 0, 0, 0, whole)
    short = SHORTEST + MARK_TOKENS + known.marks
    issue = next((i for i, m in enumerate(messages) if m.role == "user"), 0)
    tail = max(len(messages) - keep_last, issue + 1)
    cuttable = {i for i in range(issue + 1, tail) if messages[i].role != "assistant"}
    least_M = [min(n, short) if i in cuttable else n for i, n in enumerate(turn_M)]
    spent = around + sum(least_M)
    gap = count(_left_out(tail)) + known.marks
    start = issue + 1  # turns from the issue up to here are left out
    while spent > budget and start < tail:
        spent -= least_M[start] - (gap if start == issue + 1 else 0)
        start += 1
    late = {i for i in range(tail, len(messages)) if messages[i].role != "assistant"}
    for last_resort in (late, set(range(issue))):
        if spent > budget:
            spent -= sum(turn_M[i] - min(turn_M[i], short) for i in last_resort)
            cuttable |= last_resort
    left_out = start - issue - 1
    kept = [i for i in range(len(messages)) if i <= issue or i >= start]
    cuttable &= set(kept)
    room = budget - spent + sum(min(turn_M[i], short) for i in cuttable)
    longest = _longest([turn_M[i] for i in cuttable], room, short)
    shown: list[Message] = []
    cut, tokens = 0, around + (gap if left_out else 0)
    for i in kept:
        if i == start and left_out:
            shown.append(Message("user", _left_out(left_out)))
        text = messages[i].content
        if i in cuttable and turn_M[i] > longest:
            text, n = _middle_cut(text, turn_M[i] - known.marks, longest - known.marks, count)
            cut += text != messages[i].content
            tokens += n + known.marks
        else:
            tokens += turn_M[i]
        shown.append(Message(messages[i].role, text))
    characters = sum(len(m.content) for m in messages) - sum(len(m.content) for m in shown)
    return Budgeted(
        replace(trajectory, messages=tuple(shown)), tokens <= budget, cut, left_out, max(characters, 0), tokens
    )


def question_tokens(trajectory: Trajectory, count: Count) -> int:
    """What the renderer adds behind the turns, from above: two lines of at most 400 characters each, the patch, the ask."""
    issue = next((m.content for m in trajectory.messages if m.role == "user"), "")
    seen = next((m.content for m in reversed(trajectory.messages) if m.role in ("user", "tool")), "")
    lines = count(issue.strip().split("\n")[0][:420]) + count(seen.strip().split("\n")[-1][-420:])
    return count(trajectory.patch or "none") + lines + 48


def _left_out(turns: int) -> str:
    return f"[... {turns} turns left out ...]"


def _longest(lengths: Sequence[int], room: int, short: int) -> int:
    """The largest length L, at least `short`, with sum(min(length, L)) <= room."""
    ordered = sorted(lengths)
    spent = 0
    for done, length in enumerate(ordered):
        rest = len(ordered) - done
        if spent + length * rest > room:
            return max((room - spent) // rest, short)
        spent += length
    return ordered[-1] if ordered else short


def _middle_cut(text: str, tokens: int, longest: int, count: Count) -> tuple[str, int]:
    """The text with its middle left out so that at most `longest` tokens stay, the mark included; and its tokens then.

    Dense places (hashes, other scripts) have more tokens a character than the whole has, so what is cut is counted again.
    """
    if tokens <= longest:
        return text, tokens
    keep = int(len(text) * (longest - MARK_TOKENS) / tokens)
    shown, n = text, tokens
    for _ in range(8):
        head, end = keep - keep // 2, len(text) - keep // 2
        shown = f"{text[:head]}\n[... {end - head:,} characters left out ...]\n{text[end:]}"
        n = count(shown)
        if n <= longest:
            break
        keep = int(keep * min(0.9, (longest - MARK_TOKENS) / n))
    return (shown, n) if len(shown) < len(text) else (text, tokens)
