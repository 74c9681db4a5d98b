"""A report as one HTML file that loads nothing: figures, every number with its interval, baselines, the worst errors.

The reliability picture of a verifier's run stands alone as a file too: an artifact that the MLflow UI shows as an image.
"""

from pathlib import Path

import numpy as np

from rmlab.files import write_text
from rmlab.metrics import registry
from rmlab.metrics.definitions import Report
from rmlab.metrics.table import table as grouped
from rmlab.pages import plots
from rmlab.pages.html import asset, page, table, text
from rmlab.pages.report_tables import beside_baselines, calibrated, curves, how_far, interval, notes_of, number, summary
from rmlab.scores.scores import Scores
from rmlab.scores.table import read_score_table
from rmlab.tracking.run_index import run_infos
from rmlab.tracking.store import Store
from rmlab.tracking.tags import SOURCE_RUN

WORST = 25


def report_page(title: str, report: Report, scores: Scores) -> str:
    """The page's markup. title: what the table is. report: its report, as `rmlab evaluate --json` prints it."""
    rows = grouped(scores)
    scored = len(rows.scored.label_N) > 0
    figures = {"Best of k": plots.best_of_k(report)}
    if scored:
        figures |= {
            "Reliability": plots.reliability(rows),
            "Scores by label": plots.distributions(rows),
            "Risk and coverage": plots.risk_and_coverage(rows),
        }
    parts = [
        f"<h1>{text(title)}</h1>",
        f"<p>{text(summary(report))}.</p>",
        *(f"<p class=dim>{text(line)}</p>" for line in how_far(report)),
    ]
    parts += [f"<p class=dim>{text(note)}</p>" for note in report.get("notes", ())]
    parts.append(
        "<div class=figures>"
        + "".join(
            f"<figure><figcaption>{text(name)}</figcaption>{svg}</figure>" for name, svg in figures.items() if svg
        )
        + "</div>"
    )
    parts.append(table(*curves(report), text_columns=(), caption="Best of k"))
    if scored:
        parts += [_metrics(report), _post_hoc(report), _selection(report), _baselines(report), _worst(scores)]
    return page(f"{title} - rmlab report", f"<main>{''.join(parts)}</main>", asset("report.css"))


def _metrics(report: Report) -> str:
    notes = notes_of(report)
    return "".join(
        table(
            ["", "value", "95 %", ""],
            [
                [m.label, number(report[m.name]), interval(report["ci95"].get(m.name)), notes.get(m.name, "")]
                for m in metrics
            ],
            text_columns=(0, 3),
            caption=section,
        )
        for section, metrics in registry.sections().items()
    )


def _post_hoc(report: Report) -> str:
    if report["post_hoc"] is None:
        return ""
    header, rows = calibrated(report)
    where = (
        "validation"
        if report["post_hoc_fitted_on"] == "validation"
        else f"other clusters of this table ({report['post_hoc_fitted_on']})"
    )
    return table(header, rows, caption=f"Calibrated on {where}")


def _selection(report: Report) -> str:
    selection = report.get("selection")
    if selection is None:
        return ""
    names = ("execution_free", "execution_based", "hybrid")
    return table(
        ["k", *(name.replace("_", " ") for name in names)],
        [[k, *(number(selection[name][k]) for name in names)] for k in selection["hybrid"]],
        text_columns=(),
        caption="Selection by score, by tests, by both"
        + (f" ({selection['untested']:,} attempts without tests rank last)" if selection["untested"] else ""),
    )


def _baselines(report: Report) -> str:
    if not report.get("baselines"):
        return ""
    header, rows = beside_baselines(report)
    return table(header, rows, text_columns=(0, len(header) - 1), caption="Without a verifier")


def _worst(scores: Scores) -> str:
    error_N = np.abs(scores.score - scores.resolved)
    wrong = np.flatnonzero(error_N > 0.5)
    worst = wrong[np.lexsort((scores.task_id[wrong], -error_N[wrong]))][:WORST]
    columns: dict[str, list[str]] = {
        "task": [str(scores.task_id[i]) for i in worst],
        "attempt": [str(scores.trajectory_id[i]) for i in worst],
        "policy": [str(scores.policy[i]) for i in worst],
        "label": ["resolved" if scores.resolved[i] else "unresolved" for i in worst],
        "score": [f"{scores.score[i]:.4f}" for i in worst],
        "tokens": ["" if np.isnan(scores.n_tokens[i]) else f"{scores.n_tokens[i]:,.0f}" for i in worst],
    }
    told = {name: cells for name, cells in columns.items() if any(cells)}
    return table(
        list(told),
        [list(row) for row in zip(*told.values(), strict=True)],
        text_columns=[i for i, name in enumerate(told) if name not in ("score", "tokens")],
        caption=f"The most confident mistakes: {len(worst):,} of {len(wrong):,} attempts whose likelier answer is wrong",
    )


RELIABILITY, SCORES = "reliability.svg", "scores.parquet"
ROOT = '<svg xmlns="http://www.w3.org/2000/svg" style="background:white" font-family="sans-serif" width="690" height="480" '


def reliability_picture(scores: Scores) -> str:
    """Share resolved against the score, of a table with at least one attempt that has both."""
    return plots.reliability(grouped(scores)).replace("<svg ", ROOT, 1)


def draw_missing(store: Store) -> int:
    """Draws it for the verifiers' runs of a local store that have score tables and no picture; returns how many.

    These are of an earlier version, came in a bundle of a study, or reuse what another run measured.
    """
    if store.artifacts is None:
        return 0
    names = {e.experiment_id: e.name for e in store.call(lambda: store.client.search_experiments(max_results=1000))}
    folders = {
        info.run_id: store.artifacts / names[info.experiment_id] / info.run_id / "artifacts"
        for info in run_infos(store)
        if info.experiment_id in names and info.tags.get("kind") == "verifier" and info.end_time is not None
    }
    sources = {info.run_id: info.tags.get(SOURCE_RUN, info.run_id) for info in run_infos(store)}
    drawn = 0
    for run_id, folder in folders.items():
        table = folders.get(sources[run_id], folder) / SCORES
        if table.is_file() and not (folder / RELIABILITY).exists():
            _draw(table, folder / RELIABILITY)
            drawn += 1
    return drawn


def _draw(table: Path, picture: Path) -> None:
    picture.parent.mkdir(parents=True, exist_ok=True)
    write_text(picture, reliability_picture(read_score_table(table)))
