"""Search: a sweep whose levels Optuna proposes; what `rmlab sweep` does with a file that says `search`.

    rmlab sweep search_verifier preset=smoke
    optuna-dashboard sqlite:///runs/optuna.db

study → trials, each the cells of its settings → table of all trials, the best of them, Pareto figure → summary run.
"""

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rmlab.fingerprint import fingerprint
from rmlab.launchers.jobs import Launcher
from rmlab.paths import runs_folder
from rmlab.sweep.plan import Cell
from rmlab.tracking.store import Store
from rmlab.wording import counted

if TYPE_CHECKING:
    from rmlab.sweep.study import Study, Tried
    from rmlab.sweep.study_identity import StudyName


def comparable(templates: Sequence[Cell]) -> dict[str, Any]:
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


def study_of(templates: Sequence[Cell]) -> "StudyName":
    """The study of a search at a preset."""
    from rmlab.sweep.study_identity import StudyName

    sweep = templates[0].sweep
    return StudyName(f"{sweep.name} {sweep.preset}", comparable(templates))


def launch(
    templates: Sequence[Cell],
    overrides: Sequence[str],
    store: Store,
    launcher: Launcher,
    command: str,
    retry_failed: bool = False,
) -> None:
    """Runs a search until its trials are made, and shows what came out."""
    from rmlab.sweep.search import run_search
    from rmlab.sweep.study import Study
    from rmlab.sweep.study_identity import other_studies

    search = templates[0].sweep.search
    assert search is not None
    name = study_of(templates)
    study = Study(str(name), search, retry_failed, name.comparable)
    for line in other_studies(name, search):
        print(line)
    run_search(templates, overrides, study, store, launcher, retry_failed)
    show(templates[0], study, name.hash, store, command)


def description(templates: Sequence[Cell]) -> str:
    """What would be searched, and how far the study is. Makes nothing."""
    from rmlab.sweep.study_identity import other_studies, storage_uri, trials_made

    sweep = templates[0].sweep
    search = sweep.search
    assert search is not None
    name = study_of(templates)
    ended = trials_made(str(name), search)
    lines = [
        sweep.question,
        f"preset {sweep.preset}, control {templates[0].identity.control_hash}, seeds {sweep.seeds}",
        "",
        "objectives:",
        *(f"  {name}: {goal}" for name, goal in search.objectives.items()),
        "space:",
        *(f"  {name}: {allowed}" for name, allowed in search.space.items()),
        "",
        f"{counted(search.trials, 'trial')} in all, {ended} made in {storage_uri(search)}",
        *other_studies(name, search),
    ]
    if cost := sweep.cost.get(sweep.preset):
        lines.append(f"cost of the whole search at this preset: {cost}")
    return "\n".join(lines)


def table(trials: Sequence["Tried"], objectives: Sequence[str]) -> list[dict[str, Any]]:
    """One row a trial: settings, values, state, runs."""
    return [
        {
            "trial": t.number,
            "state": t.state,
            "best": "yes" if t.best else "",
            **t.params,
            **dict(zip(objectives, t.values or [None] * len(objectives), strict=True)),
            "runs": " ".join(t.runs),
            "why": t.why,
        }
        for t in trials
    ]


def as_markdown(rows: Sequence[dict[str, Any]]) -> str:
    """The best trials, or all where none is complete."""
    shown = [row for row in rows if row["best"]] or list(rows)
    names = [name for name in shown[0] if name not in ("runs", "best", "state", "why")]
    cells = [
        [f"{row[n]:.4g}" if isinstance(row[n], float) else "" if row[n] is None else str(row[n]) for n in names]
        for row in shown
    ]
    return "\n".join(["| " + " | ".join(line) + " |" for line in [names, ["---"] * len(names), *cells]])


def show(template: Cell, study: "Study", study_hash: str, store: Store, command: str) -> None:
    """Writes table, figure and the summary run of a study, and names them. Another study of the search has its own."""
    from analysis import pareto, style
    from rmlab.files import write_text
    from rmlab.sweep.study_identity import storage_uri
    from rmlab.tracking.query import runs
    from rmlab.tracking.run import RunLogger

    sweep, search = template.sweep, template.sweep.search
    assert search is not None
    tried = study.tried()
    if not tried:
        print("no trial was made yet: there is nothing to show")
        return
    control = template.identity.control_hash
    folder = runs_folder() / "figures" / sweep.name / f"{sweep.preset}-{study_hash}"
    rows = table(tried, list(search.objectives))
    states = ", ".join(f"{sum(t.state == s for t in tried)} {s}" for s in dict.fromkeys(t.state for t in tried))
    text = as_markdown(rows)
    write_text(folder / "trials.csv", style.csv_text(rows))
    write_text(folder / "trials.md", text)
    note = f"{sweep.name}, preset {sweep.preset}, control {control}, study {study_hash}; {states}; validation part, seeds {sweep.seeds}."
    figures = pareto.draw(rows, search.objectives, folder, note)
    print(f"\n{sweep.question}\n\n{states}; no other trial is better in every objective than these:\n\n{text}")
    print("figures:", *(f"  {path}" for path in figures), f"table:\n  {folder / 'trials.csv'}", sep="\n")
    print(f"look at the study:\n  optuna-dashboard {shlex.quote(storage_uri(search))}")
    drawn_from = fingerprint([[t.number, t.state] for t in tried])
    tags = {"sweep": sweep.name, "preset": sweep.preset, "control_hash": control, "study": study_hash}
    found = runs(store, None, {**tags, "kind": "summary"})
    if found and found[0].tags.get("drawn_from") == drawn_from:
        return
    logger = (
        RunLogger(store, found[0].run_id, found[0].experiment_id)
        if found
        else RunLogger.start(store, sweep.name, f"summary {sweep.preset}", kind="summary", tags=tags)
    )
    with logger as run:
        for path in sorted(folder.iterdir()):
            run.artifact(path, "figures" if path.stem == "pareto" else None)
        run.tags(
            {"mlflow.note.content": f"{sweep.question}\n\n{text}\n\n{note}\n\n`{command}`", "drawn_from": drawn_from}
        )
