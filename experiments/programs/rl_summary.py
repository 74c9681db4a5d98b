"""What came out of a sweep of RL runs: a table and both figures, in the sweep's one summary run."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rmlab.fingerprint import fingerprint
from rmlab.paths import runs_folder

if TYPE_CHECKING:
    from analysis.policies import PolicyRun
    from rmlab.tracking.query import TrackedRun
    from rmlab.tracking.store import Store


def show(plan: Any, store: "Store", found: "Sequence[TrackedRun]") -> bool:
    """Writes the summary run and the figures of the finished RL runs among `found`, and names them; False where there are none.

    plan: of `rmlab sweep`. A summary that was made from the same runs stays as it is.
    """
    from analysis import rl_table
    from analysis.policies import policy_runs
    from rmlab.tracking.ui import address_hint, ui_command

    policies = policy_runs(found)
    if not policies:
        return False
    folder = runs_folder() / "figures" / plan.spec.name / f"{plan.spec.preset}-{plan.cells[0].identity.control_hash}"
    text = rl_table.as_markdown(policies)
    paths = _summarise(plan, store, found, policies, folder, text)
    print(f"\n{plan.spec.question}\n\n{text}\nfigures and table:")
    for path in paths:
        print(f"  {path}")
    print(f"look at the runs:\n  {ui_command()}\n  {address_hint(store, plan.spec.name)}")
    return True


def _summarise(
    plan: Any, store: "Store", found: "Sequence[TrackedRun]", policies: "Sequence[PolicyRun]", folder: Path, text: str
) -> list[Path]:
    from analysis import relation, rl_curves, rl_table, style
    from rmlab.files import write_text
    from rmlab.tracking.run import RunLogger

    spec = plan.spec
    drawn_from = fingerprint(sorted(policy.run.run_id for policy in policies))
    old = next((run for run in found if run.tags.get("kind") == "summary"), None)
    if (
        old is not None
        and old.tags.get("drawn_from") == drawn_from
        and (there := sorted(p for p in folder.rglob("*") if p.is_file()))
    ):
        return there
    paths = [*rl_curves.draw(policies, folder), *relation.draw(policies, folder)]
    write_text(folder / "table.csv", style.csv_text(rl_table.rows(policies)))
    write_text(folder / "table.md", text)
    tags = {
        "sweep": spec.name,
        "preset": spec.preset,
        "factor": spec.factor,
        "control_hash": plan.cells[0].identity.control_hash,
    }
    logger = (
        RunLogger(store, old.run_id, old.experiment_id)
        if old
        else RunLogger.start(store, spec.name, f"summary {spec.preset}", kind="summary", tags=tags)
    )
    with logger as run:
        for path in [*paths, folder / "table.csv", folder / "table.md"]:
            run.artifact(path, "figures" if path.stem != "table" else None)
        run.tags(
            {
                "mlflow.note.content": f"{spec.question}\n\n{text}\n\nReported elsewhere: {spec.reported}\n\n`{plan.command}`",
                "drawn_from": drawn_from,
                "cells": len(policies),
            }
        )
    return [*paths, folder / "table.csv", folder / "table.md"]
