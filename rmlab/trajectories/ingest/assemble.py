"""From what was read to records: predictions, policies, labels, copies, numbered attempts; then written in order.

The same content under two names is kept once, and the record names both places (`extra.also`). Several runs of one policy at
one task are attempts, numbered in the order of their places. Records of our own sets stay as they are.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from rmlab.fingerprint import fingerprint_lines
from rmlab.trajectories.ingest.drafts import Draft
from rmlab.trajectories.ingest.locations import natural, token, tokens
from rmlab.trajectories.ingest.reading import ImportedRecords
from rmlab.trajectories.ingest.repeats import contents, without_snapshots
from rmlab.trajectories.labels.join import Joined, LabelTarget, in_scope, join
from rmlab.trajectories.leakage import hidden_names
from rmlab.trajectories.record import Trajectory, bare, family, instance, repository, task_key
from rmlab.trajectories.store import fingerprint_line, write_in_order

Step = Callable[[float], None]


@dataclass
class ImportResult:
    """What will be written. rows: index into the drafts, in the file's order. also: places of copies, by index."""

    imported: ImportedRecords
    rows: list[int]
    policy: list[str]
    attempt: list[int]
    task: list[str]
    patch: dict[int, str]
    also: dict[int, list[str]]
    joined: Joined
    source: str = ""
    hidden_seen: list[str] = field(default_factory=list)

    @property
    def duplicates(self) -> int:
        """Copies that are not written."""
        return sum(map(len, self.also.values()))

    def records(self) -> Iterator[Trajectory]:
        for index in self.rows:
            yield self._record(index)

    def write(self, out: Path, metadata: dict[str, str], step: Step) -> None:
        """Writes the set: once through to name and check, once to write."""
        ids = []
        lines = []
        hidden = self._hidden()
        for record in self.records():
            ids.append(record.trajectory_id)
            lines.append(fingerprint_line(record, record.trajectory_id))
            for number, test in hidden_names(record.messages, sorted(hidden.get(task_key(record.task_id), ()))):
                self.hidden_seen.append(f"{record.extra.get('place', record.task_id)}, message {number}: {test}")
            step(0.5)
        identity = fingerprint_lines(sorted(lines))

        def stepping() -> Iterator[Trajectory]:
            for record, known in zip(self.records(), ids, strict=True):
                vars(record)["trajectory_id"] = known  # the hash of half a megabyte, and it was made just now
                yield record
                step(0.5)

        write_in_order(out, stepping(), metadata, identity)

    def _hidden(self) -> dict[str, set[str]]:
        hidden: dict[str, set[str]] = defaultdict(set)
        for report in self.imported.reports:
            for task, names in report.hidden.items():
                hidden[task_key(task)].update(names)
        return hidden

    def _record(self, index: int) -> Trajectory:
        draft = self.imported.drafts[index]
        messages, patch = self.imported.spool.get(self.imported.keys[index])
        label = self.joined.label.get(index)
        fixed = draft.fixed
        if fixed:
            extra = draft.extra
        else:
            extra = {"format": draft.format, "place": str(draft.location), **draft.extra}
            stated = (("time", draft.time), ("also", self.also.get(index)), ("removed", dict(draft.removed)))
            extra |= {name: value for name, value in stated if value}
        return Trajectory(
            task_id=self.task[index],
            cluster=fixed.cluster if fixed else repository(self.task[index], draft.repository),
            source=self.source or (fixed.source if fixed else family(self.task[index])),
            policy=self.policy[index],
            attempt=self.attempt[index],
            messages=messages,
            patch=patch if patch is not None else self.patch.get(index),
            exit_status=draft.exit_status,
            resolved=None if label is None else label[0],
            label_source=label[1] if label else draft.label_source if fixed else None,
            split=fixed.split if fixed else None,
            extra=extra,
        )


def assemble(imported: ImportedRecords, source: str = "") -> ImportResult:
    """Labels, policies, attempts and copies of all that was read. source: for all records, in place of the tasks' family."""
    imported = without_snapshots(imported)
    drafts, content = imported.drafts, contents(imported)
    task = one_spelling([_spelled(storable(d.task_id)) or "unnamed" for d in drafts], task_key)
    task = [d.task_id if d.fixed else task[i] for i, d in enumerate(drafts)]
    folders = [_names(d, task[i]) for i, d in enumerate(drafts)]
    patch, model = _predicted(imported, content, task, folders)
    named = [
        d.policy
        if d.fixed
        else storable(d.policy or model.get(i, "") or next(iter(d.names), "") or _run_folder(d, task[i]))
        for i, d in enumerate(drafts)
    ]
    spelled = one_spelling(named)
    policy = [named[i] if d.fixed else spelled[i] for i, d in enumerate(drafts)]
    attempts = [
        LabelTarget(
            i,
            task[i],
            content[i],
            d.location,
            folders[i] | tokens([policy[i]]),
            None if d.resolved is None else (d.resolved, d.label_source or str(d.location)),
            d.joins,
            d.policy,
        )
        for i, d in enumerate(drafts)
    ]
    joined = join(attempts, imported.reports)
    first: dict[str, int] = {}
    also: dict[int, list[str]] = defaultdict(list)
    for i in sorted(range(len(drafts)), key=lambda i: (drafts[i].fixed is None, natural(str(drafts[i].location)))):
        kept = first.setdefault(content[i], i)
        if kept != i:
            also[kept].append(str(drafts[i].location))
    rows = sorted(
        first.values(), key=lambda i: (_split(drafts[i]), task[i], policy[i], natural(str(drafts[i].location)))
    )
    attempt = _numbered(drafts, rows, task, policy)
    return ImportResult(imported, rows, policy, attempt, task, patch, dict(also), joined, source)


def _split(draft: Draft) -> str:
    return (draft.fixed.split if draft.fixed else None) or ""


def _numbered(drafts: Sequence[Draft], rows: Sequence[int], task: Sequence[str], policy: Sequence[str]) -> list[int]:
    """The numbers of attempts within (task, policy), by index: records of our own sets keep theirs where no two have the same."""
    attempt = [0] * len(drafts)
    taken: dict[tuple[str, str], set[int]] = defaultdict(set)
    others = []
    for i in rows:
        fixed, used = drafts[i].fixed, taken[task[i], policy[i]]
        if fixed and fixed.attempt not in used:
            attempt[i] = fixed.attempt
            used.add(fixed.attempt)
        else:
            others.append(i)
    for i in others:
        used = taken[task[i], policy[i]]
        attempt[i] = next(n for n in count() if n not in used)
        used.add(attempt[i])
    return attempt


def one_spelling(names: list[str], key: Callable[[str], str] = token) -> list[str]:
    """Names that are compared as equal (`@google/gemini` and `google/gemini`) in their commonest spelling."""
    spellings: dict[str, Counter[str]] = defaultdict(Counter)
    for name in names:
        spellings[key(name)][name] += 1
    chosen = {one: min(counts, key=lambda name: (-counts[name], name)) for one, counts in spellings.items()}
    return [chosen[key(name)] for name in names]


def _spelled(task: str) -> str:
    """A task's id as its data set has it, where a Docker image's name stands in its place."""
    return instance(task) if "_1776_" in task else task


def storable(text: str) -> str:
    """A name without line breaks and other control characters, at most 300 long."""
    return "".join(c for c in text if c.isprintable()).strip()[:300]


def _names(draft: Draft, task: str) -> frozenset[str]:
    """The names that an attempt carries: its folders, its file, its run, its policy; the task's own name is none."""
    return tokens([*map(bare, draft.location.folders), draft.location.stem, draft.policy, *draft.names]) - {token(task)}


def _run_folder(draft: Draft, task: str) -> str:
    """The innermost folder that is neither the task nor one that every harness makes: the run's name, for want of a better."""
    named = [folder for folder in map(bare, draft.location.folders) if tokens([folder]) - {token(task)}]
    return named[-1] if named else draft.format


def _predicted(
    imported: ImportedRecords, content: Sequence[str], task: list[str], names: list[frozenset[str]]
) -> tuple[dict[int, str], dict[int, str]]:
    """Patches (where the attempt has none) and models that predictions files give, by index.

    A file is taken for the attempts that share most of its names, as a report is; one that could mean several attempts at a
    task gives no patch. What it leaves out (runs list no attempt that failed) goes by the name of the attempts beside it,
    where they have one name.
    """
    by_task: dict[str, list[int]] = defaultdict(list)
    for i, one in enumerate(task):
        by_task[task_key(one)].append(i)
    home = [_home(draft, task[i]) for i, draft in enumerate(imported.drafts)]
    patch: dict[int, str] = {}
    model: dict[int, str] = {}
    for file in imported.predictions:
        own = tokens([*file.location.folders, file.location.stem])
        shares = {i: len(own & names[i]) for one in file.patch for i in by_task.get(task_key(one), ())}
        top = max(shares.values(), default=0)
        # One run's file may hold rows that go by other names (a part was run again): the run is what most rows say.
        run = min(
            Counter(filter(None, file.model.values())).items(), key=lambda item: (-item[1], item[0]), default=("", 0)
        )[0]
        for one in file.patch:
            takers = [
                i
                for i in by_task.get(task_key(one), ())
                if shares[i] == top and imported.drafts[i].joins and in_scope(file.location, own, names[i])
            ]
            for i in takers:
                if run:
                    model.setdefault(i, run)
                if len({content[j] for j in takers}) == 1 and file.patch[one].strip() and not imported.has_patch[i]:
                    patch.setdefault(i, file.patch[one])
    of_home: dict[frozenset[str], set[str]] = defaultdict(set)
    for i, name in model.items():
        of_home[home[i]].add(name)
    for i in range(len(task)):
        if i not in model and imported.drafts[i].joins and len(of_home[home[i]]) == 1:
            model[i] = min(of_home[home[i]])
    return patch, model


def _home(draft: Draft, task: str) -> frozenset[str]:
    """The run in which an attempt lies: its folders, and its file where that holds many attempts."""
    file = [] if draft.location.line is None else [draft.location.stem]
    return tokens([*draft.location.folders, *file, *draft.names]) - {token(task)}
