"""How is a long trajectory shortened? Observations are cut in the middle, all to the same length.

The issue, the last turns, the patch and everything that the agent said are kept. If cutting observations is not enough,
turns after the issue are left out, oldest first, down to the last ones; then the last observations are cut too, and then
what comes before the issue (an agent's instructions). What was cut is counted, never silent. The cut is made on messages,
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
class TokenCounts:
    """A prompt's tokens by its pieces, counted once. turn_M: of each of M messages with its markers. around: of all else (the
    question, the opened answer, a BOS). marks: what stands around the text of one turn."""

    turn_M: Sequence[int]
    around: int
    marks: int = TURN_TOKENS


@dataclass(frozen=True)
class Truncated:
    """trajectory: the messages as they will be read. fits: whether they fit. cut: observations that were cut. left_out: turns
    that are not there at all. characters: of the messages, that are not read. tokens: an estimate of the whole prompt."""

    trajectory: Trajectory
    fits: bool
    cut: int
    left_out: int
    characters: int
    tokens: int


def truncate_observations(
    trajectory: Trajectory, budget: int, count: Count, counts: TokenCounts | None = None, keep_last: int = KEEP_LAST
) -> Truncated:
    """The trajectory as a context of `budget` tokens holds it, its patch and the renderer's question included.

    count: tokens of a text. counts: of the whole prompt, where they are known already; None = each message is counted here, and
    what the renderer adds is estimated. Texts are counted again only where they were cut.
    """
    if counts is None:
        turn_M = [count(m.content) + TURN_TOKENS for m in trajectory.messages]
        counts = TokenCounts(turn_M, question_tokens(trajectory, count))
    whole = counts.around + sum(counts.turn_M)
    if whole <= budget:
        return Truncated(trajectory, True, 0, 0, 0, whole)
    return _carried_out(_plan(trajectory.messages, budget, count, counts, keep_last), trajectory, budget, count, counts)


@dataclass(frozen=True)
class _Plan:
    """Turns from `first_out` up to `first_kept` are left out; of the others, those of `cuttable` have at most `longest` tokens.
    mark: tokens of the turn that stands for those left out."""

    first_out: int
    first_kept: int
    cuttable: frozenset[int]
    longest: int
    mark: int

    @property
    def left_out(self) -> int:
        """How many turns are left out."""
        return self.first_kept - self.first_out


def _plan(messages: Sequence[Message], budget: int, count: Count, counts: TokenCounts, keep_last: int) -> _Plan:
    """What to cut so that the prompt fits, by the order in which things are given up: observations between the issue and the
    last turns, then those turns altogether, then the last observations, then what stands before the issue."""
    turn_M, short = counts.turn_M, SHORTEST + MARK_TOKENS + counts.marks
    issue = next((i for i, m in enumerate(messages) if m.role == "user"), 0)
    tail = max(len(messages) - keep_last, issue + 1)
    observations = [i for i, m in enumerate(messages) if m.role != "assistant" and i > issue]
    cuttable = {i for i in observations if i < tail}
    least_M = [min(n, short) if i in cuttable else n for i, n in enumerate(turn_M)]
    needed = counts.around + sum(least_M)
    mark = count(_left_out(tail)) + counts.marks
    first_out = first_kept = issue + 1
    while needed > budget and first_kept < tail:
        needed -= least_M[first_kept] - (mark if first_kept == first_out else 0)
        first_kept += 1
    for last_resort in ({i for i in observations if i >= tail}, set(range(issue))):
        if needed > budget:
            needed -= sum(turn_M[i] - min(turn_M[i], short) for i in last_resort)
            cuttable |= last_resort
    cuttable -= set(range(first_out, first_kept))
    room = budget - needed + sum(min(turn_M[i], short) for i in cuttable)
    longest = _longest([turn_M[i] for i in cuttable], room, short)
    return _Plan(first_out, first_kept, frozenset(cuttable), longest, mark)


def _carried_out(plan: _Plan, trajectory: Trajectory, budget: int, count: Count, counts: TokenCounts) -> Truncated:
    """The trajectory with what is planned cut and left out, and what it then has of tokens."""
    shown: list[Message] = []
    cut, tokens = 0, counts.around + (plan.mark if plan.left_out else 0)
    for i, message in enumerate(trajectory.messages):
        if plan.first_out <= i < plan.first_kept:
            continue
        if i == plan.first_kept and plan.left_out:
            shown.append(Message("user", _left_out(plan.left_out)))
        text, n = message.content, counts.turn_M[i]
        if i in plan.cuttable and n > plan.longest:
            text, n = _middle_cut(text, n - counts.marks, plan.longest - counts.marks, count)
            cut += text != message.content
            n += counts.marks
        tokens += n
        shown.append(Message(message.role, text))
    characters = sum(len(m.content) for m in trajectory.messages) - sum(len(m.content) for m in shown)
    short = replace(trajectory, messages=tuple(shown))
    return Truncated(short, tokens <= budget, cut, plan.left_out, max(characters, 0), tokens)


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
