"""Which studies of searches there are, and which of them a search continues.

Values are compared within a study, so its name covers everything that makes its trials comparable: if the search's file was edited
in any of that, it becomes another study, and its launch says so.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rmlab.fingerprint import fingerprint
from rmlab.paths import runs_folder
from rmlab.sweep.plan import Cell
from rmlab.sweep.search_spec import SearchSpec
from rmlab.tracking.store import SQLITE, database_url
from rmlab.wording import counted

LOST, COMPARABLE = "lost", "comparable"


@dataclass(frozen=True)
class StudyName:
    """search: name and preset. comparable: what trials share, plain values by what they are; another one is another study."""

    search: str
    comparable: Mapping[str, Any]

    @property
    def hash(self) -> str:
        """Of what trials share."""
        return fingerprint(self.comparable)

    def __str__(self) -> str:
        return f"{self.search} {self.hash}"


def storage_uri(spec: SearchSpec) -> str:
    """The database of the study, as SQLAlchemy reads it."""
    return spec.storage or database_url(runs_folder() / "optuna.db")


def trials_made(name: str, spec: SearchSpec) -> int:
    """How many trials of a study have ended; 0 where there is none. Makes and changes nothing."""
    import optuna

    if _absent(spec):
        return 0
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        study = optuna.load_study(study_name=name, storage=storage_uri(spec))
    except KeyError:
        return 0
    return sum(trial.state.is_finished() and LOST not in trial.user_attrs for trial in study.get_trials(deepcopy=False))


def other_studies(name: StudyName, spec: SearchSpec) -> list[str]:
    """A line about each study of the same search whose trials are not comparable, for the first launch of a new one; [] after it."""
    import optuna

    if _absent(spec):
        return []
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    known = {one.study_name: one for one in optuna.get_all_study_summaries(storage=storage_uri(spec))}
    if str(name) in known and known[str(name)].n_trials:
        return []
    lines = []
    for other in known.values():
        if other.study_name.rpartition(" ")[0] != name.search or other.study_name == str(name) or not other.n_trials:
            continue
        theirs, ours = other.user_attrs.get(COMPARABLE), json.loads(json.dumps(name.comparable))
        differing = [key for key in ours if theirs and theirs.get(key) != ours[key]] or ["what makes trials comparable"]
        lines.append(
            f"This is a different study from {other.study_name!r}, which differs in {', '.join(differing)}: its "
            f"{counted(other.n_trials, 'trial')} stay there and are not counted here. Finished runs of the same settings are reused."
        )
    return lines


def _absent(spec: SearchSpec) -> bool:
    """Whether a sqlite file of studies was never made: opening it would make it."""
    if spec.storage is None:
        return not (runs_folder() / "optuna.db").exists()
    return spec.storage.startswith(SQLITE) and not Path(spec.storage.removeprefix(SQLITE)).exists()


def study_name(templates: Sequence[Cell]) -> StudyName:
    """The study of a search at a preset."""
    sweep = templates[0].sweep
    return StudyName(f"{sweep.name} {sweep.preset}", _comparable(templates))


def _comparable(templates: Sequence[Cell]) -> dict[str, Any]:
    """What makes the trials of a search comparable: two searches that differ in any of it have a study each.

    How many trials there are, who proposes them and which of them are stopped early changes no value.
    """
    sweep = templates[0].sweep
    search = sweep.search
    assert search is not None
    return {
        "objectives": list(search.objectives.items()),  # the values of a trial have their order
        "space": search.space,
        "meaning of choices": {
            f"{name}={choice}": sweep.meaning(name, choice)
            for name, allowed in search.space.items()
            for choice in allowed.get("choices", ())
        },
        "pruning": [search.pruning["metric"], search.pruning.get("goal")] if search.pruning else None,
        "seeds": sweep.seeds,  # a value is a mean over them
        "configuration": [cell.identity.config_hash for cell in templates],
    }
