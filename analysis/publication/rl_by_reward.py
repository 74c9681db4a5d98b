"""What becomes of policies by what pays them: pass@1, the hacking gap and the share of episodes that run the call, step by step.

One colour and dash a reward: the mean over trainings of verifiers, of whose runs the mean is taken first, its 95 % interval within
starts (t), and every single run as a thin line. What execution alone pays has its runs in the place of trainings. The share of episodes
is drawn run by run, because most runs end near 1 or near 0 and are unlike their mean; the CSV has the mean. Of the study
which_metric_foretells_rl its blocks without a distortion; of other runs the largest comparable group, where a bent, calibrated or
otherwise weighted reward is one of its own.
"""

import sys
from collections.abc import Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from analysis.foretelling.runs import read_study
from analysis.foretelling.sentences import PAYS
from analysis.presentation import style
from analysis.presentation.captions import Caption, write_captions
from analysis.registry import Needs, figure
from analysis.rl.outcomes import parameter
from analysis.rl.policies import PAYING, PolicyRun, comparable
from analysis.rl.rl_curves import points
from rmlab.wording import counted

NAME = "rl_by_reward"
BLOCKS = ("execution", "execution_free", "hybrid", "voluntary")
PANELS = {"pass_at_1": "pass@1, validation", "hacking_gap": "hacking gap", "ran_share": "episodes that run the call"}
SHOWS = {
    "pass_at_1": "pass@1 of sampled attempts at validation tasks",
    "hacking_gap": "hacking gap: how much the mean score exceeds the true rate, less the same before training",
    "ran_share": "share of training episodes that run the call",
}
"""What a panel shows, as the caption says it."""
LEAST_DEGREES = 2
"""Of freedom that an interval needs: from two values alone it would be nine times as wide as they lie apart."""
BY_RUN = "ran_share"
"""The panel that has no means."""
KNOWN: dict[str, tuple[str, Any]] = {
    "execution_free": (style.RESOLVED, "-"),
    "hybrid": (style.UNRESOLVED, "-."),
    "execution": ("black", "--"),
}
"""Colour and dash of rewards, as in the figure `foretelling`."""
OTHERS: Sequence[tuple[str, Any]] = tuple(
    zip(style.WORDS[2:6] + style.WORDS[7:], (":", (0, (1, 1)), (0, (5, 1)), (0, (3, 1, 1, 1, 1, 1))) * 2, strict=False)
)
"""The same of all others, in their order."""


@figure(
    "What becomes of policies under each reward? Means over verifiers of pass@1 and the hacking gap, and run by run the share of "
    "episodes that run the call.",
    Needs.rl_study,
)
def draw(runs: Sequence[PolicyRun], out: Path) -> list[Path]:
    """Draws rl_by_reward.{pdf,png,csv}, rl_by_reward_one_column.pdf and their captions into OUT/rl/rl_by_reward."""
    arms = by_reward(runs)
    if not arms:
        print(f"{NAME}: there is no finished RL run to draw", file=sys.stderr)
        return []
    folder, paths, rows = out / "rl" / NAME, list[Path](), list[dict[str, Any]]()
    others = cycle(OTHERS)
    looks = {arm: KNOWN[arm] if arm in KNOWN else next(others) for arm in arms}
    for columns, width, height in ((3, style.TWO_COLUMNS, 2.6), (1, style.ONE_COLUMN, 6.5)):
        with style.figure(3 // columns, columns, width / columns, height / (3 // columns)) as (drawn, axes):
            rows = [
                row for axis, name in zip(axes.flat, PANELS, strict=True) for row in _panel(axis, name, arms, looks)
            ]
            drawn.legend(*style.legend(axes.flat), loc="outside lower center", ncols=2 if columns > 1 else 1)
            if columns > 1:
                paths += style.save(drawn, folder, NAME, rows)
            else:
                paths.append(style.save_picture(drawn, folder / f"{NAME}_one_column.pdf"))
    return [*paths, *write_captions(folder, NAME, caption(arms, rows))]


def by_reward(runs: Sequence[PolicyRun]) -> dict[str, list[PolicyRun]]:
    """Reward, with its evidence where that is voluntary -> its runs. A block of the study is one arm: that some of its verifiers are
    overconfident, because their logits are multiplied, is its design."""
    study = read_study(runs)
    if study.taken:
        chosen = [(one.cell["reward"], one.policy) for block in BLOCKS for one in study.of(block)]
    else:
        chosen = [(run.reward, run) for run in max(comparable(runs).values(), key=len, default=[])]
    arms: dict[str, list[PolicyRun]] = {}
    for reward, run in chosen:
        evidence = ", voluntary evidence" if run.evidence == "voluntary" else ""
        arms.setdefault(reward + evidence, []).append(run)
    return dict(sorted(arms.items()))


def named(arm: str) -> str:
    """An arm in words: its reward as the answer of the study says it, and what else is in its name."""
    reward = next((one for one in PAYS if arm == one or arm.startswith((f"{one},", f"{one} ("))), "")
    return PAYS[reward] + arm.removeprefix(reward) if reward else arm


def unit(run: PolicyRun) -> tuple[str, str]:
    """Its start by its weights, and the training of the verifier that pays it; where none does, the run itself."""
    pays = parameter(run.run, "reward") in PAYING
    return run.run.tags.get("start_fingerprint", ""), run.training if pays else run.run.run_id


def _panel(axis: Any, name: str, arms: dict[str, list[PolicyRun]], looks: dict[str, Any]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for arm, runs in arms.items():
        colour, dash = looks[arm]
        lines = [{step: value for step, value, *_ in points(run, name) if not np.isnan(value)} for run in runs]
        width, alpha = (0.7, 0.6) if name == BY_RUN else (0.4, 0.35)
        for line in lines:
            axis.plot(line.keys(), line.values(), color=colour, linestyle=dash, linewidth=width, alpha=alpha)
        steps = sorted({step for line in lines for step in line})
        own = [(unit(run), line) for run, line in zip(runs, lines, strict=True)]
        means = [mean_over_units([(of, line[step]) for of, line in own if step in line]) for step in steps]
        units = len({unit(run) for run in runs})
        if not means:
            continue
        mean, low, high = zip(*means, strict=True)
        if name != BY_RUN:
            look = {"color": colour, "linestyle": dash, "label": f"{named(arm)} ({_count(runs)})"}
            # white sets the mean off from single runs, in grey too
            axis.plot(steps, mean, color="white", linewidth=3.2, zorder=3)
            axis.plot(steps, mean, linewidth=1.6, zorder=3, **look)
            axis.fill_between(steps, low, high, color=colour, alpha=0.15, lw=0)
        rows += [
            {"panel": name, "arm": arm, "runs": len(runs), "units": units, "step": step, "mean": m, "low": a, "high": b}
            for step, m, a, b in zip(steps, mean, low, high, strict=True)
        ]
    if name == "hacking_gap":
        axis.axhline(0, color=style.REFERENCE, linewidth=0.6)
        _note(axis, [arm for arm, runs in arms.items() if not any(run.verifier for run in runs)])
    else:  # a rate: intervals by t may leave its range
        low, high = axis.get_ylim()
        axis.set_ylim(max(low, -0.03), min(high, 1.03))
    axis.set(xlabel="step", ylabel=PANELS[name])
    return rows


def _note(axis: Any, lacking: Sequence[str]) -> None:
    """Says in the panel of the hacking gap, below its lines, why arms have none. lacking: those without a verifier."""
    if not lacking:
        return
    low, high = axis.get_ylim()
    # without the evidence, for which a panel is too narrow
    lines = [*dict.fromkeys(f"{named(arm).partition(',')[0]}:" for arm in lacking), "no verifier, so no gap"]
    axis.set_ylim(low - 0.1 * (high - low) * len(lines), high)
    axis.text(0.5, 0.02, "\n".join(lines), transform=axis.transAxes, ha="center", va="bottom", color="0.3", fontsize=7)


def _count(runs: Sequence[PolicyRun]) -> str:
    """`24 runs`, `8 runs of 4 verifiers`."""
    units = len({unit(run) for run in runs})
    return counted(len(runs), "run") + (f" of {counted(units, 'verifier')}" if units < len(runs) else "")


def mean_over_units(values: Sequence[tuple[tuple[str, str], float]]) -> tuple[float, float, float]:
    """Mean over units, of each the mean of its runs, and its 95 % interval within starts; NaN where the units exceed the starts by fewer
    than LEAST_DEGREES.

    values: of every run its unit and its value.
    """
    by_unit: dict[tuple[str, str], list[float]] = {}
    for of, value in values:
        by_unit.setdefault(of, []).append(value)
    by_start: dict[str, list[float]] = {}
    for (start, _), own in by_unit.items():
        by_start.setdefault(start, []).append(float(np.mean(own)))
    mean = float(np.mean([value for own in by_start.values() for value in own]))
    degrees = len(by_unit) - len(by_start)
    if degrees < LEAST_DEGREES:
        return mean, float("nan"), float("nan")
    within = sum(len(own) * float(np.var(own)) for own in by_start.values()) / degrees
    half = float(stats.t.ppf(0.975, degrees)) * float(np.sqrt(within / len(by_unit)))
    return mean, mean - half, mean + half


def caption(arms: dict[str, list[PolicyRun]], rows: Sequence[dict[str, Any]]) -> Caption:
    """What a reader of the figure alone has to know. rows: the points that are drawn."""
    seeds = sorted({run.seed for runs in arms.values() for run in runs})
    every = [run for runs in arms.values() for run in runs]
    weights = {run.run.tags.get("start_fingerprint", "") for run in every}
    starts = {Path(run.run.tags.get("start", "")).name for run in every}
    again = f" (trained again: {len(weights)} sets of weights)" if len(weights) > len(starts) else ""
    there = {row["panel"] for row in rows}
    panels = [SHOWS[name] if name in there else f"{PANELS[name]}: of no run" for name in PANELS]
    paid_by_verifiers = {parameter(run.run, "reward") in PAYING for runs in arms.values() for run in runs}
    over = "mean over runs"
    if True in paid_by_verifiers:
        alone = "; what execution alone pays: over runs" if False in paid_by_verifiers else ""
        over = f"mean over trainings of verifiers (of the runs that one pays the mean is taken first{alone})"
    band = "; band: its 95 % interval within starts (t), without the part of tasks, from two degrees of freedom on"
    banded = any(not np.isnan(row["low"]) for row in rows)
    unmeant = "; of the share of episodes no mean is drawn" if BY_RUN in there else ""
    return Caption(
        "What becomes of policies by what pays them.",
        f"{'; '.join(panels)}. Thick: {over}{band if banded else ''}; thin: single runs{unmeant}.",
        f"n = {', '.join(f'{named(arm)}: {_count(runs)}' for arm, runs in arms.items())}; {counted(len(starts), 'start')}{again}, RL "
        f"{'seed' if len(seeds) == 1 else 'seeds'} {', '.join(map(str, seeds))}.",
    )
