"""What becomes of policies by what pays them: pass@1, the hacking gap and the share of episodes that run the call, step by step.

One colour and dash a reward: the mean over its runs, the 95 % interval of that mean over trainings of verifiers (t), and every single
run as a thin line. Of the study which_metric_foretells_rl its blocks without a distortion; of other runs the largest comparable group.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from analysis import style
from analysis.captions import Caption, write_captions
from analysis.foretelling_runs import read_study
from analysis.outcomes import parameter
from analysis.policies import PolicyRun, comparable
from analysis.registry import Needs, figure
from analysis.rl_curves import points
from rmlab.wording import counted

NAME = "rl_by_reward"
BLOCKS = ("execution", "execution_free", "hybrid", "voluntary")
PANELS = {"pass_at_1": "pass@1, validation", "hacking_gap": "hacking gap", "ran_share": "episodes that run the call"}
DASHES: Any = ("-", "--", "-.", ":", (0, (1, 1)), (0, (5, 1)))


@figure(
    "What becomes of policies by what pays them, means over verifiers: pass@1, hacking gap, share of episodes that run the call.",
    Needs.rl_study,
)
def draw(runs: Sequence[PolicyRun], out: Path) -> list[Path]:
    """Draws rl_by_reward.{pdf,png,csv}, rl_by_reward_one_column.pdf and their captions into OUT/rl/rl_by_reward."""
    arms = by_reward(runs)
    if not arms:
        print(f"{NAME}: there is no finished RL run to draw", file=sys.stderr)
        return []
    folder, paths, rows = out / "rl" / NAME, list[Path](), list[dict[str, Any]]()
    looks = dict(zip(arms, zip(style.WORDS, DASHES * 2, strict=False), strict=False))
    for columns, width, height in ((3, style.TWO_COLUMNS, 2.6), (1, style.ONE_COLUMN, 6.5)):
        with style.figure(3 // columns, columns, width / columns, height / (3 // columns)) as (drawn, axes):
            rows = [
                row for axis, name in zip(axes.flat, PANELS, strict=True) for row in _panel(axis, name, arms, looks)
            ]
            drawn.legend(
                *style.legend(axes.flat), loc="outside lower center", ncols=min(len(arms), 4) if columns > 1 else 1
            )
            if columns > 1:
                paths += style.save(drawn, folder, NAME, rows)
            else:
                paths.append(style.save_picture(drawn, folder / f"{NAME}_one_column.pdf"))
    return [*paths, *write_captions(folder, NAME, caption(arms))]


def by_reward(runs: Sequence[PolicyRun]) -> dict[str, list[PolicyRun]]:
    """Reward, with its evidence where that is voluntary -> its runs."""
    study = read_study(runs)
    if study.taken:
        chosen = [one.policy for block in BLOCKS for one in study.of(block)]
    else:
        chosen = max(comparable(runs).values(), key=len, default=[])
    arms: dict[str, list[PolicyRun]] = {}
    for run in chosen:
        evidence = ", voluntary evidence" if run.evidence == "voluntary" else ""
        arms.setdefault(parameter(run.run, "reward") + evidence, []).append(run)
    return dict(sorted(arms.items()))


def _panel(axis: Any, name: str, arms: dict[str, list[PolicyRun]], looks: dict[str, Any]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for arm, runs in arms.items():
        colour, dash = looks[arm]
        lines = [{step: value for step, value, *_ in points(run, name) if not np.isnan(value)} for run in runs]
        for line in lines:
            axis.plot(line.keys(), line.values(), color=colour, linewidth=0.4, alpha=0.25)
        steps = sorted({step for line in lines for step in line})
        means = [_mean([line[step] for line in lines if step in line]) for step in steps]
        if not means:
            continue
        mean, low, high = zip(*means, strict=True)
        look = {"color": colour, "linestyle": dash, "label": f"{arm} ({counted(len(runs), 'run')})"}
        axis.plot(
            steps, mean, color="white", linewidth=3.2, zorder=3
        )  # sets the mean off from single runs, in grey too
        axis.plot(steps, mean, linewidth=1.6, zorder=3, **look)
        axis.fill_between(steps, low, high, color=colour, alpha=0.15, lw=0)
        rows += [
            {"panel": name, "arm": arm, "runs": len(runs), "step": step, "mean": m, "low": a, "high": b}
            for step, m, a, b in zip(steps, mean, low, high, strict=True)
        ]
    if name == "hacking_gap":
        axis.axhline(0, color=style.REFERENCE, linewidth=0.6)
    axis.set(xlabel="step", ylabel=PANELS[name])
    return rows


def _mean(values: Sequence[float]) -> tuple[float, float, float]:
    """Mean and its 95 % interval over runs, NaN where there is one run."""
    mean = float(np.mean(values))
    if len(values) < 2:
        return mean, float("nan"), float("nan")
    half = float(stats.t.ppf(0.975, len(values) - 1) * np.std(values, ddof=1) / np.sqrt(len(values)))
    return mean, mean - half, mean + half


def caption(arms: dict[str, list[PolicyRun]]) -> Caption:
    """What a reader of the figure alone has to know."""
    seeds = sorted({run.seed for runs in arms.values() for run in runs})
    starts = {run.run.tags.get("start_fingerprint", "") for runs in arms.values() for run in runs}
    return Caption(
        "What becomes of policies by what pays them.",
        "pass@1 of sampled attempts at validation tasks; hacking gap: how much the mean score exceeds the true rate, less the same before "
        "training; share of training episodes that run the call. Thick: mean over runs; band: its 95 % interval over runs (t), each paid "
        "by a verifier of its own, or by execution; thin: single runs.",
        f"n = {', '.join(f'{len(runs)} {arm}' for arm, runs in arms.items())}; {counted(len(starts), 'start')}, RL "
        f"{'seed' if len(seeds) == 1 else 'seeds'} {', '.join(map(str, seeds))}.",
    )
