"""Which of several policies' attempts does a verifier pick, is that better than always the better policy, and what of a policy
that it never saw?

Left: best of k across policies, where every policy has one attempt at a task. Always the better policy (known from the
repositories that are not judged) is the rule to beat. Middle and right: pooled AUC and ECE of the attempts of all policies that
may be trained on, of each alone, and of those never seen. A dash beside each ECE is what calibrated scores reach by chance.
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from analysis.presentation import style
from analysis.registry import Needs, figure
from analysis.sweep import level_tests, rules
from analysis.sweep.tracked import FinishedCell, SweepRuns, mean_over_seeds
from rmlab.metrics import thin
from rmlab.scores.table import read_score_table
from rmlab.wording import estimate

if TYPE_CHECKING:
    from rmlab.metrics.sweep_levels import LevelTest

RULES = {
    "policy_identity": ("black", "-", "always the better policy"),
    "length": ("0.45", (0, (3, 1, 1, 1, 1, 1)), "length"),
    "shape": ("0.45", (0, (1, 1)), "shape"),
    "random": (style.REFERENCE, ":", "any attempt"),
    "oracle": (style.REFERENCE, "--", "a perfect verifier"),
}
FLOOR = "ece_noise_floor_task_p95"
Row = dict[str, Any]


def lacks(sweep: SweepRuns) -> str:
    """What the runs lack for this figure: one attempt of each policy a task, and reports by policy; "" where they have both."""
    if not sweep.across:
        report = sweep.cells[0].report
        if report["policies"] < 2:
            return "the attempts judged are of one policy."
        there = " Values across policies stand in figure sweep_table." if thin.shows_across(report) else ""
        return (
            "it is drawn where each policy has one attempt at a task, and here a policy has up to "
            f"{level_tests.largest_k(sweep)} attempts at a task.{there}"
        )
    if any("folds" not in cell.run.tags for cell in sweep.cells):
        return (
            "its runs do not report by policy, as those of program `cross_validate` do. Values across policies stand in figure "
            "sweep_table."
        )
    return ""


@figure(
    "When each policy has one attempt at a task, which one does the verifier pick, compared with always taking the "
    "better policy's? And how does it do on a policy that it never saw?",
    Needs.sweep,
    lacks,
)
def draw(sweep: SweepRuns, out: Path) -> list[Path]:
    """Draws across_policies.{pdf,png,csv} into the sweep's folder below `out`; nothing where a policy has several attempts at a task,
    or where the runs do not report by policy."""
    if lacks(sweep):
        return []
    k = level_tests.largest_k(sweep)
    rows: list[Row] = []
    with style.figure(1, 3, 3.5, 3.9) as (drawn, axes):
        picked, auc, ece = axes[0]
        place = style.level_axis(list(axes[0]), sweep.levels, {})
        _picks(picked, sweep, k, place, rows)
        picked.set(
            title=f"Best of {k} across policies", ylabel="resolved share of the picked attempts", xlabel=sweep.factor
        )
        for axis, metric, title in ((auc, "auc_pooled", "AUC pooled"), (ece, "ece_width_10", "ECE (10 bins)")):
            _by_policy(axis, sweep, metric, place, rows)
            axis.set(title=title, xlabel=sweep.factor)
        auc.axhline(0.5, color=style.REFERENCE, linestyle=":", linewidth=1, label=style.CHANCE)
        ece.set_ylim(bottom=0)
        drawn.legend(
            *picked.get_legend_handles_labels(),
            loc="outside upper left",
            ncols=3,
            title="picked by rule",
            title_fontsize=7,
        )
        drawn.legend(
            *auc.get_legend_handles_labels(),
            loc="outside upper right",
            ncols=2,
            title="whose attempts are judged",
            title_fontsize=7,
        )
        tests = beside_the_better_policy(sweep)
        rows += [
            {
                "panel": "difference from always the better policy",
                "level": t.level,
                "value": t.difference,
                "low": t.ci95 and t.ci95[0],
                "high": t.ci95 and t.ci95[1],
                "p": t.p,
                "p_holm": t.p_holm,
                "detectable": t.detectable,
                "detectable_holm": t.detectable_holm,
            }
            for t in tests
        ]
        marks = (
            "Marks: mean over seeds; bars: their 95 % intervals over repositories, averaged; dots: single seeds. Grey dashes: "
            "the 95th percentile of the ECE that calibrated scores reach by chance."
        )
        style.footnote(drawn, f"{sweep.foot()}\n{marks}\n{' '.join(sentences(tests, k))}\n{level_tests.note(sweep)}")
        return style.save(drawn, sweep.folder(out), "across_policies", rows)


def beside_the_better_policy(sweep: SweepRuns) -> "list[LevelTest]":
    """Best of the most attempts at each level less that of always the better policy, paired; Holm over the levels."""
    from rmlab.metrics.sweep_levels import compare_levels, holm

    arm = sweep.arms[0]
    tables = {level: {cell.seed: cell.compared for cell in sweep.at(level, arm)} for level in sweep.levels}
    cell = sweep.cells[0]
    rule = read_score_table(cell.run.artifact("policy_identity_scores.parquet"))
    rule = replace(rule, policy=np.full(len(rule), ""))
    tests = compare_levels(
        [rule] * len(sweep.seeds), {level: [of.get(seed) for seed in sweep.seeds] for level, of in tables.items()}
    )
    return holm([replace(test, p_holm=None) for test in tests if test.metric == "rm_at_k"])


def sentences(tests: "list[LevelTest]", k: str) -> list[str]:
    """What may be said of each level beside that rule."""
    said = []
    for test in tests:
        value = estimate(test.difference, test.ci95, signed=True, absent="undefined")
        power = (
            "" if test.shown or test.p is None else f"; 80 % power from {level_tests.power(test)}, alone / after Holm"
        )
        said.append(
            f"RM@{k} at {test.level} less always the better policy: {value} ({level_tests.verdict(test)}{power})."
        )
    return said


def _picks(axis: Any, sweep: SweepRuns, k: str, place: dict[str, float], rows: list[Row]) -> None:
    for name, (colour, dashes, words) in RULES.items():
        look = {"color": colour, "linestyle": dashes, "linewidth": 1, "label": words}
        drawn = rules.draw_over_levels(axis, sweep, name, ("rm_at_k_across", k), place, **look)
        rows += [
            {"panel": f"rm_at_{k}_across", "group": f"baseline {name}{one.where}", "value": one.value} for one in drawn
        ]
    for level in sweep.levels:
        cells = sweep.at(level, sweep.arms[0])
        values = [
            (cell, cell.report["rm_at_k_across"][k], (cell.report["ci95"].get("rm_at_k_across") or {}).get(k))
            for cell in cells
        ]
        triple = mean_over_seeds(cells, "rm_at_k_across", k)
        _mark(
            axis,
            place[level],
            triple,
            values,
            "#0072B2",
            "o",
            "",
            rows,
            {"panel": f"rm_at_{k}_across", "group": "verifier", "level": level},
        )


def _by_policy(axis: Any, sweep: SweepRuns, metric: str, place: dict[str, float], rows: list[Row]) -> None:
    """A mark a level and group of attempts, side by side."""
    groups = list(_groups(sweep))
    for number, (words, colour, marker) in enumerate(groups):
        shift = (number - (len(groups) - 1) / 2) * 0.17
        for i, level in enumerate(sweep.levels):
            cells = sweep.at(level, sweep.arms[0])
            found = [(cell, _report(cell, words)) for cell in cells]
            defined = [(cell, r[metric], r["ci95"].get(metric)) for cell, r in found if r[metric] is not None]
            ends = np.array([interval or (np.nan, np.nan) for _, _, interval in defined], dtype=float).reshape(-1, 2)
            triple = (float(np.mean([v for _, v, _ in defined])), *map(float, ends.mean(axis=0))) if defined else None
            _mark(
                axis,
                place[level] + shift,
                triple,
                defined,
                colour,
                marker,
                words if i == 0 else "",
                rows,
                {"panel": metric, "group": words, "level": level},
            )
            if metric == "ece_width_10":
                floors = [r[FLOOR] for _, r in found if r[FLOOR] is not None]
                if floors:
                    axis.plot(place[level] + shift, np.mean(floors), "_", color="0.35", markersize=9)
                    rows.append({"panel": FLOOR, "group": words, "level": level, "value": float(np.mean(floors))})


def _mark(
    axis: Any,
    x: float,
    triple: tuple[float, ...] | None,
    values: list[tuple[FinishedCell, float, Any]],
    colour: str,
    marker: str,
    label: str,
    rows: list[Row],
    where: Row,
) -> None:
    if triple is None:
        return
    middle, low, high = triple
    whiskers = [[max(middle - low, 0)], [max(high - middle, 0)]] if low == low else None
    axis.errorbar(
        x,
        middle,
        yerr=whiskers,
        color=colour,
        marker=marker,
        markersize=4.5,
        elinewidth=0.9,
        capsize=2,
        linestyle="none",
        label=label or None,
    )
    for cell, value, interval in values:
        axis.plot(x + 0.06, value, ".", color=colour, markersize=3, alpha=0.7)
        low_end, high_end = interval or (None, None)
        rows.append(
            {**where, "seed": cell.seed, "value": value, "low": low_end, "high": high_end, "run_id": cell.run.run_id}
        )


def _groups(sweep: SweepRuns) -> Iterator[tuple[str, str, str]]:
    """(whose attempts, colour, marker): all that are trained on together, each alone, each that is never seen."""
    cell = sweep.cells[0]
    seen = {str(policy) for policy in cell.scores.policy}
    yield TOGETHER, "black", "o"
    for number, policy in enumerate(sorted(_by_policies(cell), key=lambda name: (name not in seen, name))):
        yield policy + ("" if policy in seen else NEVER), style.WORDS[number % 6], "s" if policy in seen else "x"


TOGETHER, NEVER = "together", " (never seen)"


def _report(cell: FinishedCell, words: str) -> dict[str, Any]:
    found: dict[str, Any] = cell.report if words == TOGETHER else _by_policies(cell)[words.removesuffix(NEVER)]
    return found


def _by_policies(cell: FinishedCell) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(cell.run.artifact("by_policy.json").read_text(encoding="utf-8"))
    return loaded
