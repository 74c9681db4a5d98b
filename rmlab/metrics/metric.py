"""What the registry says of one metric."""

from dataclasses import dataclass

from rmlab.metrics.uncertainty import Rule
from rmlab.metrics.weighted import Statistic


@dataclass(frozen=True)
class Metric:
    """name: in the report, in `ci95` and, as `eval/NAME`, in MLflow. meaning: one line.

    section, label: where and how it stands in the tables of a report, a curve as a column and any other as a row; no label = not
    there. note: beside it.
    statistic: gives it under weights of clusters, so that it has an interval; None = it has none. rule: of that interval.
    by_k: it is a curve over k. compared: whether its statistic holds for the weights 0 and 1 of a paired comparison too.
    less: (metric, floor), where it is the one less the other; its interval follows from the replicates of the first.
    """

    name: str
    meaning: str
    section: str = ""
    label: str = ""
    note: str = ""
    statistic: type[Statistic] | None = None
    rule: Rule = Rule.PERCENTILE
    by_k: bool = False
    compared: bool = True
    less: tuple[str, str] | None = None
