"""What came of every RL run? pass@1 on the held-out tasks before, after and paired with the start, the hacking gap, collapse."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from analysis.presentation import style
from analysis.registry import Needs, figure
from analysis.rl.policies import PolicyRun, comparable, note
from analysis.rl.policy_measures import hacking_gap
from rmlab.files import write_text
from rmlab.metrics.uncertainty import detectable_fall, too_few
from rmlab.wording import estimate

HEAD = (
    "reward, verifier",
    "seed",
    "pass@1 sampled",
    "pass@1 greedy",
    "hacking gap",
    "episodes that run the call",
    "collapse",
)
ENDS = 5  # steps at either end that a share is averaged over


@figure(
    "What was the result of every RL run? pass@1 before, after and paired, hacking gap and collapse, with intervals "
    "(`rl_table.csv`, `rl_table.md`).",
    Needs.rl,
)
def draw(runs: Sequence[PolicyRun], out: Path) -> list[Path]:
    """Writes rl_table.{csv,md} for every group of comparable runs into OUT/rl/GROUP."""
    paths = []
    for name, group in comparable(runs).items():
        folder = out / "rl" / name
        write_text(folder / "rl_table.csv", style.csv_text(rows(group)))
        write_text(
            folder / "rl_table.md", f"{as_markdown(group)}\n{note(group)} Intervals: 95 %, over clusters of tasks.\n"
        )
        paths += [folder / "rl_table.csv", folder / "rl_table.md"]
    return paths


def rows(runs: Sequence[PolicyRun]) -> list[dict[str, Any]]:
    """One row a run. Where a measure is missing (no held-out task, no verifier), None."""
    table = []
    for run in runs:
        row: dict[str, Any] = {"arm": run.label, "seed": run.seed}
        for way in ("sampled", "greedy"):
            difference = run.outcome["held_out"].get("all", {}).get(way, {})
            row |= {f"{way}_{name}": difference.get(name) for name in ("before", "after", "difference", "low", "high")}
        row["hacking_gap"], row["hacking_gap_low"], row["hacking_gap_high"] = hacking_gap(run)
        row["ran_share_first"], row["ran_share_last"] = _ends(run, "rl/ran_share")
        row |= {name: run.outcome[name] for name in ("collapse", "area")}
        low, high = row["sampled_low"], row["sampled_high"]
        row["collapse_detectable"] = None if low is None else detectable_fall(low, high)
        table.append(row | {"run_id": run.run.run_id})
    return table


def as_markdown(runs: Sequence[PolicyRun]) -> str:
    """The table as Markdown: differences with their intervals over tasks, paired with the start."""
    lines = [f"| {' | '.join(HEAD)} |", "|---" * len(HEAD) + "|"]
    for run, row in zip(runs, rows(runs), strict=True):
        few = too_few(run.outcome["held_out"]["all"]["sampled"]) if row["collapse"] is not None else ""
        power = f"no (80 % power for a loss of {row['collapse_detectable'] or 0:.3f})"
        collapsed = "-" if row["collapse"] is None else few or ("yes" if row["collapse"] else power)
        ran = "-" if row["ran_share_first"] is None else f"{row['ran_share_first']:.2f} → {row['ran_share_last']:.2f}"
        cells = [
            row["arm"],
            row["seed"],
            _gained(row, "sampled", bool(few)),
            _gained(row, "greedy", bool(few)),
            _with_ends(row, "hacking_gap"),
            ran,
            collapsed,
        ]
        lines.append(f"| {' | '.join(style.cell(text) for text in cells)} |")
    return "\n".join(lines) + "\n"


def _ends(run: PolicyRun, name: str) -> tuple[float | None, float | None]:
    """The mean of a step's metric over the first and the last ENDS steps."""
    values = [value for _, value in run.run.series(name)]
    return (
        (sum(values[:ENDS]) / len(values[:ENDS]), sum(values[-ENDS:]) / len(values[-ENDS:])) if values else (None, None)
    )


def _gained(row: dict[str, Any], way: str, few: bool) -> str:
    if row[f"{way}_difference"] is None:
        return "-"
    ends = (None, None) if few else (row[f"{way}_low"], row[f"{way}_high"])
    gained = estimate(row[f"{way}_difference"], ends, signed=True)
    return f"{row[f'{way}_before']:.3f} → {row[f'{way}_after']:.3f} ({gained})"


def _with_ends(row: dict[str, Any], name: str) -> str:
    return estimate(row[name], (row[f"{name}_low"], row[f"{name}_high"]), signed=True)
