"""Views that every experiment has in the MLflow UI from the start: which columns, which charts, grouped how.

The UI keeps a saved view as a tag of the experiment: `mlflow.sharedViewState.KEY` holds its name and, deflated, the state of
the page. A view is chosen under "Views", or by a link that ends in `&viewStateShareKey=KEY`. As MLflow 3.17 writes them; a UI
that cannot read one shows its default.

Runs are compared by a few headline metrics: short names that a column shows in full, values of three digits. The exact values stand
under their full names (`eval/auc_within_task`); a headline metric is logged with them (`auc_task`), first of all since it has no group.
A run of an earlier version, or out of a bundle of one, gets them when it is read or carried.
"""

import base64
import json
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

from rmlab.tracking.config import LEVEL_NUMBER

EVALUATION = {
    "rm_at_k": "rm_at_k",
    "auc_within_task": "auc_task",
    "auc_pooled": "auc",
    "ece_width_10": "ece",
    "ece_less_floor": "ece_excess",
    "brier": "brier",
}
"""Names of a report (rmlab.metrics.registry) to short ones, in the order in which they are shown."""

HEADLINE = {f"eval/{name}": short for name, short in EVALUATION.items()} | {
    "rl/pass_at_1": "pass_at_1",
    "rl/hacking_gap": "hacking_gap",
    "outcome/all_greedy_difference": "gained",
    "outcome/all_sampled_difference": "gained_sampled",
}
"""Names of tracked metrics to short ones."""

OF_RL = {
    "pass_at_1": "pass_at_1 is of sampled attempts at validation tasks, at the last evaluation",
    "hacking_gap": "hacking_gap is of the same attempts",
    "gained": "gained is pass@1 on held-out tasks after training less before, greedy (one attempt a task)",
    "gained_sampled": "gained_sampled is the same of sampled attempts",
}
"""What the headline metrics of RL are of, which their short names do not say."""

DIGITS = 3


def headline(values: Mapping[str, float | None]) -> dict[str, float]:
    """The headline metrics of some metrics by their full names; what is undefined, or there already, is left out."""
    found = {HEADLINE[name]: value for name, value in values.items() if name in HEADLINE and value is not None}
    return {short: rounded(value) for short, value in found.items() if short not in values}


def rounded(value: float) -> float:
    """To three significant digits."""
    return float(f"{value:.{DIGITS}g}")


PREFIX = "mlflow.sharedViewState."
TABLE, CURVES, ARMS = "rmlab-table", "rmlab-levels", "rmlab-arms"
PRESETS, ARMS_PRESETS = "rmlab-levels-presets", "rmlab-arms-presets"
LEVELS = (CURVES, ARMS, PRESETS, ARMS_PRESETS)
"""Keys of the views; LEVELS: of those with charts."""

COLUMNS = (
    "tags.`level`",
    "tags.`preset`",
    *(f"metrics.`{short}`" for short in HEADLINE.values()),
    "params.`seed`",
    "tags.`status`",
    "attributes.`Duration`",
)
NAME = "attributes.`Run Name`"
WIDTHS = {NAME: 212, "tags.`level`": 105, "tags.`preset`": 70, "metrics.`brier`": 70, "params.`seed`": 60} | {
    f"metrics.`{short}`": 80 for short in ("rm_at_k", "auc", "ece")
}
"""Pixels of columns that need more or less room than the UI gives each: so the headline stands in a window of 1440."""
BY_LEVEL = " by level"
"""End of the name of a chart that has the level on its axis, a dot a run; the others are named as their metric."""
SECTIONS = {
    "Evaluation": (
        "rm_at_k",
        f"auc_task{BY_LEVEL}",
        f"ece{BY_LEVEL}",
        "auc_task",
        "ece",
        "brier",
        "eval/rm_at_k_weighted",
        f"rm_at_k{BY_LEVEL}",
        "auc",
    ),
    "Validation": ("validation/rm_at_k", "validation/auc_within_task", "validation/ece_width_10"),
    "Training": ("train/loss", "train/learning_rate", "train/tokens_per_second"),
    "Reinforcement learning": (
        "rl/pass_at_1",
        "rl/pass_at_1_greedy",
        "rl/hacking_gap",
        "rl/true_rate",
        "rl/mean_score",
        "rl/reward",
        "rl/verifier_auc_within_task",
        "rl/kl_to_start",
    ),
}
SERIES = (
    "rm_at_k",
    "eval/rm_at_k",
    "validation/rm_at_k",
    "train/",
    "rl/",
)  # drawn over their steps; the others are bars
GOING = "tags.continued_by IS NULL and tags.replaced_by IS NULL"
"""Leaves out runs that were stopped, killed or failed where a later run of the same configuration went on or tried again, and runs that
another one replaced: a cell is shown once."""
MEASURED = f"tags.kind != 'summary' and {GOING} and tags.status != 'failed'"
"""Leaves out what is no run of a level, too: summaries, and cells that failed, which `rmlab figures` does not count either."""
MANY = 100  # runs or groups that a chart shows


def view_tags(searched: Sequence[str] = ()) -> dict[str, str]:
    """Tags of an experiment that hold the views.

    TABLE: one line a run, the headline metrics beside its level and seed; of a search, beside the parameters that it searches.
    What another run went on with is left out. CURVES: the charts that matter, every level as one line, the mean of its seeds, without
    failed runs; ARMS: the same, every level in each arm as one line. PRESETS, ARMS_PRESETS: these two with a line for each preset, whose
    runs are of another size and share no mean. A search has none of the four.
    """
    columns = [*(f"params.`{name}`" for name in searched), *COLUMNS]
    shown = {"selectedColumns": columns, "columnOrder": [NAME, *columns], "columnWidths": WIDTHS}
    by_level = {"orderByKey": f"metrics.`{LEVEL_NUMBER}`", "orderByAsc": True}
    if searched:
        table = _state(**shown, orderByKey="tags.`mlflow.runName`", orderByAsc=True, searchFilter=GOING)
        return {f"{PREFIX}{TABLE}": _tag("Trials: parameters and headline metrics", table)}
    table = _state(**shown, **by_level, searchFilter=GOING)

    def curves(*tags: str) -> dict[str, Any]:
        keys = [{"mode": "tag", "groupByData": tag} for tag in tags]
        grouped = {"aggregateFunction": "average", "groupByKeys": keys}
        return _state(**shown, **by_level, groupBy=grouped, searchFilter=MEASURED)

    return {
        f"{PREFIX}{TABLE}": _tag("Runs: headline metrics", table),
        f"{PREFIX}{CURVES}": _tag("Levels: best of k and more", curves("level")),
        f"{PREFIX}{ARMS}": _tag("Levels by arm: best of k and more", curves("level", "arm")),
        f"{PREFIX}{PRESETS}": _tag("Levels by preset: best of k and more", curves("level", "preset")),
        f"{PREFIX}{ARMS_PRESETS}": _tag(
            "Levels by arm and preset: best of k and more", curves("level", "arm", "preset")
        ),
    }


def levels_view(arms: bool, presets: bool) -> str:
    """The key of the view that compares levels. arms, presets: whether an experiment has runs with arms, and of several presets."""
    return {(False, False): CURVES, (True, False): ARMS, (False, True): PRESETS, (True, True): ARMS_PRESETS}[
        arms, presets
    ]


def is_ours(tag: str | None) -> bool:
    """Whether a view's tag is as it was made here, and not saved by somebody in the UI, which notes the time."""
    try:
        return tag is not None and json.loads(tag)["updatedAt"] == 0
    except (ValueError, KeyError, TypeError):
        return False


def _state(**changes: Any) -> dict[str, Any]:
    charts = [_chart(metric, section) for section, metrics in SECTIONS.items() for metric in metrics]
    sections = [
        {
            "uuid": _uuid(name),
            "name": name,
            "display": True,
            "isReordered": False,
            "deleted": False,
            "isGenerated": False,
        }
        for name in SECTIONS
    ]
    return {
        "searchFilter": "",
        "orderByKey": "attributes.start_time",
        "orderByAsc": False,
        "startTime": "ALL",
        "lifecycleFilter": "Active",
        "datasetsFilter": [],
        "modelVersionFilter": "All Runs",
        "selectedColumns": [],
        "columnOrder": [],
        "columnWidths": {},
        "runsHiddenMode": "SHOWALL",
        "compareRunCharts": charts,
        "compareRunSections": sections,
        "viewMaximized": False,
        "runListHidden": False,
        "isAccordionReordered": True,
        "useGroupedValuesInCharts": True,
        "hideEmptyCharts": True,
        "groupBy": None,
        "groupsExpanded": {},
        "globalLineChartConfig": {"xAxisKey": "step", "lineSmoothness": 0, "selectedXAxisMetricKey": ""},
    } | changes


def _chart(name: str, section: str) -> dict[str, Any]:
    metric = name.removesuffix(BY_LEVEL)
    chart = {
        "uuid": _uuid(name),
        "runsCountToCompare": MANY,
        "metricSectionId": _uuid(section),
        "deleted": False,
        "isGenerated": False,
    }
    if name != metric:
        axes = {"xaxis": {"key": LEVEL_NUMBER, "type": "METRIC"}, "yaxis": {"key": metric, "type": "METRIC"}}
        return chart | axes | {"type": "SCATTER"}
    chart |= {
        "metricKey": metric,
        "displayName": f"{metric.rpartition('/')[2]}{' over k' if metric.endswith('rm_at_k') else ''}",
    }
    if not metric.startswith(SERIES):
        return chart | {"type": "BAR"}
    return chart | {
        "type": "LINE",
        "lineSmoothness": 0,
        "scaleType": "linear",
        "xAxisScaleType": "log" if metric.endswith("_at_k") else "linear",
        "range": {},
        "xAxisKey": "step",
        "selectedXAxisMetricKey": "",
        "yAxisKey": "metric",
        "yAxisExpressions": [],
        "ignoreOutliers": False,
        "useGlobalXaxisKey": False,
        "useGlobalLineSmoothing": True,
    }


def _uuid(name: str) -> str:
    return f"rmlab-{name.replace('/', '-').replace(' ', '-').lower()}"


def _tag(name: str, state: dict[str, Any]) -> str:
    packed = base64.b64encode(zlib.compress(json.dumps(state, separators=(",", ":")).encode(), 9)).decode()
    return json.dumps({"name": name, "createdAt": 0, "updatedAt": 0, "state": f"deflate;{packed}"})
