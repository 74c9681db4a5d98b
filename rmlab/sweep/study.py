"""The study of a search: the settings that were tried, their results, and what to try next. A thin layer over Optuna.

A study is stored in a database (a sqlite file in the runs folder unless the sweep file names another), so it continues where a
killed search stopped, and optuna-dashboard can open it. The number of trials is a total over all launches: finished, pruned and
failed trials count; trials that were cut off by a kill do not, and are tried again.
"""

import math
import sys
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from rmlab.errors import RmlabError, UsageError
from rmlab.paths import runs_folder
from rmlab.sweep.search_spec import SearchSpec
from rmlab.sweep.study_identity import COMPARABLE, LOST, storage_uri
from rmlab.tracking.dead_runs import LeaseMonitor
from rmlab.tracking.leases import lease_seconds, lease_tags
from rmlab.tracking.run_index import RunInfo
from rmlab.tracking.tags import BEAT, LEASE

if TYPE_CHECKING:
    import optuna

LOOK_SECONDS = 2.0
WHY, RUNS, ADDRESSES = "why", "runs", "addresses"
DASHBOARD = "http://127.0.0.1:8080/dashboard"


@dataclass(frozen=True)
class Tried:
    """One trial. values: of the objectives in their order, None unless complete. best: no other trial is better in everything."""

    number: int
    state: str
    params: dict[str, Any]
    values: tuple[float, ...] | None
    runs: tuple[str, ...]
    why: str
    best: bool


class Study:
    """A study that this process takes part in, perhaps beside others."""

    def __init__(
        self, name: str, spec: SearchSpec, retry_failed: bool = False, comparable: Mapping[str, Any] | None = None
    ) -> None:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self.spec, self.retry_failed = spec, retry_failed
        self._optuna = optuna
        self._monitor = LeaseMonitor()
        self._mine: dict[int, optuna.Trial] = {}
        self._reported: dict[int, int] = {}
        self._looked = self._beaten = float("-inf")
        self._counted = 0
        self._elsewhere = 0
        uri = storage_uri(spec)
        runs_folder().mkdir(parents=True, exist_ok=True)
        patience = {"connect_args": {"timeout": 60}} if uri.startswith("sqlite") else {}
        directions: list[Any] = list(spec.objectives.values())
        try:
            self._storage = optuna.storages.RDBStorage(uri, engine_kwargs=patience)
            self._study = optuna.create_study(
                study_name=name,
                storage=self._storage,
                directions=directions,
                pruner=_made(spec.pruning["pruner"], "pruning.pruner") if spec.pruning else optuna.pruners.NopPruner(),
                load_if_exists=True,
            )
            if comparable is not None and COMPARABLE not in self._study.user_attrs:
                self._study.set_user_attr(COMPARABLE, dict(comparable))
            self._first = len(self._study.get_trials(deepcopy=False))
        except Exception as error:
            raise RmlabError(
                f"the study {name} in {uri} cannot be opened: {str(error).splitlines()[0]} (A database holds either runs "
                "or studies: name another one under search.storage.)"
            ) from error
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            self._study.set_metric_names(list(spec.objectives))  # what optuna-dashboard shows
        self._study.sampler = _sampler(spec.sampler)
        self._distributions = {name: _distribution(allowed) for name, allowed in spec.space.items()}
        self.refresh()

    # Not Optuna's own heartbeat (RDBStorage(heartbeat_interval=...), fail_stale_trials; read in 5.0): `ask` gives a trial no beat, so
    # one whose search died before its first beat stays RUNNING for good; beats are compared by the database's clock (for sqlite
    # each host's own, in whole seconds) and by the watcher's interval, not the holder's; and a dead process on this machine is only
    # found when its grace is over, where a lease shows it at once.
    def refresh(self) -> None:
        """Counts the trials, fails those whose process is dead, and beats for its own. A trial of its own that another search took for
        dead, because this one stood still, is not reported any more: another is made in its place."""
        states = self._optuna.trial.TrialState
        self._looked = time.monotonic()
        trials = self._study.get_trials(deepcopy=False)
        for lost in [number for number in self._mine if trials[number].state.is_finished()]:
            self._lose(lost)
        if self._looked - self._beaten > lease_seconds() / 8:
            self._beaten = self._looked
            for number, own in list(self._mine.items()):
                self._update(number, partial(own.set_user_attr, BEAT, str(self._beaten)))
        self._counted = self._elsewhere = 0
        for trial in trials:
            if trial.state == states.RUNNING and trial.number not in self._mine:
                # Asked for, and not yet signed by whoever did: that takes two writes, so it may live as long as a lease.
                tags = {
                    LEASE: str(trial.user_attrs.get(LEASE, "0 unsigned")),
                    BEAT: str(trial.user_attrs.get(BEAT, "")),
                }
                if self._monitor.is_dead(RunInfo(f"trial {trial.number}", "", "", tags, 0, None, asked=self._looked)):
                    self._fail(trial.number, "its search was cut off", lost=True)
                else:
                    self._elsewhere += 1
            else:
                self._counted += trial.number in self._mine or self._counts(trial)

    def _counts(self, trial: "optuna.trial.FrozenTrial") -> bool:
        """Whether a trial has ended and counts for the total. With `retry_failed` what failed before this launch does not."""
        again = trial.user_attrs.get(LOST) or (self.retry_failed and trial.number < self._first)
        return trial.state.is_finished() and not (again and trial.state == self._optuna.trial.TrialState.FAIL)

    def is_open(self) -> bool:
        """Whether trials are still to be made, or awaited from another process of this study."""
        if time.monotonic() - self._looked > LOOK_SECONDS:
            self.refresh()
        return self._elsewhere > 0 or self.wants_more()

    def wants_more(self) -> bool:
        """Whether the total leaves room for another trial now."""
        return self._counted + self._elsewhere < self.spec.trials

    def ask(self) -> tuple[int, dict[str, Any]] | None:
        """A new trial: its number, and a level of each factor. None where another search was quicker and made the last one.

        Two searches may ask at once, and each sees afterwards what was asked for before its own trial: numbers decide.
        """
        trial = self._study.ask(self._distributions)
        for name, value in lease_tags().items():
            trial.set_user_attr(name, value)
        before = self._study.get_trials(deepcopy=False)[: trial.number]
        if sum(self._counts(t) or t.state == self._optuna.trial.TrialState.RUNNING for t in before) >= self.spec.trials:
            self._fail(trial.number, "another search made the last trial", lost=True)
            self.refresh()
            return None
        self._mine[trial.number] = trial
        self._counted += 1
        return trial.number, dict(trial.params)

    def report(self, number: int, steps: Sequence[tuple[int, float]]) -> bool:
        """Tells what a trial has measured so far, (step, value); whether it is to be stopped. One objective only."""
        assert self.spec.pruning is not None
        if (trial := self._mine.get(number)) is None:
            return False
        reported = self._reported.get(number, -1)
        [direction] = self.spec.objectives.values()
        sign = 1.0 if self.spec.pruning.get("goal", direction) == direction else -1.0
        for step, value in steps:
            if step > reported and math.isfinite(value):
                if not self._update(number, partial(trial.report, sign * value, step)):
                    return False
                self._reported[number] = step
        return bool(trial.should_prune())

    def address(self, numbers: Sequence[str]) -> str:
        """Where optuna-dashboard shows trials of this study, at its default port; none = all of them."""
        study_id = self._storage.get_study_id_from_name(self._study.study_name)
        return f"{DASHBOARD}/studies/{study_id}/trials{'?numbers=' + ','.join(numbers) if numbers else ''}"

    def tell(
        self, number: int, values: Sequence[float | None], runs: Sequence[str], addresses: Sequence[str] = ()
    ) -> bool:
        """The values of a finished trial. One that is missing or not finite fails the trial, not the study; False says so.

        runs, addresses: ids of the runs that the values are from, and where the MLflow UI shows them.
        """
        attributes = {RUNS: list(runs), ADDRESSES: list(addresses)}
        for name, value in attributes.items():
            if number not in self._mine or not self._update(
                number, partial(self._mine[number].set_user_attr, name, value)
            ):
                return True
        wrong = [
            f"{name} is {value}"
            for name, value in zip(self.spec.objectives, values, strict=True)
            if value is None or not math.isfinite(value)
        ]
        if wrong:
            self._fail(number, "; ".join(wrong))
        else:
            self._study.tell(number, [float(value) for value in values if value is not None], skip_if_finished=True)
        self._mine.pop(number)
        return not wrong

    def tell_failed(self, number: int, why: str) -> None:
        if self._mine.pop(number, None) is not None:
            self._fail(number, why)

    def tell_pruned(self, number: int) -> None:
        """A trial that was stopped because others did better by then."""
        if self._mine.pop(number, None) is not None:
            self._study.tell(number, state=self._optuna.trial.TrialState.PRUNED, skip_if_finished=True)

    def tried(self) -> list[Tried]:
        complete = self._optuna.trial.TrialState.COMPLETE
        trials = self._study.get_trials(deepcopy=False)
        best = {t.number for t in self._study.best_trials} if any(t.state == complete for t in trials) else set()
        return [
            Tried(
                t.number,
                t.state.name.lower(),
                dict(t.params),
                tuple(t.values) if t.state == complete else None,
                tuple(t.user_attrs.get(RUNS, ())),
                str(t.user_attrs.get(WHY, "")),
                t.number in best,
            )
            for t in trials
        ]

    def _update(self, number: int, write: Callable[[], None]) -> bool:
        """Writes to a trial of its own; False where another search has ended it meanwhile."""
        try:
            write()
        except self._optuna.exceptions.UpdateFinishedTrialError:
            self._lose(number)
            return False
        return True

    def _lose(self, number: int) -> None:
        del self._mine[number]
        print(
            f"trial {number} was given up by another search while this one was suspended: its runs are kept, but it does not "
            "count, and another trial replaces it",
            file=sys.stderr,
            flush=True,
        )

    def _fail(self, number: int, why: str, lost: bool = False) -> None:
        study_id = self._storage.get_study_id_from_name(self._study.study_name)
        trial_id = self._storage.get_trial_id_from_study_id_trial_number(study_id, number)
        self._storage.set_trial_user_attr(trial_id, WHY, why)
        if lost:
            self._storage.set_trial_user_attr(trial_id, LOST, True)
        self._study.tell(number, state=self._optuna.trial.TrialState.FAIL, skip_if_finished=True)


def _sampler(target: dict[str, Any]) -> "optuna.samplers.BaseSampler":
    """Proposes trials. A seeded one is seeded by each trial's number besides, so that two searches, or a search that goes on,
    never make the proposals of one seed twice. A sequence that all searches share (QMC) takes its seed as it is."""
    from optuna.samplers import BaseSampler, QMCSampler

    whole: BaseSampler = _made(target, "sampler")
    seed = target.get("seed")
    if not isinstance(seed, int) or isinstance(whole, QMCSampler):
        return whole

    class ByNumber(BaseSampler):
        """The sampler as it is made for one trial after the other."""

        def before_trial(self, study: Any, trial: Any) -> None:
            self._own: BaseSampler = _made({**target, "seed": seed + trial.number}, "sampler")
            self._own.before_trial(study, trial)

        def infer_relative_search_space(self, study: Any, trial: Any) -> dict[str, Any]:
            return self._own.infer_relative_search_space(study, trial)

        def sample_relative(self, study: Any, trial: Any, search_space: dict[str, Any]) -> dict[str, Any]:
            return self._own.sample_relative(study, trial, search_space)

        def sample_independent(self, study: Any, trial: Any, param_name: str, param_distribution: Any) -> Any:
            return self._own.sample_independent(study, trial, param_name, param_distribution)

        def after_trial(self, study: Any, trial: Any, state: Any, values: Any) -> None:
            whole.after_trial(study, trial, state, values)

    return ByNumber()


def _made(target: dict[str, Any], what: str) -> Any:
    from hydra.utils import instantiate

    try:
        return instantiate(target)
    except Exception as error:
        raise UsageError(f"search: {what}={target} cannot be made: {str(error).splitlines()[0]}") from error


def _distribution(allowed: dict[str, Any]) -> "optuna.distributions.BaseDistribution":
    from optuna import distributions

    if "choices" in allowed:
        return distributions.CategoricalDistribution(allowed["choices"])
    low, high, log, step = allowed["low"], allowed["high"], bool(allowed.get("log")), allowed.get("step")
    if isinstance(low, int) and isinstance(high, int):
        return distributions.IntDistribution(low, high, log=log, step=step or 1)
    return distributions.FloatDistribution(float(low), float(high), log=log, step=step)
