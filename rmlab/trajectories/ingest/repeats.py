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
from rmlab.trajectories.ingest.locations import COUNTED, is_counted
from rmlab.trajectories.ingest.reading import ImportedRecords
from rmlab.trajectories.record import Message, bare, family

EARLIER = "earlier snapshots"
NOTATION = re.compile(r"```\w*|\[/?call[^\]\n]*\]|\s+")
CALL = re.compile(r"\[call [^\]\n]*\]\n.*?\[/call\]", re.DOTALL)
OBSERVED = re.compile(r"^\s*OBSERVATION:\s*", re.IGNORECASE)


def without_snapshots(imported: ImportedRecords) -> ImportedRecords:
    """What was read without the earlier snapshots of conversations; each is counted with the last one."""
    last_of: dict[int, int] = {}
    for same in _grouped((i, (*_folder(d), d.opening)) for i, d in enumerate(imported.drafts) if d.opening):
        threads = {i: imported.spool.get(imported.keys[i])[0] for i in same}
        has_patch = imported.has_patch
        order = sorted(same, key=lambda i: (len(threads[i]), has_patch[i]))
        for n, i in enumerate(order):
            for j in reversed(order[n + 1 :]):
                gained = has_patch[j] and not has_patch[i]
                if _may_be_one(imported.drafts[i], imported.drafts[j]) and _goes_on(threads[i], threads[j], gained):
                    last_of[i] = j
                    break
    if not last_of:
        return imported
    beside = Counter(_folder(d) for d in imported.drafts if d.opening)
    snapshots, names = Counter[int](), defaultdict[int, set[str]](set)
    for i in last_of:
        last = i
        while last in last_of:
            last = last_of[last]
        snapshots[last] += 1
        names[last] |= {imported.drafts[i].task_id, imported.drafts[last].task_id}
    for i, n in snapshots.items():
        draft = imported.drafts[i]
        draft.removed[EARLIER] += n
        if len(names[i]) > 1 and draft.location.path and beside[_folder(draft)] == n + 1:
            # each was called by its own file's name, and nothing else lies there
            draft.task_id = bare(draft.location.folders[-1])
    imported.removed[EARLIER] += len(last_of)
    kept = [i for i in range(len(imported.drafts)) if i not in last_of]
    for name in ("drafts", "keys", "contents", "has_patch"):
        setattr(imported, name, [getattr(imported, name)[i] for i in kept])
    return imported


def contents(imported: ImportedRecords) -> list[str]:
    """For each draft what is equal for records of one attempt: a hash of its content, the same for all renderings.

    Records of our own sets were told apart when they were written: they stay so, and what has the content of one is a copy of it.
    """
    same = list(imported.contents)
    for rows in _grouped((i, name) for i, d in enumerate(imported.drafts) if (name := _attempt_name(d))):
        files = Counter((imported.drafts[i].location.root, imported.drafts[i].location.path) for i in rows)
        seen = {i: _seen(imported, i, with_words=max(files.values()) > 1) for i in rows}
        first = {key: i for i, key in reversed(seen.items())}
        for i in rows:
            same[i] = imported.contents[first[seen[i]]]
    own = {
        imported.contents[i]: d.fixed.trajectory_id for i, d in reversed(list(enumerate(imported.drafts))) if d.fixed
    }
    return [
        d.fixed.trajectory_id if d.fixed else own.get(one, one) for d, one in zip(imported.drafts, same, strict=True)
    ]


def _grouped(pairs: Iterable[tuple[int, object]]) -> list[list[int]]:
    """The indices that have a key in common with others."""
    groups: dict[object, list[int]] = defaultdict(list)
    for i, key in pairs:
        groups[key].append(i)
    return [group for group in groups.values() if len(group) > 1]


def _folder(draft: Draft) -> tuple[str, str]:
    """The folder that a file lies in; where a snapshot has a folder of its own (`round_2`), the one around it."""
    root, path = draft.location.root, draft.location.path
    if not path:
        return "", root.rpartition("/")[0]
    folders = path.split("/")[:-1]
    while folders and is_counted(folders[-1], COUNTED) and re.search("[a-z]", folders[-1].lower()):
        folders.pop()
    return root, "/".join(folders)


def _may_be_one(one: Draft, other: Draft) -> bool:
    """Whether two documents may be of one attempt by the tasks and policies that they name."""
    named = [d.task_id for d in (one, other) if d.task_id != d.location.subject or family(d.task_id) != "other"]
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


def _seen(imported: ImportedRecords, index: int, with_words: bool) -> str:
    """What the renderings of one attempt have in common."""
    messages, patch = imported.spool.get(imported.keys[index])
    observed = [" ".join(OBSERVED.sub("", m.content).split()) for m in messages if m.role in ("user", "tool")]
    turns = [" ".join(CALL.sub("", m.content).split()) if with_words else "" for m in messages if m.role == "assistant"]
    return fingerprint([observed, turns, patch])
