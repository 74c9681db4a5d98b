"""Which numbers of a report rest on so little that whoever reads them has to know it? The words that stand beside them."""

from collections.abc import Mapping
from typing import Any

from rmlab.wording import counted

FEW = 10
"""Fewer groups than this are counted beside a value that rests on them."""
WITHIN_TASK = ("auc_within_task", "auc_within_task_patches", "advantage_cosine", "advantage_cosine_all")
"""Metrics that are undefined without a task at which one policy has a resolved and an unresolved attempt."""


def few_mixed(report: Mapping[str, Any]) -> str:
    """`1 mixed task`: what within-task values rest on where that is little; "" where it is enough, or none.

    Of several policies each mixed pair of a task and a policy counts, as in `mixed_tasks`.
    """
    mixed = report.get("mixed_tasks", 0)
    return counted(mixed, "mixed task") if 0 < mixed < FEW else ""


def beside(report: Mapping[str, Any], name: str) -> str:
    """` (1 mixed task)` for a within-task value that rests on few; "" for any other."""
    few = few_mixed(report) if name in WITHIN_TASK and report.get(name) is not None else ""
    return f" ({few})" if few else ""
