"""Which offline metric of a verifier foretells what RL with it does? The answer of the study of that name, by its plan.

The plan is experiments/studies/which_metric_foretells_rl/README.md; nothing is chosen here. Top: the outcome over AUC within task and
over ECE, a point a verifier. Bottom: how strongly each metric orders the outcomes, ranks within a start; the causal experiments beside
the margin. The table says the same in words, what is missing, and what was left out for which reason.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from analysis.foretelling.answer import Answer, answer
from analysis.foretelling.causal import MARGIN, moved
from analysis.foretelling.estimates import FEWEST, METRICS
from analysis.foretelling.runs import PaidRun, Study, beside, read_study
from analysis.foretelling.tables import markdown
from analysis.presentation import style
from analysis.presentation.captions import Caption, write_captions
from analysis.registry import Needs, figure
from analysis.rl.policies import PolicyRun
from rmlab.files import write_text
from rmlab.wording import counted

NAME = "foretelling"
LOOKS = {
    "balanced": ("o", "trained at 1:1"),
    "mostly_unresolved": ("v", "trained at 1:4"),
    "mostly_resolved": ("^", "trained at 4:1"),
    "overconfident": ("s", "1:1, overconfident"),
}
"""A mark and a name for each column, so that it is read in grey too; starts are filled and hollow."""
BESIDE: dict[str, Any] = {"before RL": ":", "execution alone pays": "--"}
"""Lines at the pass@1 that outcomes stand beside."""
BLOCKS = {"execution_free": (style.RESOLVED, "D", "verifier alone"), "hybrid": (style.UNRESOLVED, "P", "hybrid")}


@figure(
    "Which offline metric of a verifier foretells what RL with it does? The answer by the plan of which_metric_foretells_rl, with "
    "what is missing and what was left out.",
    Needs.rl_study,
)
def draw(runs: Sequence[PolicyRun], out: Path) -> list[Path]:
    """Draws foretelling.{pdf,png,csv} and foretelling_one_column.pdf with their captions, and writes foretelling.md and
    foretelling_table.csv, into OUT/rl/foretelling."""
    study = read_study(runs)
    if not study.taken:
        print(
            f"{NAME}: none of {counted(len(runs), 'RL run')} is a cell of which_metric_foretells_rl: there is nothing to conclude",
            file=sys.stderr,
        )
        return []
    found, folder = answer(study), out / "rl" / NAME
    paths: list[Path] = []
    for rows, columns, width, height in ((2, 2, style.TWO_COLUMNS, 4.6), (4, 1, style.ONE_COLUMN, 8.6)):
        with style.figure(rows, columns, width / columns, height / rows) as (drawn, axes):
            points = _panels(axes.flat, study, found)
            drawn.legend(handles=_legend(study, found), loc="outside lower center", ncols=2 * columns)
            if columns > 1:
                paths += style.save(drawn, folder, NAME, points)
            else:
                paths.append(style.save_picture(drawn, folder / f"{NAME}_one_column.pdf"))
    table = [*found.rows(), *({"kind": "moved", **row} for row in moved(study))]
    write_text(folder / f"{NAME}_table.csv", style.csv_text(table))
    write_text(folder / f"{NAME}.md", markdown(study, found))
    captions = write_captions(folder, NAME, caption(study, found))
    return [*paths, folder / f"{NAME}_table.csv", folder / f"{NAME}.md", *captions]


def _panels(axes: Any, study: Study, found: Answer) -> list[dict[str, Any]]:
    over_auc, over_ece, metrics, causal = axes
    for axis in (over_auc, over_ece):
        axis.set_ylabel("pass@1 after RL")
    over_ece.sharey(over_auc)
    panels = [
        (over_auc, _points(over_auc, study, "auc_within_task"), "no run yet"),
        (over_ece, _points(over_ece, study, "ece_width_10"), "no run yet"),
        (metrics, _metrics(metrics, found), "too few runs yet"),
        (causal, _causal(causal, found), "fewer than three seeds yet"),
    ]
    for axis, rows, why in panels:
        if not rows:
            axis.text(0.5, 0.5, why, transform=axis.transAxes, ha="center", va="center", color="0.3")
    return [row for _, rows, _ in panels for row in rows]


def _legend(study: Study, found: Answer) -> list[Any]:
    """Marks of columns, of starts, and of what pays in blocks; lines: of each what is drawn."""
    from matplotlib.lines import Line2D

    def entry(label: str, mark: str, colour: str, face: str) -> Any:
        return Line2D([], [], linestyle="", marker=mark, markersize=4, color=colour, markerfacecolor=face, label=label)

    there, faces = _at_the_top(study), {"a": style.RESOLVED, "b": "white"}
    columns = [entry(name, mark, "black", "black") for column, (mark, name) in LOOKS.items() if column in there.columns]
    starts = [entry(f"start {name}", "o", style.RESOLVED, faces[name]) for name in faces if name in there.starts]
    lines = [
        Line2D([], [], linestyle=line, linewidth=0.8, color="black", label=name)
        for name, line in BESIDE.items()
        if name in there.lines
    ]
    shown = [
        entry(name, mark, colour, colour) for block, (colour, mark, name) in BLOCKS.items() if found.relations[block]
    ]
    return [*columns, *starts, *shown, *lines]


class _Top(NamedTuple):
    """What the upper panels have marks and lines of: columns and starts of the plan, and names of BESIDE."""

    columns: set[str]
    starts: set[str]
    lines: set[str]


def _at_the_top(study: Study) -> _Top:
    runs = study.of("execution_free")
    lines = {name for name, by_start in beside(runs, study.of("execution")).items() if by_start}
    return _Top({run.cell["column"] for run in runs}, {run.cell["start"] for run in runs}, lines)


def _points(axis: Any, study: Study, metric: str) -> list[dict[str, Any]]:
    """The outcome of `execution_free` over a metric."""
    rows, runs = list[dict[str, Any]](), study.of("execution_free")
    if runs:
        for name, by_start in beside(runs, study.of("execution")).items():
            for start, level in by_start.items():
                axis.axhline(level, linestyle=BESIDE[name], linewidth=0.7, color="black")
                rows.append({"panel": metric, "name": name, "start": start.split(" ")[0], "y": level})
    for run in runs:
        x, filled = run.verifier[metric], run.cell["start"] == "a"
        if x is None:
            continue
        look = {"marker": LOOKS[run.cell["column"]][0], "markersize": 4, "linestyle": "", "color": style.RESOLVED}
        axis.plot(x, run.outcome, markerfacecolor=style.RESOLVED if filled else "white", **look)
        rows.append({"panel": metric, **_about(run), "x": x, "y": run.outcome})
    axis.set_xlabel(f"{METRICS[metric].name}, frozen pool")
    return rows


def _about(run: PaidRun) -> dict[str, Any]:
    return {name: run.cell[name] for name in ("name", "block", "start", "column", "amount", "seed")}


def _metrics(axis: Any, found: Answer) -> list[dict[str, Any]]:
    """Spearman's coefficient of each metric, alone and in the hybrid."""
    rows = []
    names = list(METRICS)
    for shift, (block, relations) in zip((0.15, -0.15), found.relations.items(), strict=True):
        colour, mark, _ = BLOCKS[block]
        for place, name in enumerate(names):
            one = relations.get(name)
            if one is None or one.rho is None or one.low is None or one.high is None:
                continue
            y = len(names) - 1 - place + shift
            axis.errorbar(
                one.rho,
                y,
                xerr=[[one.rho - one.low], [one.high - one.rho]],
                fmt=mark,
                markersize=3.5,
                elinewidth=0.8,
                color=colour,
                markerfacecolor=colour if found.shown(block, name) else "white",
            )
            rows.append({"panel": "rho", "block": block, "name": name, "x": one.rho, "low": one.low, "high": one.high})
    axis.axvline(0, color=style.REFERENCE, linewidth=0.6)
    axis.set_yticks(range(len(names)), labels=[METRICS[name].name for name in reversed(names)])
    axis.set(xlabel="Spearman's ρ with pass@1", xlim=(-1.05, 1.05))
    return rows


def _causal(axis: Any, found: Answer) -> list[dict[str, Any]]:
    """Differences of the causal experiments, in points, with 90 % intervals beside the margin."""
    rows, names = [], list(found.causal)
    axis.axvspan(-100 * MARGIN, 100 * MARGIN, color="0.9", lw=0)
    axis.axvline(0, color=style.REFERENCE, linewidth=0.6)
    for place, name in enumerate(names):
        one = found.causal[name]
        y = len(names) - 1 - place
        ends = [[100 * (one.difference - one.low)], [100 * (one.high - one.difference)]]
        face = "black" if one.differs else "white"
        look = {"fmt": "o", "markersize": 3.5, "elinewidth": 0.8, "color": "black", "markerfacecolor": face}
        axis.errorbar(100 * one.difference, y, xerr=ends, **look)
        rows.append(
            {"panel": "causal", "name": name, "x": one.difference, "low": one.low, "high": one.high, "words": one.words}
        )
    axis.set_yticks(range(len(names)), labels=[style.short(name.replace("_", " "), 32) for name in reversed(names)])
    axis.set_xlabel("change of pass@1, points")
    return rows


def _of_design(verifiers: int) -> str:
    """What stands before the faults of the design; too few verifiers may have an outcome to judge it."""
    return "Not as planned" if verifiers >= FEWEST else "The design cannot be judged by these runs yet"


def caption(study: Study, found: Answer) -> Caption:
    """What a reader of the figure alone has to know: of marks, lines and panels what is drawn."""
    free, hybrid = len(study.of("execution_free")), len(study.of("hybrid"))
    return Caption(
        found.sentences[0],
        f"Top: {_said_of_points(study)}. Bottom left: {_said_of_relations(found)}. Bottom right: {_said_of_causes(found)}.",
        f"n = {counted(free, 'verifier')} (alone){f', {hybrid} (hybrid)' if hybrid else ''}, one RL seed each; "
        f"{len(study.left_out)} cells or runs left out, named in {NAME}.md."
        + (f" {_of_design(free)}: {' '.join(found.faults)}" if found.faults else ""),
    )


def _said_of_points(study: Study) -> str:
    there, verifiers = _at_the_top(study), len(study.of("execution_free"))
    if not verifiers:
        return "no run yet that a verifier alone pays"
    said = (
        "pass@1 of the policy (sampled, four attempts at each held-out task without two-bug ones) after 60 steps of RL that "
        f"{'one' if verifiers == 1 else f'one of {verifiers} separately trained verifiers'} alone pays, over that verifier's metric on a "
        "frozen pool of attempts; marks: resolved to unresolved attempts in training"
    )
    if "overconfident" in there.columns:
        said += ", and logits multiplied before they are paid (overconfident)"
    if len(there.starts) > 1:
        said += "; hollow: the other warm start"
    lines = {"before RL": "before RL", "execution alone pays": "after RL that execution alone pays"}
    return f"{said}; lines, one a start: pass@1 {', and '.join(lines[name] for name in BESIDE if name in there.lines)}"


def _said_of_relations(found: Answer) -> str:
    drawn = {block: of_metric for block, of_metric in found.relations.items() if of_metric}
    if not drawn:
        return "too few runs yet for a correlation"
    by = "after Holm's correction"
    if "execution_free" in drawn:
        by = f"AUC within task where a verifier alone pays by its p (the primary test), all others {by}"
    filled = any(found.shown(block, name) for block, of_metric in drawn.items() for name in of_metric)
    said = f"filled: shown, {by}" if filled else f"hollow: not shown ({by})"
    return f"Spearman's ρ within starts, 95 % bootstrap intervals over trainings; {said}"


def _said_of_causes(found: Answer) -> str:
    band = "the band is the margin of equivalence"
    if not found.causal:
        return f"no causal experiment has three RL seeds yet; {band}"
    seeds = {one.seeds for one in found.causal.values()}
    most = f"{min(seeds)} to {max(seeds)}" if len(seeds) > 1 else f"{max(seeds)}"
    said = (
        f"how pass@1 changes with a change of the reward, {most} RL seeds each, 90 % intervals over seeds and tasks; "
        f"{'filled: a difference is shown; ' if any(one.differs for one in found.causal.values()) else ''}{band}"
    )
    if any(name.startswith("unnormalised") for name in found.causal):
        said += " (unnormalised: advantages not divided by the group's standard deviation)"
    return said
