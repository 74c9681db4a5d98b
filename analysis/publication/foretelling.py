"""Which offline metric of a verifier foretells what RL with it does? The answer of the study of that name, by its plan.

The plan is experiments/studies/which_metric_foretells_rl/README.md; nothing is chosen here. Top: the outcome over AUC within task and
over ECE, a point a run. Bottom: how strongly each metric orders the outcomes, ranks within a start; the causal experiments beside the
margin. The table says the same in words, what is missing, and what was left out for which reason.
"""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from analysis.foretelling.answer import Answer
from analysis.foretelling.answering import answer
from analysis.foretelling.causal import MARGIN, moved
from analysis.foretelling.estimates import FEWEST, METRICS
from analysis.foretelling.runs import PaidRun, Study, read_study
from analysis.foretelling.tables import markdown
from analysis.presentation import style
from analysis.presentation.captions import Caption, write_captions
from analysis.publication import foretelling_marks as marks
from analysis.registry import Needs, figure
from analysis.rl.policies import PolicyRun
from rmlab.files import write_text
from rmlab.wording import counted

NAME = "foretelling"
FAMILIES = {"calibration": "distortion", "unnormalised": "unnormalised"}
"""Causal comparisons of conditions that differ in ECE, and the block of each."""
NAMED = {
    "unnormalised": "shifted far up against recalibrated, both with advantages not divided by the group's standard deviation",
    "control": "-1 + 4 r is paid in place of the reward r",
    "within task": "the within-task part of a good verifier against that of a poor one",
    "difficulty": "the score with a term for the difficulty of the task against the score without",
}
"""Causal comparisons by the beginning of their names, as the caption explains them."""
DISTORTED = "rows with an ECE (on the frozen pool): scores of one verifier, distorted at equal ranks; "
SHOWN = "filled: shown to differ from 0"
HYBRIDS = "smaller and orange: a verifier and execution pay"


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
    found, changed, folder = answer(study), moved(study), out / "rl" / NAME
    with style.blank(style.TWO_COLUMNS, 5.2) as drawn:
        top, bottom = drawn.subfigures(2, 1, squeeze=False, height_ratios=(2.8, 2.4))[:, 0]
        axes = [*top.subplots(1, 2), *bottom.subplots(1, 2)]
        paths = style.save(drawn, folder, NAME, _panels(axes, study, found, changed))
    with style.blank(style.ONE_COLUMN, 9.0) as drawn:
        top, middle, bottom = drawn.subfigures(3, 1, squeeze=False, height_ratios=(4.7, 2.2, 2.1))[:, 0]
        _panels([*top.subplots(2, 1), middle.subplots(), bottom.subplots()], study, found, changed)
        paths.append(style.save_picture(drawn, folder / f"{NAME}_one_column.pdf"))
    table = [*found.rows(), *({"kind": "moved", **row} for row in changed)]
    write_text(folder / f"{NAME}_table.csv", style.csv_text(table))
    write_text(folder / f"{NAME}.md", markdown(study, found))
    captions = write_captions(folder, NAME, caption(study, found))
    return [*paths, folder / f"{NAME}_table.csv", folder / f"{NAME}.md", *captions]


def _panels(
    axes: Sequence[Any], study: Study, found: Answer, changed: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Draws all panels, and below the upper and the lower ones the legend that is theirs alone. changed: see `moved`."""
    over_auc, over_ece, metrics, causal = axes
    for axis in (over_auc, over_ece):
        axis.set_ylabel("pass@1 after RL")
    over_ece.sharey(over_auc)
    panels = [
        (over_auc, _points(over_auc, study, "auc_within_task"), "no run yet"),
        (over_ece, _points(over_ece, study, "ece_width_10"), "no run yet"),
        (metrics, _metrics(metrics, found), "too few runs yet"),
        (causal, _causal(causal, found, changed), "fewer than three seeds yet"),
    ]
    over_ece.label_outer()
    for axis, rows, why in panels:
        if not rows:
            axis.text(0.5, 0.5, why, transform=axis.transAxes, ha="center", va="center", color="0.3")
    is_wide = over_auc.get_subplotspec().get_gridspec().ncols > 1
    entries = marks.of_runs(study)
    if not is_wide:  # short names first, so that two columns fit
        entries = dict(sorted(entries.items(), key=lambda entry: len(entry[0])))
    _legend(over_auc, entries, 3 if is_wide else 2, marks.words(study, " " if is_wide else "\n"))
    _legend(metrics, marks.of_blocks(found), 2)
    return [row for _, rows, _ in panels for row in rows]


def _legend(axis: Any, entries: Mapping[str, Any], columns: int, title: str = "") -> None:
    """Below the panels that are laid out together with this one; of several marks of one entry each beside the other."""
    from matplotlib.legend_handler import HandlerTuple

    if entries:
        place = {"loc": "outside lower center", "handler_map": {tuple: HandlerTuple(ndivide=None, pad=0.4)}}
        part = axis.get_figure(root=False)
        part.legend(entries.values(), entries.keys(), ncols=columns, title=title or None, title_fontsize=7, **place)


def _points(axis: Any, study: Study, metric: str) -> list[dict[str, Any]]:
    """The outcomes of the factorial over a metric."""
    rows = list[dict[str, Any]]()
    for name, levels in marks.at_the_top(study).lines.items():
        for start, level in levels:
            axis.axhline(level, linestyle=marks.BESIDE[name][0], linewidth=0.7, color="black")
            rows.append({"panel": metric, "name": name, "start": start, "y": level})
    for run in (run for block in marks.BLOCKS for run in study.of(block)):
        block, x = run.cell["block"], run.verifier[metric]
        if x is None:
            continue
        look = {"marker": marks.LOOKS[run.cell["column"]][0], "linestyle": "", "color": marks.BLOCKS[block][0]}
        face = marks.face_of(run.cell["start"], block)
        axis.plot(x, run.outcome, markerfacecolor=face, markersize=marks.SIZES[block], **look)
        rows.append({"panel": metric, **_about(run), "x": x, "y": run.outcome})
    axis.set_xlabel(f"{METRICS[metric].name}, frozen pool")
    return rows


def _about(run: PaidRun) -> dict[str, Any]:
    return {name: run.cell[name] for name in ("name", "block", "start", "column", "amount", "seed")}


def _metrics(axis: Any, found: Answer) -> list[dict[str, Any]]:
    """Spearman's coefficient of each metric, alone and in the hybrid."""
    rows = []
    names = list(METRICS)
    there = {block: relations for block, relations in found.relations.items() if relations}
    for shift, (block, relations) in zip((0.15, -0.15) if len(there) > 1 else (0,), there.items(), strict=False):
        colour, mark = marks.BLOCKS[block]
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
    axis.set(
        xlabel="Spearman's ρ with pass@1" + (f"\n{SHOWN}" if rows else ""),
        xlim=(-1.05, 1.05),
        ylim=(-0.6, len(names) - 0.4),
    )
    return rows


def _causal(axis: Any, found: Answer, changed: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Differences of the causal experiments, in points, with 90 % intervals beside the margin."""
    rows, names, ece = [], list(found.causal), _ece(changed)
    axis.axvspan(-100 * MARGIN, 100 * MARGIN, color="0.9", lw=0)
    axis.axvline(0, color=style.REFERENCE, linewidth=0.6)
    for place, name in enumerate(names):
        one = found.causal[name]
        y = len(names) - 1 - place
        ends = [[100 * (one.difference - one.low)], [100 * (one.high - one.difference)]]
        face = "black" if one.differs else "white"
        look = {"fmt": "D", "markersize": 3.5, "elinewidth": 0.8, "color": "black", "markerfacecolor": face}
        axis.errorbar(100 * one.difference, y, xerr=ends, **look)
        rows.append(
            {"panel": "causal", "name": name, "x": one.difference, "low": one.low, "high": one.high, "words": one.words}
        )
    axis.set_yticks(range(len(names)), labels=[_cause(name, ece) for name in reversed(names)])
    words = f"{_reference(names, ece)}{SHOWN}" if names else ""
    axis.set(xlabel=f"change of pass@1, points\n{words}".strip(), ylim=(-0.6, max(len(names), 1) - 0.4))
    return rows


def _ece(changed: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """On the frozen pool, of the conditions of FAMILIES: by the name that its comparison has."""
    return {
        f"{family}: {row['condition']}": row["pool_ece_width_10"]
        for family, block in FAMILIES.items()
        for row in changed
        if row["block"] == block and row["pool_ece_width_10"] is not None
    }


def _cause(name: str, ece: Mapping[str, float]) -> str:
    """A comparison as the label of its row: what was done to the scores, and the ECE on the frozen pool where it differs by that."""
    family, _, own = name.partition(": ")
    if name not in ece:
        return name.replace("_", " ")
    what = own if family == "calibration" else family  # the other family is of one condition, which the caption names
    return f"{what.replace('_', ' ')} (ECE {ece[name]:.2f})"


def _reference(names: Sequence[str], ece: Mapping[str, float]) -> str:
    """Lines of the axis: what conditions are compared with. Comparisons of the difficulty experiment name both sides themselves."""
    families = {name.partition(": ")[0] for name in names}
    if not families & {*FAMILIES, "control"}:
        return ""
    known = ece.get("calibration: recalibrated", ece.get("unnormalised: recalibrated"))
    of_pool = "" if known is None else f"(ECE {known:.2f})"
    if families <= {*FAMILIES, "control"}:
        return f"{f'against recalibrated {of_pool}'.strip()}\n"
    # two lines that are alike in length: the longer labels of these rows leave the panel little width
    return f"against recalibrated\n{f'{of_pool} or as rows say'.strip()}\n"


def _of_design(verifiers: int) -> str:
    """What stands before the faults of the design; too few verifiers may have an outcome to judge it."""
    return "Not as planned" if verifiers >= FEWEST else "The design cannot be judged by these runs yet"


def caption(study: Study, found: Answer) -> Caption:
    """What a reader of the figure alone has to know: of marks, lines and panels what is drawn."""
    free, hybrid = len(study.of("execution_free")), len(study.of("hybrid"))
    return Caption(
        found.sentences[0],
        f"Top: {_said_of_points(study)}. Bottom left: {_said_of_relations(found)}. Bottom right: {_said_of_causes(study, found)}.",
        f"n = {counted(free, 'verifier')}{' alone' if hybrid else ''}{f', {hybrid} beside execution' if hybrid else ''}, one RL seed each; "
        f"left out, and named in {NAME}.md: {counted(len(study.left_out), 'cell or run', 'cells or runs')}."
        + (f" {_of_design(free)}: {' '.join(found.faults)}" if found.faults else ""),
    )


def _said_of_points(study: Study) -> str:
    there, verifiers, hybrids = marks.at_the_top(study), len(study.of("execution_free")), study.of("hybrid")
    if not verifiers:
        return f"no run yet that a verifier alone pays{f'; {HYBRIDS}' if hybrids else ''}"
    said = (
        "pass@1 of the policy (sampled, four attempts at each held-out task without two-bug ones) after 60 steps of RL that "
        f"{'one' if verifiers == 1 else f'one of {verifiers} separately trained verifiers'} alone pays, over that verifier's metric on a "
        "frozen pool of attempts; marks: resolved to unresolved attempts in training"
    )
    if "overconfident" in there.columns:
        said += ", and logits multiplied before they are paid (overconfident)"
    if len(there.starts) > 1:
        said += f"; {marks.said_of_fills(there.starts)}"
    if hybrids:
        said += f"; {HYBRIDS}"
    for name, levels in there.lines.items():
        line, words = {":": "dotted", "--": "dashed"}[marks.BESIDE[name][0]], marks.BESIDE[name][1]
        said += f"; {line}: pass@1 {words} ({', '.join(f'start {start}: {level:.3f}' for start, level in levels)})"
    if {run.start for run in hybrids} - {run.start for run in study.of("execution_free")}:
        said += "; for runs in orange a start was trained again, and the lines are not of it"
    return said


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


def _said_of_causes(study: Study, found: Answer) -> str:
    band = "the band is the margin of equivalence"
    if not found.causal:
        return f"no causal experiment has three RL seeds yet; {band}"
    seeds = {one.seeds for one in found.causal.values()}
    most = f"{min(seeds)} to {max(seeds)}" if len(seeds) > 1 else f"{max(seeds)}"
    said = (
        f"how pass@1 changes with a change of the reward, {most} RL seeds each, 90 % intervals over seeds and tasks; "
        f"{DISTORTED if found.causal.keys() & _ece(moved(study)).keys() else ''}"
        f"{'filled: a difference is shown; ' if any(one.differs for one in found.causal.values()) else ''}{band}"
    )
    named = [
        f"{name}: {words}"
        for name, words in NAMED.items()
        if any(comparison.startswith(name) for comparison in found.causal)
    ]
    return f"{said} ({'; '.join(named)})" if named else said
