"""The table of a sweep: what was measured at each level, with intervals, and every baseline beside it."""

from functools import partial
from pathlib import Path
from typing import Any

from analysis.presentation import style
from analysis.presentation.metric_names import SCALARS
from analysis.registry import Needs, figure
from analysis.sweep import level_tests, rules
from analysis.sweep.tracked import FinishedCell, SweepRuns, dig, mean_over_seeds
from rmlab.files import write_text
from rmlab.metrics import thin
from rmlab.wording import estimate, number

_number = partial(number, absent="")

Row = dict[str, Any]


@figure(
    "What was measured at each level, with intervals, and what do the baselines reach (`table.csv`, `table.md`)?",
    Needs.sweep,
)
def draw(sweep: SweepRuns, out: Path) -> list[Path]:
    """Writes table.{csv,md}."""
    paths = [sweep.folder(out) / "table.csv", sweep.folder(out) / "table.md"]
    for path, text in zip(
        paths, (style.csv_text([*rows(sweep), *baseline_rows(sweep)]), as_markdown(sweep)), strict=True
    ):
        write_text(path, text)
    return paths


def shown_k(group: SweepRuns) -> list[str]:
    """The k of the table: 8, where there are so many attempts, and the most."""
    return list(
        dict.fromkeys(
            [k for k in group.cells[0].report[group.reported("rm_at_k")] if k == "8"] + [level_tests.largest_k(group)]
        )
    )


def scalars(group: SweepRuns) -> dict[str, str]:
    """Those of SCALARS that the runs report: that of patches only where patches are known."""
    by_patch = group.cells[0].report.get("auc_within_task_patches") is not None
    return {name: words for name, words in SCALARS.items() if by_patch or name != "auc_within_task_patches"}


def weighted(group: SweepRuns) -> dict[str, str]:
    """The largest k to its column, where the patch with the largest sum of scores can be picked: patches are known."""
    curve = group.cells[0].report.get("rm_at_k_weighted")
    return {
        k: f"rm_at_{k}_weighted" for k in [level_tests.largest_k(group)] if curve and k in curve and not group.across
    }


def beside_across(group: SweepRuns) -> dict[str, tuple[str, ...]]:
    """Columns of values across policies, each with its path into a report, where hardly any task is mixed within a policy; {} elsewhere.

    Where only those are defined (`SweepRuns.across`) they stand in the place of the others, and not beside them.
    """
    report = group.cells[0].report
    if group.across or not thin.shows_across(report):
        return {}
    k = max(report["rm_at_k_across"], key=int)
    return {f"rm_at_{k}_across": ("rm_at_k_across", k), "auc_within_task_across": ("auc_within_task_across",)}


def across_words(path: tuple[str, ...]) -> str:
    """A metric across policies as tables name it."""
    words = f"RM@{path[1]}" if len(path) > 1 else SCALARS["auc_within_task"]
    return f"{words} across policies"


def rows(group: SweepRuns) -> list[Row]:
    """One row an arm and level: mean over the seeds of each metric (`NAME`) and of its interval's ends (`NAME_low`, `NAME_high`)."""
    found = []
    for arm in group.arms:
        for level in group.levels:
            cells = group.at(level, arm)
            if cells:
                row: Row = {"arm": arm, "level": level, "seeds": len(cells)}
                for k in shown_k(group):
                    row |= _measured(cells, group.reported("rm_at_k"), k, name=f"rm_at_{k}")
                for curve, name in weighted(group).items():
                    row |= _measured(cells, "rm_at_k_weighted", curve, name=name)
                for name in scalars(group):
                    row |= _measured(cells, group.reported(name), name=name)
                for name, path in beside_across(group).items():
                    row |= _measured(cells, *path, name=name)
                row |= level_tests.columns(group, arm, level)
                row["ece_noise_floor_task_p95"] = _measured(cells, "ece_noise_floor_task_p95", name="p95")["p95"]
                found.append(row)
    return found


def baseline_rows(group: SweepRuns) -> list[Row]:
    """One row a baseline that could be computed, its name in the place of the level; no arm, no seeds, no intervals.

    Where levels judge other attempts or other evidence: a row for each of its values, with the levels that it holds for.
    """
    found: list[Row] = []
    for name in group.cells[0].baselines:
        of_level = {level: _baseline(group, report) for level, report in rules.of_levels(group, name).items()}
        found += [{"arm": "", "level": f"{name}{one.where}"} | one.value for one in rules.shared(of_level)]
    return found


def _baseline(group: SweepRuns, report: dict[str, Any]) -> Row | None:
    curve = report.get(group.reported("rm_at_k")) or {}
    values = {f"rm_at_{k}": curve.get(k) for k in shown_k(group)}
    values |= {column: (report.get("rm_at_k_weighted") or {}).get(k) for k, column in weighted(group).items()}
    values |= {metric: report.get(group.reported(metric)) for metric in scalars(group)}
    values |= {name: dig(report, path) for name, path in beside_across(group).items()}
    return values if any(value is not None for value in values.values()) else None


def _measured(cells: list[FinishedCell], *path: str, name: str) -> Row:
    point, low, high = mean_over_seeds(cells, *path) or (None, None, None)
    ends = (low, high) if low == low else (None, None)  # NaN: no interval was computed
    return {name: point, f"{name}_low": ends[0], f"{name}_high": ends[1]}


def as_markdown(group: SweepRuns) -> str:
    """The rows, the baselines under them, what differs from the baseline level, and which rules its levels do not beat."""
    ks = shown_k(group)
    across = " across policies" if group.across else ""
    names = {
        **{f"rm_at_{k}": f"RM@{k}{across}" for k in ks},
        **{name: f"RM@{k} by sum of scores" for k, name in weighted(group).items()},
        **scalars(group),
        "auc_within_task": f"{SCALARS['auc_within_task']}{across}",
        **{name: across_words(path) for name, path in beside_across(group).items()},
    }
    arms = len(group.arms) > 1
    head = [*(["arm"] if arms else []), group.factor, "seeds", *names.values(), "ECE by chance (95 %)"]
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    found = rows(group)
    for row in found:
        cells = group.at(row["level"], row["arm"])
        values = [f"{_with_interval(row, name)}{on_few(cells, name)}" for name in names]
        first = [*([row["arm"]] if arms else []), row["level"], str(row["seeds"])]
        lines.append(f"| {' | '.join([*first, *values, _number(row['ece_noise_floor_task_p95'])])} |")
    for row in baseline_rows(group):
        values = [_number(row[name]) for name in names]
        name = f"*{row['level']}*"
        lines.append(f"| {' | '.join([*([''] if arms else []), name, '', *values, ''])} |")
    of_k = [text for k in ks for text in beside_rules_at_k(group, k)]
    on_across = [
        text for path in beside_across(group).values() for text in rules.sentences(group, across_words(path), *path)
    ]
    sentences = [f"- {text}" for text in (*of_k, *beside_rules_auc(group), *on_across, *group.cautions())]
    return "\n".join([*lines, "", level_tests.as_markdown(group), *sentences]) + "\n"


def beside_rules_at_k(group: SweepRuns, k: str) -> list[str]:
    """Which rules the levels' best of k does not lie above, a sentence an arm."""
    return rules.sentences(group, f"RM@{k}", group.reported("rm_at_k"), k)


def beside_rules_auc(group: SweepRuns) -> list[str]:
    """The same of the within-task AUC."""
    return rules.sentences(group, "AUC within task", group.reported("auc_within_task"))


def on_few(cells: list[FinishedCell], metric: str) -> str:
    """` (1 mixed task)` beside a within-task value that rests on few in one of the seeds; "" elsewhere."""
    fewest = min((cell.report for cell in cells), key=lambda report: report.get("mixed_tasks", 0))
    return thin.beside(fewest, metric)


def _with_interval(row: Row, name: str) -> str:
    return estimate(row[name], (row.get(f"{name}_low"), row.get(f"{name}_high")), absent="")
