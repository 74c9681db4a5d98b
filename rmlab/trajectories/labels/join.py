"""Which statement belongs to which attempt? By the task, and by the names that both the report and the attempt carry.

A report is about one run. Its names are its folders, the parts of its file's name and the models it states; an attempt's
are its folders, its policy and its run. A report is taken for the attempts that share most of its names, and an attempt
takes the reports that share most of its own, and those that carry no name but its own: so `model.run_2.json` labels the
attempts under `run_2/` alone, and `results.json` beside both runs neither. A report on several systems labels only attempts
that carry the system's name, and one that names a model by its provider (`deepseek__deepseek-chat.run.json`) none that state
another model of a provider. Nothing is guessed: where one statement would label two different attempts, or two reports
disagree, the attempts stay unlabelled and both are named. Copies of one attempt are one attempt here.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from rmlab.trajectories.labels.statement import Report
from rmlab.trajectories.naming import instance
from rmlab.trajectories.places import Place, token, tokens


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
    return tokens([*folders, *report.place.stem.split("."), report.place.stem, *report.names, report.system])


def models_of_report(report: Report) -> list[str]:
    """The full names of models (with their provider) by which a report goes: stated, or where the harness writes them.

    A file may be called by the instance or the repository that it is about, and those look alike: they are no models.
    """
    folders = report.place.folders
    written = [report.place.stem.split(".")[0], *(folders[-2:-1] if "run_evaluation" in folders else ())]
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
            by_task[instance(attempt.task)].append(attempt)
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
    result = Joined()
    for report, own_names in zip(reports, names_of, strict=True):
        share, top = shared[own_names], tops[own_names]
        models = models_of_report(report)
        others: Counter[str] = Counter()
        for task in sorted({*report.outcome, *report.unfinished, *report.contradictions} & by_task.keys()):
            takers = [a for a in by_task[task] if _takes(report, own_names, share[a.names], top, best_of[a.names], a)]
            others.update(a.model for a in takers if not report.explicit and another_model(models, a.model))
            takers = [a for a in takers if report.explicit or not another_model(models, a.model)]
            meant = len({a.content for a in takers})
            if not takers:
                continue
            source = _source(report)
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
            result.notes.append(
                f"{report.place} is about {models[0]}, {others.total()} attempts beside it are of {min(others)}: not taken for them; "
                "name it behind --labels if they are meant"
            )
    result.notes += _of_nobody(reports, frozenset[str]().union(*(a.names for a in attempts)))
    copies: dict[str, list[Attempt]] = defaultdict(list)
    for attempt in attempts:
        copies[attempt.content].append(attempt)
        if attempt.own:
            found[attempt.content].append(attempt.own)
    for content, same in copies.items():
        _settle(same, found[content], result)
    return result


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


def _of_nobody(reports: Sequence[Report], names: frozenset[str]) -> list[str]:
    """A line for each file that the user named and whose systems are none of those that were read."""
    systems: dict[str, list[str]] = defaultdict(list)
    for report in reports:
        if report.explicit and report.system:
            systems[str(report.place)].append(report.system)
    return [
        f"{place} is about {len(found)} systems, and no attempt carries the name of one ({', '.join(sorted(found)[:3])}, ...): "
        "import the run from a folder of its system's name"
        for place, found in systems.items()
        if names and not any(token(system) in names for system in found)
    ]


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
