"""What of a long trajectory does a verifier read? Observations are cut in the middle, by one length for all of them.

The issue, the last turns, the patch and everything that the agent said are kept. Where cutting observations is not enough,
turns behind the issue are left out, oldest first, down to the last ones. What was cut is counted, never silent. The cut is
made on messages, before the one renderer reads them:

    render(within(trajectory, budget, count).trajectory, reserved)
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from rmlab.trajectories.record import Message, Trajectory

Count = Callable[[str], int]

KEEP_LAST = 6  # turns at the end that are never cut: what was seen last is what tells most
SHORTEST = 32  # tokens that are left of an observation, at least
TURN_TOKENS = 6  # what the renderer puts around a turn: markers, role, line breaks
MARK_TOKENS = 16  # "[... 1,234 characters left out ...]"


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
    trajectory: Trajectory, budget: int, count: Count, lengths: Sequence[int] | None = None, keep_last: int = KEEP_LAST
) -> Budgeted:
    """The trajectory as a context of `budget` tokens holds it, its patch and the renderer's question included.

    count: tokens of a text. lengths: tokens of each message, where they are known already. Observations among the last
    `keep_last` turns are cut only when nothing else is left to cut; those turns are never left out.
    """
    messages = trajectory.messages
    tokens_M = list(lengths) if lengths is not None else [count(m.content) for m in messages]
    around = question_tokens(trajectory, count)
    whole = around + sum(tokens_M) + TURN_TOKENS * len(messages)
    if whole <= budget:
        return Budgeted(trajectory, True, 0, 0, 0, whole)
    issue = next((i for i, m in enumerate(messages) if m.role == "user"), 0)
    tail = max(len(messages) - keep_last, issue + 1)
    observations = {i for i in range(issue + 1, tail) if messages[i].role != "assistant"}
    least_M = [min(n, SHORTEST + MARK_TOKENS) if i in observations else n for i, n in enumerate(tokens_M)]
    spent = around + sum(least_M) + TURN_TOKENS * len(messages)
    start = issue + 1  # turns from the issue up to here are left out
    while spent > budget and start < tail:
        spent -= least_M[start] + TURN_TOKENS - (MARK_TOKENS if start == issue + 1 else 0)
        start += 1
    if spent > budget:
        late = {i for i in range(tail, len(messages)) if messages[i].role != "assistant"}
        spent -= sum(tokens_M[i] - min(tokens_M[i], SHORTEST + MARK_TOKENS) for i in late)
        observations |= late
    left_out = start - issue - 1
    kept = [i for i in range(len(messages)) if i <= issue or i >= start]
    cuttable = [i for i in kept if i in observations]
    room = budget - spent + sum(min(tokens_M[i], SHORTEST + MARK_TOKENS) for i in cuttable)
    longest = _longest([tokens_M[i] for i in cuttable], room)
    shown: list[Message] = []
    cut = 0
    tokens = around + sum(tokens_M[i] for i in kept if i not in observations) + TURN_TOKENS * len(kept) + MARK_TOKENS * (left_out > 0)
    for i in kept:
        if i == start and left_out:
            shown.append(Message("user", f"[... {left_out} turns left out ...]"))
        text, n = _middle_cut(messages[i].content, tokens_M[i], longest, count) if i in observations else (messages[i].content, 0)
        cut += text != messages[i].content
        tokens += n
        shown.append(Message(messages[i].role, text))
    characters = sum(len(m.content) for m in messages) - sum(len(m.content) for m in shown)
    return Budgeted(replace(trajectory, messages=tuple(shown)), tokens <= budget, cut, left_out, max(characters, 0), tokens)


def question_tokens(trajectory: Trajectory, count: Count) -> int:
    """What the renderer adds behind the turns, from above: two lines of at most 400 characters each, the patch, the ask."""
    issue = next((m.content for m in trajectory.messages if m.role == "user"), "")
    seen = next((m.content for m in reversed(trajectory.messages) if m.role in ("user", "tool")), "")
    lines = count(issue.strip().split("\n")[0][:420]) + count(seen.strip().split("\n")[-1][-420:])
    return count(trajectory.patch or "none") + lines + 48


def _longest(lengths: Sequence[int], room: int) -> int:
    """The largest length L, at least SHORTEST + MARK_TOKENS, with sum(min(length, L)) <= room."""
    ordered = sorted(lengths)
    spent = 0
    for done, length in enumerate(ordered):
        rest = len(ordered) - done
        if spent + length * rest > room:
            return max((room - spent) // rest, SHORTEST + MARK_TOKENS)
        spent += length
    return ordered[-1] if ordered else SHORTEST + MARK_TOKENS


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
