"""Why does a report label nobody, and what would make it join? One line a file (or a folder of instances' reports)."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from rmlab.trajectories.ingest.locations import token
from rmlab.trajectories.labels.statement import Report
from rmlab.wording import counted


def of_nobody(reports: Sequence[Report], names: frozenset[str]) -> list[str]:
    """A line for each file on several systems of which none was read. names: all that the attempts carry."""
    systems: dict[str, list[str]] = defaultdict(list)
    for report in reports:
        if report.system:
            systems[str(report.location)].append(report.system)
    return [
        f"{location} is about {counted(len(named), 'system')}, but no attempt has the name of one "
        f"({', '.join(sorted(named)[:3])}, ...): "
        "import the run from a folder named after its system"
        for location, named in systems.items()
        if names and not any(token(system) in names for system in named)
    ]


def unjoined(
    reports: Sequence[Report], joined: Sequence[Report], read: Mapping[str, str], joining: set[str]
) -> list[str]:
    """A line for each file whose statements label nobody, though attempts were read.

    reports: those that were taken for no attempt, with tasks as they are compared. joined: the others; a folder of
    instances' reports of which some were taken is none of these. read: tasks of the attempts as they are compared → as they
    are written. joining: those at which attempts may take labels from elsewhere.
    """
    if not read:
        return []
    known = {_group(report) for report in joined}
    groups: dict[str, list[Report]] = defaultdict(list)
    for report in reports:
        if _group(report) not in known:
            groups[_group(report)].append(report)
    lines = []
    for location, together in groups.items():
        tasks = frozenset[str]().union(*(report.tasks for report in together))
        if not tasks:
            continue
        if not tasks & read.keys():
            why = (
                f"none of its {counted(len(tasks), 'task')} was read (it lists {min(tasks)}; {min(read.values())} was read). "
                "Reports are joined by task id: name the trajectories of this run"
            )
        elif not tasks & joining:
            why = "the attempts at its tasks are rows without a run, model or patch, which only take the label of their own row"
        elif any(report.explicit for report in together):
            why = "its run has a different name from that of the attempts at its tasks: import that run's folder alone"
        else:
            why = (
                "its run name or folder differs from that of the attempts at its tasks. "
                "Name it with --labels if it is about them, or put it into their run's folder"
            )
        lines.append(f"{location} labels no attempt: {why}")
    return lines


def _group(report: Report) -> str:
    """What is explained together: the reports of a run's instances lie in a folder each."""
    single = len({*report.outcome, *report.unfinished}) == 1 and "/" in str(report.location)
    return (
        str(report.location).rsplit("/", 2)[0] + "/*/report.json"
        if single and report.location.name == "report.json"
        else str(report.location)
    )
