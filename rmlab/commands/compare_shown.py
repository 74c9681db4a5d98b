"""The tables that `rmlab compare` prints of two score tables and of two policies."""

from collections.abc import Sequence
from typing import Any

from rmlab.wording import counted, listed, number

SHOWN = (
    "rm_at_k",
    "rm_at_k_weighted",
    "auc_within_task",
    "auc_within_task_patches",
    "auc_within_task_across",
    "auc_pooled",
    "ece_width_10",
    "ece_less_floor",
    "brier",
    "log_loss",
    "advantage_cosine",
)


def show_scores(compared: dict[str, Any]) -> None:
    """A line a metric of `rmlab.metrics.compare.compare`, and what p is."""
    from rich.console import Console
    from rich.table import Table

    from rmlab.console_table import print_table
    from rmlab.metrics.thin import few_clusters

    console = Console(highlight=False, markup=False)
    title = counted(compared["trajectories"], "attempt")
    table = Table("metric", "A", "B", "A - B", "95 %", "p", title=title, title_justify="left")
    for name in SHOWN:
        values = compared["metrics"].get(name) or {}
        curve = "difference" not in values
        for k, value in sorted(values.items(), key=lambda pair: int(pair[0])) if curve else [("", values)]:
            ends = value["ci95"]
            table.add_row(
                name.replace("_k", f"_{k}") if curve else name,
                *(number(value[key], 4) for key in ("a", "b", "difference")),
                f"{ends[0]:+.4f} to {ends[1]:+.4f}" if ends else "",
                number(value["p"], 4),
            )
    print_table(console, table)
    for line in few_clusters(compared["clusters"]):
        console.print(line, soft_wrap=not console.is_terminal)
    console.print(
        f"p: two-sided, from {compared['swaps']:,} swaps of whole clusters ({compared['clusters']:,}); for pooled AUC and ECE, which mix "
        f"clusters, from {compared['replicates']:,} resamples. One comparison, no correction.",
        style="dim",
        soft_wrap=not console.is_terminal,
    )


def show_policies(rates: dict[str, Any], without: Sequence[str] = ()) -> None:
    """A line a held-out benchmark of `rmlab.rl.held_out.compare_policies`. without: benchmarks that `all` leaves out."""
    from rich.console import Console
    from rich.table import Table

    from rmlab.console_table import print_table
    from rmlab.metrics.uncertainty import too_few

    console = Console(highlight=False, markup=False)
    table = Table("held out", "tasks", "A", "B", "A - B", "95 %", title="pass@1 after training", title_justify="left")
    names = {"all": f"all but {listed(sorted(set(without)))}"} if without else {}
    for benchmark, ways in rates.items():
        for way, row in ways.items():
            table.add_row(
                f"{names.get(benchmark, benchmark)}, {way}",
                str(row["tasks"]),
                f"{row['after']:.3f}",
                f"{row['before']:.3f}",
                f"{row['difference']:+.3f}",
                "too few tasks" if too_few(row) else f"{row['low']:+.3f} to {row['high']:+.3f}",
            )
    print_table(console, table)
    console.print(
        "Intervals over clusters of held-out tasks. With one run each, they do not include the variation between seeds.",
        style="dim",
        soft_wrap=not console.is_terminal,
    )
