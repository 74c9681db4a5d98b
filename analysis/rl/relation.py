"""Which of a verifier's offline metrics foretells what reinforcement learning with it does?

One point a verifier (mean over its seeds), one colour a reward. Offline metrics on the verifier's own evaluation set and on the
policy's shifted attempts (the last evaluation), against what came of the policy: final pass@1 paired with the start, the area under
the validation curve, the hacking gap, collapse. Spearman's rank correlation with a bootstrap over trainings: verifiers that come of
one training (distortions of it, repeats) are drawn together and count as one. Under ten trainings nothing can be concluded,
whatever the coefficient is, and the figure says so.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from analysis.presentation import style
from analysis.registry import Needs, figure
from analysis.rl.outcomes import parameter
from analysis.rl.policies import PAYING, PolicyRun, comparable, note
from analysis.rl.policy_measures import OFFLINE, OUTCOMES, averaged, shown
from analysis.rl.rank_statistics import REPLICATES, codes, rank_correlations, unit_weights
from analysis.rl.watched import FEWEST_MIXED
from rmlab.files import write_text
from rmlab.metrics.uncertainty import interval
from rmlab.wording import counted, estimate

FEWEST = 10
NOTHING = "nothing can be concluded"
MARKS = (
    "Shifted: on the policy's own attempts at the last evaluation. A within-task AUC of fewer than "
    f"{FEWEST_MIXED} tasks with attempts of both labels is left out, as a policy leaves that solves next to nothing."
)


@dataclass(frozen=True)
class Correlation:
    """Spearman's coefficient over the verifiers of n trainings with its 95 % bootstrap interval; None where it is undefined."""

    rho: float | None
    low: float | None
    high: float | None
    n: int

    @property
    def verdict(self) -> str:
        """What may be said."""
        if self.n < FEWEST or self.rho is None or self.low is None or self.high is None:
            return NOTHING
        return "rises with it" if self.low > 0 else "falls with it" if self.high < 0 else NOTHING

    def __str__(self) -> str:
        ends = (self.low, self.high) if self.n >= FEWEST else None
        return f"ρ = {estimate(self.rho, ends, 2, signed=True)}, n = {self.n}: {self.verdict}"


def spearman(
    x_N: Sequence[float],
    y_N: Sequence[float],
    training_N: Sequence[str] | None = None,
    replicates: int = REPLICATES,
    seed: int = 0,
) -> Correlation:
    """Rank correlation of N verifiers (ties get their mean rank), its interval by a bootstrap over trainings.

    training_N: which verifiers come of one training and are drawn together; None: each is one of its own. Resamples in which a
    side is constant are left out.
    """
    n = codes(range(len(x_N)) if training_N is None else training_N)[1]
    if n < 3 or len(set(x_N)) < 2 or len(set(y_N)) < 2:
        return Correlation(None, None, None, n)
    rho_R = rank_correlations(x_N, y_N, unit_weights(training_N, None, len(x_N), replicates, seed))
    low, high = interval(float(rho_R[0]), rho_R[1:]) or (None, None)
    return Correlation(float(rho_R[0]), low, high, n)


@figure(
    "Which of a verifier's offline metrics foretells what RL with it does? One point is one verifier; with fewer than "
    "ten trainings nothing can be concluded.",
    Needs.rl,
)
def draw(runs: Sequence[PolicyRun], out: Path) -> list[Path]:
    """Draws relation.{pdf,png,csv} and writes relation.md for every group of comparable runs of several verifiers into OUT/rl/GROUP."""
    paying = [run for run in runs if run.verifier_fingerprint and parameter(run.run, "reward") in PAYING]
    if not paying:
        print(
            f"relation: no verifier has paid a policy yet in {len(runs)} RL runs: there is nothing to relate",
            file=sys.stderr,
        )
    groups = comparable(paying)
    single = [name for name, group in groups.items() if len({run.verifier_fingerprint for run in group}) == 1]
    if single:
        folders = ", ".join(f"rl/{name}" for name in single)
        print(f"relation of {folders} is not drawn: a single verifier has nothing to be related to", file=sys.stderr)
    related = {name: group for name, group in groups.items() if name not in single}
    return [path for name, group in related.items() for path in _draw(group, out / "rl" / name)]


def _draw(runs: Sequence[PolicyRun], folder: Path) -> list[Path]:
    arms = list(dict.fromkeys(_arm(run) for run in runs))
    colours = style.level_colours(arms)
    points = [point for arm in arms for point in _points([run for run in runs if _arm(run) == arm], arm)]
    table: list[dict[str, Any]] = []
    with style.figure(len(OUTCOMES), len(OFFLINE), 2.1, 1.9, sharey="row") as (drawn, axes):
        for i, outcome in enumerate(OUTCOMES):
            for axis, offline in zip(axes[i], OFFLINE, strict=True):
                lines = []
                for arm in arms:
                    own = [p for p in points if p["arm"] == arm and p[offline] is not None and p[outcome] is not None]
                    _scatter(axis, own, offline, outcome, colours[arm], arm)
                    x_N, y_N, training_N = ([p[name] for p in own] for name in (offline, outcome, "training"))
                    found = spearman(x_N, y_N, training_N)
                    lines.append((colours[arm], "ρ -" if found.rho is None else f"ρ {found.rho:+.2f} (n {found.n})"))
                    table.append(
                        {
                            "arm": arm,
                            "offline": offline,
                            "outcome": outcome,
                            "rho": found.rho,
                            "low": found.low,
                            "high": found.high,
                            "n": found.n,
                            "verifiers": len(own),
                            "verdict": found.verdict,
                        }
                    )
                _above(axis, lines)
            axes[i][0].set_ylabel(outcome)
        for axis, offline in zip(axes[-1], OFFLINE, strict=True):
            axis.set_xlabel(shown(offline, runs))
        drawn.legend(*axes[0][0].get_legend_handles_labels(), loc="outside right center")
        style.footnote(drawn, f"{note(runs)}\n{conclusion(table)}\n{MARKS}")
        paths = style.save(drawn, folder, "relation", points)
    write_text(folder / "relation.md", markdown(table))
    write_text(folder / "relation_rho.csv", style.csv_text(table))
    return [*paths, folder / "relation.md", folder / "relation_rho.csv"]


def _above(axis: Any, lines: Sequence[tuple[Any, str]]) -> None:
    """A line of text for each arm over a panel, in its colour."""
    axis.set_title("\n".join(" " for _ in lines), fontsize=6)  # keeps the room
    for place, (colour, text) in enumerate(reversed(lines)):
        axis.annotate(
            text,
            (0.5, 1),
            (0, 3 + 8 * place),
            xycoords="axes fraction",
            textcoords="offset points",
            ha="center",
            fontsize=6,
            color=colour,
        )


def _arm(run: PolicyRun) -> str:
    return run.reward + (" (voluntary evidence)" if run.evidence == "voluntary" else "")


def _points(runs: Sequence[PolicyRun], arm: str) -> list[dict[str, Any]]:
    """One row a verifier: the mean over its runs of everything, and the ends of intervals."""
    rows = []
    for fingerprint in dict.fromkeys(run.verifier_fingerprint for run in runs):
        own = [run for run in runs if run.verifier_fingerprint == fingerprint]
        row: dict[str, Any] = {
            "arm": arm,
            "verifier": own[0].verifier,
            "verifier_fingerprint": fingerprint,
            "training": own[0].training,
            "runs": len(own),
        }
        for name, measure in (OFFLINE | OUTCOMES).items():
            row[name], low, high = averaged(own, measure)
            row |= {} if low is None else {f"{name} low": low, f"{name} high": high}
        rows.append(row)
    return rows


def _scatter(axis: Any, points: Sequence[dict[str, Any]], x: str, y: str, colour: Any, arm: str) -> None:
    for name, point in [(arm if i == 0 else None, p) for i, p in enumerate(points)]:
        bars = {
            axis_name: [[max(point[key] - point[f"{key} low"], 0)], [max(point[f"{key} high"] - point[key], 0)]]
            for axis_name, key in (("xerr", x), ("yerr", y))
            if point.get(f"{key} low") is not None
        }
        axis.errorbar(point[x], point[y], fmt="o", markersize=3, elinewidth=0.6, color=colour, label=name, **bars)


def conclusion(table: Sequence[dict[str, Any]]) -> str:
    """One sentence: what this many trainings allow to say."""
    most = max((row["n"] for row in table), default=0)
    if most < FEWEST:
        return (
            f"{counted(most, 'verifier training')} at most in an arm: {NOTHING} about which metric foretells what RL does "
            f"(at least {FEWEST} are needed)."
        )
    said = [row for row in table if row["verdict"] != NOTHING]
    if not said:
        return f"Up to {most} verifier trainings in an arm, and every interval holds 0: {NOTHING}."
    return (
        f"Up to {most} verifier trainings in an arm; intervals without 0, of {len(table)} looked at (one in twenty would be by chance): "
        + "; ".join(f"{row['outcome']} {row['verdict']}: {row['offline']} ({row['arm']})" for row in said)
        + "."
    )


def markdown(table: Sequence[dict[str, Any]]) -> str:
    """Every correlation, and the conclusion above them."""
    head = "| reward | offline metric | outcome | Spearman's ρ |\n|---|---|---|---|\n"
    found = [Correlation(row["rho"], row["low"], row["high"], row["n"]) for row in table]
    rows = [
        f"| {style.cell(row['arm'])} | {row['offline']} | {row['outcome']} | {rho} |"
        for row, rho in zip(table, found, strict=True)
    ]
    return f"{conclusion(table)}\n\n{head}" + "\n".join(rows) + "\n"
