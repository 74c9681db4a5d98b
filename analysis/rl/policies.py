"""The finished RL runs of a store, with what came of each and what its verifier was worth."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from analysis.rl.outcomes import count, parameter, read_outcome, read_report
from analysis.rl.watched import Watched
from rmlab.errors import MissingArtifact
from rmlab.files import path_part
from rmlab.rl.rewards import REWARDS
from rmlab.tracking.bundles.reading import AnyRun
from rmlab.tracking.tags import FINISHED, IMPORTED_RUN, REPLACED
from rmlab.wording import counted

KIND = "rl"
PAYING = tuple(name for name, reward in REWARDS.items() if reward.needs_score)
"""Rewards that hold the verifier's score."""


@dataclass(frozen=True)
class PolicyRun:
    """One training of a policy. outcome: see rmlab.rl.outcome. paid_by: the run that trained its verifier, where it is there too.
    earlier: finished trainings of the same cell that it stands for."""

    run: AnyRun
    paid_by: AnyRun | None = None
    earlier: tuple["PolicyRun", ...] = ()

    @cached_property
    def outcome(self) -> dict[str, Any]:
        """The summary that the run left."""
        return read_outcome(self.run)

    @cached_property
    def watched(self) -> Watched:
        """Its verifier on its own attempts."""
        return Watched(self.run, self.outcome["curve"])

    @cached_property
    def verifier_report(self) -> dict[str, Any]:
        """The verifier's report on its own evaluation set, of the scores as they are paid; empty where none was there."""
        if self.says_what_is_paid:
            return read_report(self.run, "paid_report.json")
        try:
            self.run.artifact("verifier_report.json")
        except MissingArtifact:
            return {}
        return read_report(self.run)

    @property
    def says_what_is_paid(self) -> bool:
        """Whether its verifier's report is of scores that were calibrated or bent before they were paid."""
        try:
            return self.run.artifact("paid_report.json").exists()
        except MissingArtifact:
            return False

    @property
    def seed(self) -> int:
        return count(self.run, "seed")

    @property
    def reward(self) -> str:
        """The reward's level in its sweep (hybrid_half), else its mode, with the weight where it is not 1."""
        mode, weight = parameter(self.run, "reward"), float(self.run.params.get("reward_weight", 1))
        if self.run.tags.get("factor") == "reward":
            return self.run.tags["level"]
        variant = self.run.tags.get(
            "reward_variant", ""
        )  # another calibration, transform or ensemble is another reward
        text = mode if mode != "hybrid" or weight == 1 else f"{mode} × {weight:g}"
        return text + (f" ({variant})" if variant else "")

    @property
    def verifier(self) -> str:
        """A short name of the verifier that pays or watches, "" without one."""
        tags = self.run.tags
        return tags.get("verifier_name") or Path(tags.get("verifier", "")).name

    @property
    def verifier_fingerprint(self) -> str:
        """Its content: a point of the relation."""
        return self.run.tags.get("verifier_fingerprint", "")

    @property
    def training(self) -> str:
        """The training that made it, the unit of the relation: the verifier's cell, else its run, else its content."""
        tags = self.run.tags
        return tags.get("verifier_training") or tags.get("verifier_run") or self.verifier_fingerprint

    @property
    def evidence(self) -> str:
        return self.run.tags.get("evidence", "final")

    @property
    def arm(self) -> tuple[str, str, str]:
        """What it shares with other seeds: reward, verifier, evidence."""
        return self.reward, self.verifier if self.verifier_fingerprint else "", self.evidence

    @property
    def name(self) -> str:
        """Reward and verifier as a legend says them: a verifier that pays nothing watches."""
        reward, verifier, _ = self.arm
        watches = parameter(self.run, "reward") not in PAYING
        return reward + (f" ({verifier} watches)" if verifier and watches else f", {verifier}" if verifier else "")

    @property
    def label(self) -> str:
        """Of its arm: the name, and the evidence where it is voluntary."""
        return self.name + (" (voluntary evidence)" if self.evidence == "voluntary" else "")


def policy_runs(found: Iterable[AnyRun]) -> list[PolicyRun]:
    """The finished RL runs, one for each cell (the newest stands for it), by arm and seed."""
    of_cell: dict[str, list[AnyRun]] = {}
    found = list(found)
    by_id = {run.tags.get(IMPORTED_RUN, run.run_id): run for run in found} | {run.run_id: run for run in found}
    for run in found:
        if run.tags.get("kind") == KIND and run.tags.get("status") in (FINISHED, REPLACED):
            of_cell.setdefault(run.tags.get("config_hash", run.run_id), []).append(run)

    def made(run: AnyRun, earlier: Iterable[AnyRun] = ()) -> PolicyRun:
        return PolicyRun(run, by_id.get(run.tags.get("verifier_run", "")), tuple(made(one) for one in earlier))

    chosen = []
    for own in of_cell.values():
        if finished := [run for run in own if run.tags.get("status") == FINISHED]:
            newest = max(finished, key=lambda run: run.start_time)
            chosen.append(made(newest, [run for run in own if run is not newest]))
    return sorted(chosen, key=lambda r: (r.arm, r.seed, r.run.run_id))


def comparable(runs: Sequence[PolicyRun]) -> dict[str, list[PolicyRun]]:
    """The runs that differ in seed, verifier, reward and evidence alone, by a folder's name: only these share axes."""
    groups: dict[str, list[PolicyRun]] = {}
    for run in runs:
        name = f"start-{run.run.tags.get('start_fingerprint', 'unknown')}-{count(run.run, 'steps')}-steps"
        if fixed := "-".join(tag for key in ("fixed", "dataset") if (tag := run.run.tags.get(key))):
            name += f"-{fixed}"
        groups.setdefault(path_part(name, f"{run.run.name} ({run.run.run_id})"), []).append(run)
    return dict(sorted(groups.items()))


def note(runs: Sequence[PolicyRun]) -> str:
    """What was drawn from how much."""
    seeds = sorted({run.seed for run in runs})
    commits = {run.run.tags.get("commit", "") for run in runs}
    text = (
        f"{counted(len(runs), 'run')}, seeds {', '.join(map(str, seeds))}, "
        f"{runs[0].run.params['steps']} steps each; micro-SWE."
    )
    return text + (f" Runs come from {len(commits)} commits." if len(commits) > 1 else "")
