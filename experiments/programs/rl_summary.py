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
    from analysis.policies import policy_runs
    from rmlab.tracking.ui import address_hint, ui_command

    policies = policy_runs(found)
    if not policies:
        return False
    folder = runs_folder() / "figures" / plan.spec.name / f"{plan.spec.preset}-{plan.cells[0].identity.control_hash}"
    text = as_markdown(policies)
    paths = _summarise(plan, store, found, policies, folder, text)
    print(f"\n{plan.spec.question}\n\n{text}\nfigures and table:")
    for path in paths:
        print(f"  {path}")
    print(f"look at the runs:\n  {ui_command()}\n  {address_hint(store, plan.spec.name)}")
    return True


def rows(policies: "Sequence[PolicyRun]") -> list[dict[str, Any]]:
    """One row a run: pass@1 on all held-out tasks before, after and paired, collapse, hacking gap."""
    table = []
    for policy in policies:
        row: dict[str, Any] = {"arm": policy.label, "seed": policy.seed}
        for way in ("sampled", "greedy"):
            difference = policy.outcome["held_out"].get("all", {}).get(way, {})
            row |= {f"{way}_{name}": difference.get(name) for name in ("before", "after", "difference", "low", "high")}
        table.append(row | {name: policy.outcome[name] for name in ("collapse", "hacking_gap", "area")} | {"run_id": policy.run.run_id})
    return table


def as_markdown(policies: "Sequence[PolicyRun]") -> str:
    """The table as Markdown: differences with their intervals over tasks, paired with the start."""
    def number(value: float | None, sign: str = "") -> str:
        return "-" if value is None else f"{value:{sign}.3f}"

    def gained(row: dict[str, Any], way: str) -> str:
        if row[f"{way}_difference"] is None:
            return "-"
        interval = f"[{row[f'{way}_low']:+.3f}, {row[f'{way}_high']:+.3f}]"
        return f"{number(row[f'{way}_before'])} → {number(row[f'{way}_after'])} ({number(row[f'{way}_difference'], '+')} {interval})"

    lines = ["| reward, verifier | seed | pass@1 sampled | pass@1 greedy | hacking gap | collapse |", "|---|---|---|---|---|---|"]
    for row in rows(policies):
        collapsed = "-" if row["collapse"] is None else "yes" if row["collapse"] else "no"
        cells = [row["arm"], row["seed"], gained(row, "sampled"), gained(row, "greedy"), number(row["hacking_gap"], "+"), collapsed]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines) + "\n"


def _summarise(plan: Any, store: "Store", found: "Sequence[TrackedRun]", policies: "Sequence[PolicyRun]", folder: Path,
               text: str) -> list[Path]:
    from analysis import relation, rl_curves, style
    from rmlab.files import write_text
    from rmlab.tracking.run import RunLogger

    spec = plan.spec
    drawn_from = fingerprint(sorted(policy.run.run_id for policy in policies))
    old = next((run for run in found if run.tags.get("kind") == "summary"), None)
    if old is not None and old.tags.get("drawn_from") == drawn_from and (there := sorted(p for p in folder.rglob("*") if p.is_file())):
        return there
    paths = [*rl_curves.draw(policies, folder), *relation.draw(policies, folder)]
    write_text(folder / "table.csv", style.csv_text(rows(policies)))
    write_text(folder / "table.md", text)
    tags = {"sweep": spec.name, "preset": spec.preset, "factor": spec.factor, "control_hash": plan.cells[0].identity.control_hash}
    logger = (RunLogger(store, old.run_id, old.experiment_id) if old else
              RunLogger.start(store, spec.name, f"summary {spec.preset}", kind="summary", tags=tags))
    with logger as run:
        for path in [*paths, folder / "table.csv", folder / "table.md"]:
            run.artifact(path, "figures" if path.stem != "table" else None)
        run.tags({"mlflow.note.content": f"{spec.question}\n\n{text}\n\nReported elsewhere: {spec.reported}\n\n`{plan.command}`",
                  "drawn_from": drawn_from, "cells": len(policies)})
    return [*paths, folder / "table.csv", folder / "table.md"]
