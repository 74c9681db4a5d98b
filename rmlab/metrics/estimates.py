"""The value of every metric of one table, without its uncertainty."""

import numpy as np

from rmlab.metrics import registry
from rmlab.metrics.definitions import DEFINITIONS, Report, by_k, number
from rmlab.metrics.table import Table
from rmlab.metrics.weighted import Combined


def estimates(table: Table) -> Report:
    """The value of every metric: by its definition, else by its statistic with weights of 1; None = undefined."""
    measured: Report = {}
    for definition in DEFINITIONS:
        measured |= definition(table)
    for metric in registry.METRICS:
        if metric.less is not None:
            value, floor = (measured[name] for name in metric.less)
            measured[metric.name] = None if value is None or floor is None else value - floor
    missing = [metric for metric in registry.METRICS if metric.name not in measured]
    combined = Combined(table, list(dict.fromkeys(metric.statistic for metric in missing if metric.statistic)))
    values = combined.values(np.ones((1, table.clusters)))
    for metric in missing:
        value_1 = values.get(metric.name)
        if value_1 is None:
            measured[metric.name] = None
        elif metric.by_k:
            measured[metric.name] = by_k(combined.sizes[metric.name], map(number, value_1[0]))
        else:
            measured[metric.name] = number(value_1[0])
    return measured
