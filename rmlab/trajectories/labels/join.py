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
from collections.abc import Sequence
from dataclasses import dataclass, field

from rmlab.trajectories.ingest.locations import Location, token, tokens
from rmlab.trajectories.labels.statement import Report
from rmlab.trajectories.labels.unjoined import of_nobody, unjoined
from rmlab.trajectories.record import task_key
from rmlab.wording import counted

SB_CLI = re.compile(r"^(?P<subset>.+?)__(?:dev|test|train|val|validation)__(?P<run>.+)$")


@dataclass(frozen=True)
class LabelTarget:
    """What is joined: an attempt's task and names. content: equal for copies. own: the outcome that its own record states,
    and where. joins: whether other files may label it. model: the model that its own record states."""

    key: int
    task: str
    content: str
    location: Location
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
    folders = report.location.folders
    single = next(iter(report.outcome), "") if len(report.outcome) == 1 else ""
    if report.location.path and (report.kind == "report.json" or token(folders[-1]) == token(single)):
        folders = folders[:-1]
    run = sb_cli_run(report)
    called = [run] if run else [*report.location.stem.split("."), report.location.stem]
    return tokens([*folders, *called, *report.names, report.system])


def sb_cli_run(report: Report) -> str:
    """The run that sb-cli names in a report's file, SUBSET__SPLIT__RUN.json; "" where the report is none of its."""
    named = SB_CLI.match(report.location.stem) if report.kind == "id lists" else None
    return named["run"] if named else ""


def models_of_report(report: Report) -> list[str]:
    """The full names of models (with their provider) by which a report goes: stated, or where the harness writes them.

    A file may be called by the instance or the repository that it is about, and those look alike: they are no models.
    """
    folders = report.location.folders
    first = sb_cli_run(report) or report.location.stem.split(".")[0]
    written = [first, *(folders[-2:-1] if "run_evaluation" in folders else ())]
    named = [name for name in written if "__" in name]
    tasks = [token(task) for task in report.tasks] if named else []
    models = [name for name in named if not any(task in token(name) or token(name) in task for task in tasks)]
    return [*(name for name in report.names if "/" in name or "__" in name), *models]


def another_model(models: Sequence[str], model: str) -> bool:
    """Whether a report is about other models than the attempt's. Names without a provider decide nothing."""
    if not models or "/" not in model:
        return False
    own, whole = token(model.rsplit("/", 1)[-1]), token(model)
    return not any(own in token(name) or token(re.split("/|__", name)[-1]) in whole for name in models)


def join(attempts: Sequence[LabelTarget], reports: Sequence[Report]) -> Joined:
    """Labels for attempts. Deterministic: neither order matters."""
    reports = [report.by_key() for report in reports]
    by_task: dict[str, list[LabelTarget]] = defaultdict(list)
    for attempt in attempts:
        if attempt.joins:
            by_task[task_key(attempt.task)].append(attempt)
    matching, statements, result = _Matching(attempts, reports), _Statements(), Joined()
    taken: set[int] = set()
    met: set[str] = set()  # contents of attempts about which some report says something
    for number, report in enumerate(reports):
        others: Counter[str] = Counter()
        for task in sorted(report.tasks & by_task.keys()):
            meant = [a for a in by_task[task] if matching.may_mean(number, a)]
            of_others = [a for a in meant if matching.is_of_another_model(number, a)]
            met.update(a.content for a in meant)
            others.update(a.model for a in of_others)
            takers = [a for a in meant if a not in of_others] if of_others else meant
            if takers:
                taken.add(number)
                statements.take(report, task, takers, result)
        if others:
            taken.add(number)
            result.notes.append(_another_model_note(report, matching.models[number][0], others))
    result.notes += of_nobody(reports, frozenset[str]().union(*(a.names for a in attempts)))
    silent = {a.content: str(a.location) for a in attempts if a.joins and not a.own and a.content not in met}
    if taken and silent:
        result.notes.append(
            f"{counted(len(silent), 'attempt has', 'attempts have')} no label, because no report beside them covers them, "
            f"first {min(silent.values())}"
        )
    left = [report for number, report in enumerate(reports) if number not in taken and not report.system]
    joined = [report for number, report in enumerate(reports) if number in taken]
    result.notes += unjoined(left, joined, {task_key(a.task): a.task for a in attempts}, set(by_task))
    copies: dict[str, list[LabelTarget]] = defaultdict(list)
    for attempt in attempts:
        copies[attempt.content].append(attempt)
    for content, same in copies.items():
        _label_copies(same, statements.of(content) + [a.own for a in same if a.own], result, content in statements.void)
    return result


class _Matching:
    """Which report may mean which attempt, by names, files and models; reports go by their number."""

    def __init__(self, attempts: Sequence[LabelTarget], reports: Sequence[Report]):
        self.reports = reports
        self.names = [names_of_report(report) for report in reports]
        self.models = [models_of_report(report) for report in reports]
        self.runs = [token(sb_cli_run(report)) for report in reports]
        all_names = {a.names for a in attempts}
        # for each set of a report's names, how many of them each set of an attempt's names shares
        self.shared = {names: {other: len(names & other) for other in all_names} for names in set(self.names)}
        self.top = {names: max(share.values(), default=0) for names, share in self.shared.items()}
        self.best_of: dict[frozenset[str], int] = defaultdict(int)
        of_one_run = zip(self.names, reports, strict=True)
        for names in {names for names, report in of_one_run if not report.explicit and not report.system}:
            for other, n in self.shared[names].items():
                self.best_of[other] = max(self.best_of[other], n)
        self.own_file, self.runs_of_folder = _own_files(attempts, reports), _sb_cli_runs(reports)

    def may_mean(self, number: int, attempt: LabelTarget) -> bool:
        """Whether a report is about an attempt at one of its tasks, whatever model it is about."""
        if number in self.own_file:
            return _file(attempt.location) == self.own_file[number]
        report, names, run = self.reports[number], self.names[number], self.runs[number]
        shared = self.shared[names][attempt.names]
        if report.system:
            takes = token(report.system) in attempt.names
        else:
            takes = shared == self.top[names] and (
                report.explicit
                or (
                    in_scope(report.location, names, attempt.names)
                    and (shared == self.best_of[attempt.names] or names <= attempt.names)
                )
            )
        alone = len(self.runs_of_folder[_folder(report.location)]) < 2
        return takes and (report.explicit or not run or alone or run in attempt.names)

    def is_of_another_model(self, number: int, attempt: LabelTarget) -> bool:
        """Whether a report that nobody named is about another model than the attempt's, and not by its run about this attempt."""
        run = self.runs[number]
        if self.reports[number].explicit or (run and run in attempt.names):
            return False
        return another_model(self.models[number], attempt.model)


@dataclass
class _Statements:
    """What reports state of attempts, by content. void: of attempts whose evaluation failed by what a report says: nothing
    else makes them unresolved."""

    outcomes: dict[str, list[tuple[bool, str]]] = field(default_factory=lambda: defaultdict(list))
    void: set[str] = field(default_factory=set)

    def of(self, content: str) -> list[tuple[bool, str]]:
        """The outcomes that are stated, each with its source."""
        return self.outcomes[content]

    def take(self, report: Report, task: str, takers: Sequence[LabelTarget], result: Joined) -> None:
        """What a report states of a task, for the attempts that it may mean; what labels none of them is counted in `result`."""
        source = f"{report.location} ({report.kind}{f', {report.system}' if report.system else ''})"
        meant = len({a.content for a in takers})
        if task in report.void and meant == 1 and task in report.unfinished:
            self.void.add(takers[0].content)
        if task in report.contradictions:
            result.conflicts.append(f"{task}: {source} lists it as both resolved and unresolved")
        elif task in report.unfinished:
            result.unfinished[f"{report.unfinished[task]} in {report.location}"] += len(takers)
        elif meant > 1:
            locations = ", ".join(sorted(str(a.location) for a in takers)[:3])
            result.ambiguous.append(
                f"{task}: {source} states one outcome, but it could mean any of {meant} attempts ({locations})"
            )
        else:
            self.outcomes[takers[0].content].append((report.outcome[task], source))


def _another_model_note(report: Report, model: str, others: Counter[str]) -> str:
    beside = counted(others.total(), "attempt beside it is", "attempts beside it are")
    return (
        f"{report.location} is about {model}, {beside} of {min(others)}: not used for them; "
        "name it with --labels if they are meant"
    )


def _file(location: Location) -> str:
    return f"{location.root}/{location.path}" if location.path else location.root


def _folder(location: Location) -> str:
    return _file(location).rpartition("/")[0]


def _own_files(attempts: Sequence[LabelTarget], reports: Sequence[Report]) -> dict[int, str]:
    """For each report that is called as a file of attempts beside it is, and is about tasks of it: that file. By number.

    A report that the user named need not lie beside the file, where one file alone is called so.
    """
    tasks_of: dict[str, set[str]] = defaultdict(set)
    beside: dict[str, dict[str, str]] = defaultdict(dict)
    for attempt in attempts:
        tasks_of[_file(attempt.location)].add(task_key(attempt.task))
        beside[_folder(attempt.location)][attempt.location.stem] = _file(attempt.location)
    called: dict[str, set[str]] = defaultdict(set)
    for attempt in attempts:
        called[attempt.location.stem].add(_file(attempt.location))
    alone = {stem: min(files) for stem, files in called.items() if len(files) == 1}
    numbered = {}
    for number, report in enumerate(reports):
        stems = beside.get(_folder(report.location), alone if report.explicit else {})
        words = report.location.stem.split(".")
        names = [".".join(words[:size]) for size in range(len(words), 0, -1)]
        file = next((stems[name] for name in names if name in stems), _file(report.location))
        if file != _file(report.location) and tasks_of[file] & {*report.outcome, *report.unfinished}:
            numbered[number] = file
    return numbered


def _sb_cli_runs(reports: Sequence[Report]) -> dict[str, set[str]]:
    """The runs of which sb-cli left reports, by folder."""
    runs: dict[str, set[str]] = defaultdict(set)
    for report in reports:
        if run := sb_cli_run(report):
            runs[_folder(report.location)].add(token(run))
    return runs


def in_scope(location: Location, names: frozenset[str], attempt: frozenset[str]) -> bool:
    """Whether a file lies where the attempt lies, or shares a name with it that is more than the path that was given."""
    return location.scope <= attempt or bool((names - {token(location.folders[0])}) & attempt)


def _label_copies(same: Sequence[LabelTarget], stated: Sequence[tuple[bool, str]], result: Joined, void: bool) -> None:
    """Labels the copies of one attempt by what was stated of any of them; a disagreement leaves all unlabelled.

    void: their evaluation failed, so that only "resolved" counts.
    """
    every = sorted({one for one in stated if one[0] or not void}, key=lambda one: one[1])
    if not every:
        return
    if len({outcome for outcome, _ in every}) > 1:
        yes = next(source for outcome, source in every if outcome)
        no = next(source for outcome, source in every if not outcome)
        result.conflicts.append(f"{same[0].task} ({same[0].location}): resolved by {yes}, unresolved by {no}")
        return
    own = next((attempt.own for attempt in same if attempt.own), None)
    result.label.update((attempt.key, own or every[0]) for attempt in same)
