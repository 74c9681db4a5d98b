"""Records that are one attempt: snapshots of a conversation that goes on, renderings of one run, copies.

An agent may save its conversation again after every turn: within a folder, a document whose messages are the beginning of
another's is an earlier snapshot of that one. A set may keep one attempt in several notations (SWE-smith's `tool`, `xml` and
`ticks`): rows with one and the same name of the attempt, whose observations, number of turns and patches are equal; where one
file uses the name more than once, what the agent said beside its calls has to be equal too.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from rmlab.fingerprint import fingerprint
from rmlab.trajectories.ingest.drafts import Draft
from rmlab.trajectories.ingest.importing import Found
from rmlab.trajectories.ingest.locations import COUNTED, is_counted
from rmlab.trajectories.record import Message, bare, family

EARLIER = "earlier snapshots"
NOTATION = re.compile(r"```\w*|\[/?call[^\]\n]*\]|\s+")
CALL = re.compile(r"\[call [^\]\n]*\]\n.*?\[/call\]", re.DOTALL)
OBSERVED = re.compile(r"^\s*OBSERVATION:\s*", re.IGNORECASE)


def without_snapshots(found: Found) -> Found:
    """What was read without the earlier snapshots of conversations; each is counted with the last one."""
    last_of: dict[int, int] = {}
    for same in _grouped((i, (*_folder(d), d.opening)) for i, d in enumerate(found.drafts) if d.opening):
        threads = {i: found.spool.get(found.keys[i])[0] for i in same}
        has_patch = found.has_patch
        order = sorted(same, key=lambda i: (len(threads[i]), has_patch[i]))
        for n, i in enumerate(order):
            for j in reversed(order[n + 1 :]):
                gained = has_patch[j] and not has_patch[i]
                if _may_be_one(found.drafts[i], found.drafts[j]) and _goes_on(threads[i], threads[j], gained):
                    last_of[i] = j
                    break
    if not last_of:
        return found
    beside = Counter(_folder(d) for d in found.drafts if d.opening)
    snapshots, names = Counter[int](), defaultdict[int, set[str]](set)
    for i in last_of:
        last = i
        while last in last_of:
            last = last_of[last]
        snapshots[last] += 1
        names[last] |= {found.drafts[i].task_id, found.drafts[last].task_id}
    for i, n in snapshots.items():
        draft = found.drafts[i]
        draft.removed[EARLIER] += n
        if len(names[i]) > 1 and draft.place.path and beside[_folder(draft)] == n + 1:
            # each was called by its own file's name, and nothing else lies there
            draft.task_id = bare(draft.place.folders[-1])
    found.removed[EARLIER] += len(last_of)
    kept = [i for i in range(len(found.drafts)) if i not in last_of]
    for name in ("drafts", "keys", "contents", "has_patch"):
        setattr(found, name, [getattr(found, name)[i] for i in kept])
    return found


def contents(found: Found) -> list[str]:
    """For each draft what is equal for records of one attempt: a hash of its content, the same for all renderings.

    Records of our own sets were told apart when they were written: they stay so, and what has the content of one is a copy of it.
    """
    same = list(found.contents)
    for rows in _grouped((i, name) for i, d in enumerate(found.drafts) if (name := _attempt_name(d))):
        files = Counter((found.drafts[i].place.root, found.drafts[i].place.path) for i in rows)
        seen = {i: _seen(found, i, with_words=max(files.values()) > 1) for i in rows}
        first = {key: i for i, key in reversed(seen.items())}
        for i in rows:
            same[i] = found.contents[first[seen[i]]]
    own = {found.contents[i]: d.fixed.trajectory_id for i, d in reversed(list(enumerate(found.drafts))) if d.fixed}
    return [d.fixed.trajectory_id if d.fixed else own.get(one, one) for d, one in zip(found.drafts, same, strict=True)]


def _grouped(pairs: Iterable[tuple[int, object]]) -> list[list[int]]:
    """The indices that have a key in common with others."""
    groups: dict[object, list[int]] = defaultdict(list)
    for i, key in pairs:
        groups[key].append(i)
    return [group for group in groups.values() if len(group) > 1]


def _folder(draft: Draft) -> tuple[str, str]:
    """The folder that a file lies in; where a snapshot has a folder of its own (`round_2`), the one around it."""
    root, path = draft.place.root, draft.place.path
    if not path:
        return "", root.rpartition("/")[0]
    folders = path.split("/")[:-1]
    while folders and is_counted(folders[-1], COUNTED) and re.search("[a-z]", folders[-1].lower()):
        folders.pop()
    return root, "/".join(folders)


def _may_be_one(one: Draft, other: Draft) -> bool:
    """Whether two documents may be of one attempt by the tasks and policies that they name."""
    named = [d.task_id for d in (one, other) if d.task_id != d.place.subject or family(d.task_id) != "other"]
    return len(set(named)) < 2 and len({one.policy, other.policy} - {""}) < 2


def _goes_on(earlier: Sequence[Message], later: Sequence[Message], gained_patch: bool) -> bool:
    """Whether one conversation begins another, or is the same without its patch. The last turn may be written differently:
    what it ran was not known yet."""
    n = len(earlier)
    if n > len(later) or (n == len(later) and not gained_patch) or tuple(earlier[: n - 1]) != tuple(later[: n - 1]):
        return False
    end, same = earlier[-1], later[n - 1]
    return end.role == same.role and NOTATION.sub("", end.content) == NOTATION.sub("", same.content)


def _attempt_name(draft: Draft) -> tuple[str, str, str] | None:
    """What a row names its attempt, with its task and policy; None where it names none."""
    name = draft.extra.get("row")
    if draft.fixed or not isinstance(name, str) or name in ("", draft.task_id):
        return None
    return draft.task_id, draft.policy, name


def _seen(found: Found, index: int, with_words: bool) -> str:
    """What the renderings of one attempt have in common."""
    messages, patch = found.spool.get(found.keys[index])
    observed = [" ".join(OBSERVED.sub("", m.content).split()) for m in messages if m.role in ("user", "tool")]
    turns = [" ".join(CALL.sub("", m.content).split()) if with_words else "" for m in messages if m.role == "assistant"]
    return fingerprint([observed, turns, patch])
