"""What a file says about outcomes: statements about tasks of one run, and predictions (the patches that a run submitted)."""

from dataclasses import dataclass, field

from rmlab.trajectories.naming import instance
from rmlab.trajectories.places import Place


@dataclass
class Report:
    """All that one file says of one run.

    kind: the layout. outcome: task → True (passed the hidden tests) or False. unfinished: tasks that the file names without
    an outcome (errors, pending, no log): they stay unlabelled. system: the run's or model's name where the file is about
    several; only a run of that name takes its labels. names: model and run names that the file states besides.
    hidden: task → names of tests that were hidden from the agent. contradictions: tasks that it calls resolved and unresolved.
    explicit: named by the user as a source of labels. note: what in the file does not agree with itself.
    """

    place: Place
    kind: str
    outcome: dict[str, bool] = field(default_factory=dict)
    unfinished: dict[str, str] = field(default_factory=dict)
    system: str = ""
    names: tuple[str, ...] = ()
    hidden: dict[str, tuple[str, ...]] = field(default_factory=dict)
    contradictions: list[str] = field(default_factory=list)
    explicit: bool = False
    note: str = ""

    @property
    def resolved(self) -> int:
        """How many it calls resolved."""
        return sum(self.outcome.values())

    def say(self, task: str, outcome: bool) -> None:
        """Notes an outcome; a task that is called both is noted as a contradiction and has none."""
        task = instance(task)
        if not task or task in self.contradictions:
            return
        self.unfinished.pop(task, None)
        if self.outcome.get(task, outcome) != outcome:
            del self.outcome[task]
            self.contradictions.append(task)
            return
        self.outcome[task] = outcome

    def leave_open(self, task: str, why: str) -> None:
        """Notes a task that is named without an outcome; what was said of it, before or behind, counts for more."""
        task = instance(task)
        if task not in self.outcome and task not in self.contradictions:
            self.unfinished[task] = why


@dataclass
class Predictions:
    """The patches that a run submitted. patch: task → patch ("" = none). model: task → the name that the run goes by."""

    place: Place
    patch: dict[str, str] = field(default_factory=dict)
    model: dict[str, str] = field(default_factory=dict)
