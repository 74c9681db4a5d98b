"""`rmlab collect`, `train`, `rl`, `pretrain`, `warm-start`: the experiments, each a program with a Hydra configuration."""

from typing import Annotated

import typer

from rmlab.commands.common import Overrides, of_program
from rmlab.errors import UsageError

app = typer.Typer()


@app.command(epilog="Example: `rmlab collect output=runs/few.parquet parts.verifier.tasks=20 parts.evaluation.tasks=0`")
@of_program("collect")
def collect(
    overrides: Overrides = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Print what would be collected and how long it would take, without collecting anything."
        ),
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Collect even if the output exists, and replace it.")] = False,
) -> None:
    """Roll out policies in micro-SWE and write a trajectory set. A finished set is not collected again."""
    from experiments.programs import collect as program

    if dry_run:
        print(program.dry_run(overrides or []))
    else:
        program.main(overrides or [], force)


@app.command(epilog="Example: `rmlab train preset=smoke data.scale=64 seed=1`")
@of_program("train_verifier")
def train(
    overrides: Overrides = None,
    multirun: Annotated[
        bool,
        typer.Option(
            "--multirun",
            "-m",
            help="Hydra's multirun, with +sweep=NAME or several values of a key, on hydra/launcher=NAME.",
        ),
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Train even if this configuration is finished.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the configuration and what it would cost, without training.")
    ] = False,
) -> None:
    """Train one verifier, score it and report its metrics. One that is finished, or being trained, is not trained again."""
    of_sweep = any(text.lstrip("+").startswith("sweep=") for text in overrides or [])
    if multirun or of_sweep:
        from rmlab.commands.multirun import multirun as start_multirun
        from rmlab.sweep.request import SweepOptions

        if dry_run and not of_sweep:
            raise UsageError("--dry-run needs a single run or a sweep: leave -m out, or name a sweep with +sweep=NAME")
        start_multirun("train_verifier", overrides or [], SweepOptions(dry_run=dry_run))
    elif dry_run:
        from experiments.programs import train_verifier

        print(train_verifier.dry_run(overrides or []))
    else:
        from experiments.programs import train_verifier

        train_verifier.main(overrides or [], force)


@app.command(epilog="Example: `rmlab rl start=runs/policies/starter-s0 reward=hybrid verifier=data_scale/demo/4000/s0`")
@of_program("rl")
def rl(
    overrides: Overrides = None,
    force: Annotated[bool, typer.Option("--force", help="Train even if this configuration is finished.")] = False,
) -> None:
    """Train one policy in micro-SWE by RL, rewarded by execution or by a verifier, and measure the result."""
    from experiments.programs import rl as program

    program.main(overrides or [], force)


@app.command(epilog="Example: `rmlab pretrain model=base_128x2 runtime=cuda runtime.compiled=true`")
@of_program("pretrain")
def pretrain(
    overrides: Overrides = None,
    force: Annotated[
        bool, typer.Option("--force", help="Train even if the output folder already holds this model.")
    ] = False,
) -> None:
    """Pretrain the base model that small verifiers start from, on unlabelled text."""
    from experiments.programs import pretrain as program

    program.main(overrides or [], force)


@app.command(
    "warm-start", epilog="Example: `rmlab warm-start model=path model.pretrained=FOLDER runtime=cuda engine=cuda`"
)
@of_program("train_policy")
def warm_start(
    overrides: Overrides = None,
    force: Annotated[
        bool, typer.Option("--force", help="Train even if the output folder already holds this policy.")
    ] = False,
) -> None:
    """Teach a language model to act in micro-SWE from demonstrations, and measure it on held-out tasks."""
    from experiments.programs import train_policy

    train_policy.main(overrides or [], force)
