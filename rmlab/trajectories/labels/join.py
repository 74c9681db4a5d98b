"""Which statement belongs to which attempt? By the task, and by the names that both the report and the attempt carry.

A report is about one run. Its names are its folders, the parts of its file's name and the models it states; an attempt's
are its folders, its policy and its run. A report is taken for the attempts that share most of its names, and an attempt
takes the reports that share most of its own, and those that carry no name but its own: so `model.run_2.json` labels the
attempts under `run_2/` alone, and `results.json` beside both runs neither. A report on several systems labels only attempts
that carry the system's name, and one that names a model by its provider (`deepseek__deepseek-chat.run.json`) none that state
another model of a provider. sb-cli calls its reports SUBSET__SPLIT__RUN.json; where several runs of one folder have such
reports, each is taken for the run of its name alone. A report that is called as a file of attempts beside it is
(`output.report.json`, `output.jsonl`) is about that file. Where a report says that the evaluation of an attempt failed, no other
makes the attempt unresolved. Nothing is guessed: where one statement would label two different attempts, or two reports
disagree, the attempts stay unlabelled and both are named. Copies of one attempt are one attempt here.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from rmlab.trajectories.ingest.locations import Place, token, tokens
from rmlab.trajectories.labels.statement import Report
from rmlab.trajectories.labels.unjoined import of_nobody, unjoined
from rmlab.trajectories.record import task_key
from rmlab.wording import counted

SB_CLI = re.compile(r"^(?P<subset>.+?)__(?:dev|test|train|val|validation)__(?P<run>.+)$")


@dataclass(frozen=True)
class Attempt:
    """What is joined: an attempt's task and names. content: equal for copies. own: the outcome that its own record states,
    and where. joins: whether other files may label it. model: the model that its own record states."""

    key: int
    task: str
    content: str
    place: Place
    names: frozenset[str]
    own: tuple[bool, str] | None = None
    joins: bool = True
    model: str = ""


@dataclass
class Joined:
    """label: attempt's key → outcome and its source. conflicts, ambiguous: one line each, with both places. notes: reports
    of another model than that of the attempts beside them, or of systems that were not read."""

    label: dict[int, tuple[bool, str]] = field(default_factory=dict)
    conflicts: list[str] = field(default_factory=list)
    ambiguous: list[str] = field(default_factory=list)
    unfinished: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)


def names_of_report(report: Report) -> frozenset[str]:
    """The names that a report carries. The last folder of an instance's `report.json` is the instance and names no run."""
    folders = report.place.folders
    single = next(iter(report.outcome), "") if len(report.outcome) == 1 else ""
    if report.place.path and (report.kind == "report.json" or token(folders[-1]) == token(single)):
        folders = folders[:-1]
    run = sb_cli_run(report)
    called = [run] if run else [*report.place.stem.split("."), report.place.stem]
    return tokens([*folders, *called, *report.names, report.system])


def sb_cli_run(report: Report) -> str:
    """The run that sb-cli names in a report's file, SUBSET__SPLIT__RUN.json; "" where the report is none of its."""
    found = SB_CLI.match(report.place.stem) if report.kind == "id lists" else None
    return found["run"] if found else ""


def models_of_report(report: Report) -> list[str]:
    """The full names of models (with their provider) by which a report goes: stated, or where the harness writes them.

    A file may be called by the instance or the repository that it is about, and those look alike: they are no models.
    """
    folders = report.place.folders
    first = sb_cli_run(report) or report.place.stem.split(".")[0]
    written = [first, *(folders[-2:-1] if "run_evaluation" in folders else ())]
    named = [name for name in written if "__" in name]
    tasks = [token(task) for task in (*report.outcome, *report.unfinished, *report.contradictions)] if named else []
    models = [name for name in named if not any(task in token(name) or token(name) in task for task in tasks)]
    return [*(name for name in report.names if "/" in name or "__" in name), *models]


def another_model(models: Sequence[str], model: str) -> bool:
    """Whether a report is about other models than the attempt's. Names without a provider decide nothing."""
    if not models or "/" not in model:
        return False
    own, whole = token(model.rsplit("/", 1)[-1]), token(model)
    return not any(own in token(name) or token(re.split("/|__", name)[-1]) in whole for name in models)


def join(attempts: Sequence[Attempt], reports: Sequence[Report]) -> Joined:
    """Labels for attempts. Deterministic: neither order matters."""
    by_task: dict[str, list[Attempt]] = defaultdict(list)
    for attempt in attempts:
        if attempt.joins:
            by_task[task_key(attempt.task)].append(attempt)
    reports = [report.by_key() for report in reports]
    names_of = [names_of_report(report) for report in reports]
    shared = _shared(names_of, {a.names for a in attempts})
    tops = {names: max(share.values(), default=0) for names, share in shared.items()}
    best_of: dict[frozenset[str], int] = defaultdict(int)
    for one in {
        names for report, names in zip(reports, names_of, strict=True) if not report.explicit and not report.system
    }:
        for names, n in shared[one].items():
            best_of[names] = max(best_of[names], n)
    found: dict[str, list[tuple[bool, str]]] = defaultdict(list)
    void: set[str] = set()
    own_file, runs = _own_files(attempts, reports), _sb_cli_runs(reports)
    taken: set[int] = set()
    met: set[str] = set()  # contents of attempts about which some report says something
    result = Joined()
    for number, (report, own_names) in enumerate(zip(reports, names_of, strict=True)):
        share, top = shared[own_names], tops[own_names]
        models, run = models_of_report(report), token(sb_cli_run(report))
        alone = len(runs[_folder(report.place)]) < 2
        others: Counter[str] = Counter()
        for task in sorted({*report.outcome, *report.unfinished, *report.contradictions} & by_task.keys()):
            if number in own_file:
                takers = [a for a in by_task[task] if _file(a.place) == own_file[number]]
            else:
                takers = [
                    a
                    for a in by_task[task]
                    if _takes(report, own_names, share[a.names], top, best_of[a.names], a)
                    and (report.explicit or not run or alone or run in a.names)
                ]
            met.update(a.content for a in takers)
            others.update(a.model for a in takers if _is_of_another(report, run, models, a))
            takers = [a for a in takers if not _is_of_another(report, run, models, a)]
            meant = len({a.content for a in takers})
            if not takers:
                continue
            taken.add(number)
            source = _source(report)
            if task in report.void and meant == 1 and task in report.unfinished:
                void.add(takers[0].content)
            if task in report.contradictions:
                result.conflicts.append(f"{task}: {source} calls it resolved and unresolved")
            elif task in report.unfinished:
                result.unfinished[f"{report.unfinished[task]} in {report.place}"] += len(takers)
            elif meant > 1:
                places = ", ".join(sorted(str(a.place) for a in takers)[:3])
                result.ambiguous.append(
                    f"{task}: {source} states one outcome, {meant} attempts could be meant ({places})"
                )
            else:
                found[takers[0].content].append((report.outcome[task], source))
        if others:
            taken.add(number)
            beside = counted(others.total(), "attempt beside it is", "attempts beside it are")
            result.notes.append(
                f"{report.place} is about {models[0]}, {beside} of {min(others)}: not taken for them; "
                "name it behind --labels if they are meant"
            )
    result.notes += of_nobody(reports, frozenset[str]().union(*(a.names for a in attempts)))
    left = [report for number, report in enumerate(reports) if number not in taken and not report.system]
    joined = [report for number, report in enumerate(reports) if number in taken]
    silent = {a.content: str(a.place) for a in attempts if a.joins and not a.own and a.content not in met}
    if taken and silent:
        result.notes.append(
            f"{counted(len(silent), 'attempt has', 'attempts have')} no label: no report beside them is about them, "
            f"first {min(silent.values())}"
        )
    result.notes += unjoined(left, joined, {task_key(a.task): a.task for a in attempts}, set(by_task))
    copies: dict[str, list[Attempt]] = defaultdict(list)
    for attempt in attempts:
        copies[attempt.content].append(attempt)
        if attempt.own:
            found[attempt.content].append(attempt.own)
    for content, same in copies.items():
        stated = found[content]
        _settle(same, [one for one in stated if one[0]] if content in void else stated, result)
    return result


def _file(place: Place) -> str:
    return f"{place.root}/{place.path}" if place.path else place.root


def _folder(place: Place) -> str:
    return _file(place).rpartition("/")[0]


def _own_files(attempts: Sequence[Attempt], reports: Sequence[Report]) -> dict[int, str]:
    """For each report that is called as a file of attempts beside it is, and is about tasks of it: that file. By number.

    A report that the user named need not lie beside the file, where one file alone is called so.
    """
    tasks_of: dict[str, set[str]] = defaultdict(set)
    beside: dict[str, dict[str, str]] = defaultdict(dict)
    for attempt in attempts:
        tasks_of[_file(attempt.place)].add(task_key(attempt.task))
        beside[_folder(attempt.place)][attempt.place.stem] = _file(attempt.place)
    called: dict[str, set[str]] = defaultdict(set)
    for attempt in attempts:
        called[attempt.place.stem].add(_file(attempt.place))
    alone = {stem: min(files) for stem, files in called.items() if len(files) == 1}
    found = {}
    for number, report in enumerate(reports):
        stems = beside.get(_folder(report.place), alone if report.explicit else {})
        words = report.place.stem.split(".")
        names = [".".join(words[:size]) for size in range(len(words), 0, -1)]
        file = next((stems[name] for name in names if name in stems), _file(report.place))
        if file != _file(report.place) and tasks_of[file] & {*report.outcome, *report.unfinished}:
            found[number] = file
    return found


def _sb_cli_runs(reports: Sequence[Report]) -> dict[str, set[str]]:
    """The runs of which sb-cli left reports, by folder."""
    runs: dict[str, set[str]] = defaultdict(set)
    for report in reports:
        if run := sb_cli_run(report):
            runs[_folder(report.place)].add(token(run))
    return runs


def _is_of_another(report: Report, run: str, models: Sequence[str], attempt: Attempt) -> bool:
    """Whether a report that nobody named is about another model than the attempt's, and not by its run about this attempt."""
    return not (report.explicit or (run and run in attempt.names)) and another_model(models, attempt.model)


def _shared(
    names_of: Iterable[frozenset[str]], all_names: set[frozenset[str]]
) -> dict[frozenset[str], dict[frozenset[str], int]]:
    """For each set of a report's names, how many of them each set of an attempt's names shares."""
    return {names: {other: len(names & other) for other in all_names} for names in set(names_of)}


def _takes(report: Report, names: frozenset[str], n: int, top: int, best: int, attempt: Attempt) -> bool:
    if report.system:
        return token(report.system) in attempt.names
    if report.explicit:
        return n == top
    return n == top and in_scope(report.place, names, attempt.names) and (n == best or names <= attempt.names)


def in_scope(place: Place, names: frozenset[str], attempt: frozenset[str]) -> bool:
    """Whether a file lies where the attempt lies, or shares a name with it that is more than the path that was given."""
    return place.scope <= attempt or bool((names - {token(place.folders[0])}) & attempt)


def _settle(same: Sequence[Attempt], stated: list[tuple[bool, str]], result: Joined) -> None:
    """Labels the copies of one attempt by what was stated of any of them; a disagreement leaves all unlabelled."""
    if not stated:
        return
    every = sorted(set(stated), key=lambda one: one[1])
    if len({outcome for outcome, _ in every}) > 1:
        yes = next(source for outcome, source in every if outcome)
        no = next(source for outcome, source in every if not outcome)
        result.conflicts.append(f"{same[0].task} ({same[0].place}): resolved by {yes}, unresolved by {no}")
        return
    own = next((attempt.own for attempt in same if attempt.own), None)
    result.label.update((attempt.key, own or every[0]) for attempt in same)


def _source(report: Report) -> str:
    return f"{report.place} ({report.kind}{f', {report.system}' if report.system else ''})"
