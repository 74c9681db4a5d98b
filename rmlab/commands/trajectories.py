"""`rmlab trajectories ...`: shows, measures, splits and joins trajectory sets."""

import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from rmlab.errors import DataError, UsageError
from rmlab.files import PARQUET, check_output
from rmlab.fingerprint import file_fingerprint, fingerprint
from rmlab.wording import counted

if TYPE_CHECKING:
    from rmlab.trajectories.record import Trajectory
    from rmlab.trajectories.splitting import By

app = typer.Typer(no_args_is_help=True, help="Show, measure, split and join trajectory sets.")

MOST = 8  # attempts of a task that are shown whole


@app.command("lengths", epilog="Example: `rmlab trajectories lengths runs/real.parquet --tokenizer models/qwen3`")
def lengths(
    path: Annotated[Path, typer.Argument(help="A trajectory set (Parquet).")],
    tokenizer: Annotated[
        str,
        typer.Option(help="A folder with tokenizer.json, or starter for the tokenizer of the shipped trajectories."),
    ] = "starter",
    budget: Annotated[
        list[int] | None,
        typer.Option(help="Context in tokens; may be given several times. Default: 8k, 32k, 128k, 256k."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on standard output.")] = False,
) -> dict[str, Any]:
    """Count how many trajectories fit a context, by label: as they are, and with their observations cut in the middle."""
    from rmlab.verifiers.lengths import measure_lengths

    if any(tokens < 256 for tokens in budget or []):
        raise UsageError("--budget must be at least 256 tokens")
    result = measure_lengths(path, tokenizer, budget or [])
    print(json.dumps(result) if as_json else "\n".join(_length_lines(result)))
    return result


@app.command(
    "join", epilog="Example: `rmlab trajectories join runs/cool.parquet runs/hot.parquet -o runs/attempts.parquet`"
)
def join(
    paths: Annotated[list[Path], typer.Argument(help="Trajectory sets (Parquet) of the same tasks and environment.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The set to write.")],
) -> None:
    """Join several sets that `rmlab collect` wrote into one."""
    from rmlab.trajectories.parts import union
    from rmlab.trajectories.store import write_trajectories

    check_output(out, paths, PARQUET)
    pool = union(paths)
    pool = write_trajectories(out, pool.trajectories, pool.metadata)
    policies = Counter(t.policy for t in pool.trajectories)
    print(
        f"{out}: {counted(len(pool), 'trajectory', 'trajectories')} of {counted(len(paths), 'set')}, fingerprint {pool.fingerprint}"
    )
    print("  " + ", ".join(f"{policy} {n:,}" for policy, n in sorted(policies.items())))


@app.command(
    "split",
    epilog="Example: `rmlab trajectories split runs/real.parquet -o runs/split.parquet --by repository --part verifier=0.7 "
    "--part validation=0.1 --part evaluation=0.2`",
)
def split(
    path: Annotated[Path, typer.Argument(help="A trajectory set (Parquet).")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The set to write.")],
    by: Annotated[str, typer.Option(help="Split by repository, task, or time (oldest attempts first).")] = "repository",
    part: Annotated[
        list[str] | None,
        typer.Option(
            help="PART=SHARE; may be given several times. Default: verifier=0.7 validation=0.1 evaluation=0.2."
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option(help="Seed for the order of repositories or tasks; with time only among tasks of one time.")
    ] = 0,
    near: Annotated[
        float,
        typer.Option(help="Issues whose words overlap by this share (Jaccard) go into one part. 0 = do not compare."),
    ] = 0.8,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on standard output.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace the output even if another request made it.")] = False,
) -> dict[str, Any]:
    """Split a set into parts that share no repository (or task) and no nearly identical issue."""
    from rmlab.made_before import made_before
    from rmlab.trajectories.set_file import check_set_file
    from rmlab.trajectories.splitting import parse_shares, split_set

    shares = parse_shares(part or [])
    check_output(out, [path], PARQUET)
    if not 0 <= near <= 1:
        raise UsageError(f"--near {near:g}: must be a share from 0 (do not compare) to 1")
    check_set_file(path)
    request = fingerprint(["split", file_fingerprint(path), by, shares, seed, near])
    if not force:
        made_before(out, request)
    result = split_set(path, out, cast("By", by), shares, seed, near, {"config_hash": request})
    print(json.dumps(result) if as_json else "\n".join([*_split_lines(result), f"written to {out}"]))
    return result


@app.command("show", epilog="Example: `rmlab trajectories show runs/real.parquet django__django-11066`")
def show(
    path: Annotated[Path, typer.Argument(help="A trajectory set (Parquet).")],
    which: Annotated[
        str | None,
        typer.Argument(
            help="A trajectory_id (or its start) or a task_id. Default: a table of policies.", show_default=False
        ),
    ] = None,
    width: Annotated[int, typer.Option(help="Characters to show of each turn; 0 = all.")] = 600,
) -> None:
    """Show a set's policies and labels, or one trajectory turn by turn."""
    from rmlab.trajectories.store import iterate_trajectories

    if which is None:
        _show_table(path)
        return
    attempts = [
        t
        for t in iterate_trajectories(path)
        if t.task_id == which or (len(which) >= 4 and t.trajectory_id.startswith(which))
    ]
    if not attempts:
        raise DataError(
            f"{path} has no trajectory and no task {which!r}. `rmlab trajectories show {path}` lists what is there."
        )
    if len(attempts) > MOST:
        print(f"{which}: {counted(len(attempts), 'attempt')}, the first {MOST} are shown")
    for trajectory in attempts[:MOST]:
        _show_one(trajectory, width)


def _show_table(path: Path) -> None:
    from rmlab.trajectories.store import iterate_trajectories

    counts: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    tasks: dict[tuple[str, str], set[str]] = defaultdict(set)
    for t in iterate_trajectories(path):
        key = (t.policy, str(t.split or "no part"))
        counts[key].update(
            [
                "trajectories",
                "unlabelled" if t.resolved is None else "resolved" if t.resolved else "unresolved",
                t.exit_status,
            ]
        )
        tasks[key].add(t.task_id)
    width = max([len(policy) for policy, _ in counts] or [6])
    print(
        f"{'policy':<{width}}  {'part':<11}{'tasks':>7}{'attempts':>10}{'resolved':>10}"
        f"{'unresolved':>12}{'unlabelled':>12}{'unfinished':>12}{'error':>7}"
    )
    for (policy, part), n in sorted(counts.items()):
        print(
            f"{policy:<{width}}  {part:<11}{len(tasks[policy, part]):>7,}{n['trajectories']:>10,}{n['resolved']:>10,}{n['unresolved']:>12,}"
            f"{n['unlabelled']:>12,}{n['unfinished']:>12,}{n['error']:>7,}"
        )


def _show_one(t: "Trajectory", width: int) -> None:
    label = "unlabelled" if t.resolved is None else f"{'resolved' if t.resolved else 'unresolved'} by {t.label_source}"
    print(
        f"{t.trajectory_id}  {t.task_id}  attempt {t.attempt} of {t.policy}  ({t.exit_status}; {label}; {t.cluster}, {t.source})"
    )
    for number, message in enumerate(t.messages):
        print(f"--- {number} {message.role} ({len(message.content):,} characters)\n{_shown(message.content, width)}")
    print(f"--- patch\n{_shown(t.patch or 'none', 4 * width)}\n")


def _shown(text: str, width: int) -> str:
    """The text with its middle left out, and without what would steer a terminal."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n")  # a progress bar goes back to the start of its line
    plain = "".join(c if c.isprintable() or c in "\n\t" else "\N{REPLACEMENT CHARACTER}" for c in lines)
    if width <= 0 or len(plain) <= width:
        return plain
    return f"{plain[: width // 2]}\n[... {len(plain) - width:,} characters ...]\n{plain[len(plain) - width // 2 :]}"


def _length_lines(result: dict[str, Any]) -> list[str]:
    columns = list(result["tokens"])
    shown = [
        f"{result['trajectories']:,} trajectories, tokenizer {result['tokenizer']}",
        f"{'':>12}" + "".join(f"{column:>24}" for column in columns),
    ]
    if not result["trajectories"]:
        return shown[:1]
    for key in ("n", "median", "p90", "max"):
        shown.append(f"{key:>12}" + "".join(f"{result['tokens'][column][key]:>24,.0f}" for column in columns))
    shown.append("fit rate as it is / with observations cut in the middle (share of characters not read)")
    for budget, row in result["budgets"].items():
        cells = [f"{row['fit_rate'][c]:.1%} / {row['fit_rate_with_observations_cut'][c]:.1%}" for c in columns]
        shown.append(
            f"{int(budget):>12,}" + "".join(f"{cell:>24}" for cell in cells) + f"   ({row['characters_not_read']:.1%})"
        )
    return shown


def _split_lines(result: dict[str, Any]) -> list[str]:
    shown = [
        f"{'part':>12}{'tasks':>8}{'share':>8}{'asked':>8}{'clusters':>10}{'trajectories':>14}{'labelled':>10}{'resolved':>10}"
    ]
    for part, row in result["parts"].items():
        shown.append(
            f"{part:>12}{row['tasks']:>8,}{row['share']:>8.1%}{row['asked']:>8.1%}{row['clusters']:>10,}{row.get('trajectories', 0):>14,}"
            f"{row.get('labelled', 0):>10,}{row.get('resolved', 0):>10,}"
        )
    shown.append(
        f"nearly identical issues: {result['near_duplicates']:,} pairs, {result['joined_groups']:,} groups joined because of them"
    )
    shown += [f"  {n['a']} ~ {n['b']} ({n['overlap']:.2f})" for n in result["near"][:3]]
    return shown + [f"note: {note}" for note in result["notes"]]
