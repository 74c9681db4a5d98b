"""`rmlab plan`: tokens, operations, memory and hours of a program or a sweep on a named card, before anything runs."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rmlab.commands.common import PROGRAMS_OF, complete_plan
from rmlab.errors import UsageError
from rmlab.planning.cards import CARDS, Card, find_card
from rmlab.wording import counted, duration, near

if TYPE_CHECKING:
    from rmlab.planning.advice import Question
    from rmlab.planning.estimate import Estimate

app = typer.Typer()

SWEEP = "sweep"
PLANNED = {name: program for name, program in PROGRAMS_OF.items() if name != "build"} | {
    "cross-validate": "cross_validate"
}
"""What can be planned, and its program."""


@app.command(
    epilog="Example: `rmlab plan train data=real model=hf model.pretrained=Qwen3-0.6B prompt.max_tokens=32768 runtime=cuda --card h100`"
)
def plan(
    program: Annotated[
        str | None,
        typer.Argument(
            help=f"{', '.join(PLANNED)}, or sweep followed by its name.",
            show_default=False,
            autocompletion=complete_plan,
        ),
    ] = None,
    arguments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[OVERRIDE]...", help="Overrides of the program: KEY=VALUE, GROUP=CHOICE.", show_default=False
        ),
    ] = None,
    card: Annotated[str, typer.Option(help=f"The GPU: {', '.join(CARDS)}.")] = "h100",
    gpus: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="GPUs over which `train` spreads weights and moments; other programs use one. Default: as configured.",
        ),
    ] = None,
    mfu: Annotated[
        float | None,
        typer.Option(
            help="The share of the card's peak that a run reaches. Default: estimated from rates measured on an H200."
        ),
    ] = None,
    mean_tokens: Annotated[
        int | None, typer.Option(min=1, help="Mean number of tokens of an attempt, instead of that of the data.")
    ] = None,
    table: Annotated[
        bool, typer.Option("--table", help="Print the memory of training by model and context, as Markdown.")
    ] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="With --table: print it as CSV.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on standard output.")] = False,
) -> None:
    """Estimate what a run will cost, without running it: tokens, FLOPs, memory by part and hours on a named card."""
    chosen = find_card(card)
    if mfu is not None and not 0 < mfu <= 1:
        raise UsageError(f"--mfu {mfu:g}: must be a share above 0 and at most 1")
    if table:
        from rmlab.planning.report import csv_of, memory_table, table_rows

        rows = table_rows()
        print(json.dumps(rows) if as_json else csv_of(rows) if as_csv else memory_table(chosen, rows))
        return
    if program is None:
        raise UsageError(f"name what to plan: {', '.join(PLANNED)}, or sweep NAME")
    if program == SWEEP:
        _plan_sweep(list(arguments or []), _Options(chosen, gpus, mfu, mean_tokens), as_json)
        return
    if program not in PLANNED:
        raise UsageError(
            f"there is no program {program!r}{near(program, PLANNED)}; there are: {', '.join(PLANNED)}, sweep NAME"
        )
    from rmlab.configuration import compose
    from rmlab.planning.report import plan_lines, plan_values

    asked = _Options(chosen, gpus, mfu, mean_tokens)
    question = asked.question(PLANNED[program], compose(PLANNED[program], arguments or []))
    found = question.answer()
    words = ["rmlab", program, *(arguments or [])]
    if as_json:
        print(json.dumps(plan_values(question, found, words)))
    else:
        print("\n".join(plan_lines(question, found, words)))


@dataclass(frozen=True)
class _Options:
    """What is asked of every run that is planned."""

    card: Card
    gpus: int | None
    mfu: float | None
    mean_tokens: int | None

    def question(self, program: str, config: Any) -> "Question":
        """Of one composed configuration. Raises UsageError where a value that it needs was not given."""
        from omegaconf import OmegaConf
        from omegaconf.errors import MissingMandatoryValue

        from rmlab.planning.advice import Question, configured_gpus

        try:
            settings = OmegaConf.to_object(config)
        except MissingMandatoryValue as error:
            key = str(error.full_key)
            raise UsageError(
                f"{key} must be given: {key}=FOLDER, or the name of an open model such as SmolLM2-135M"
            ) from error
        gpus = self.gpus or configured_gpus(settings)
        question = Question(program, settings, self.card, gpus, self.mfu, self.mean_tokens)
        if gpus > 1 and not question.spreads:
            raise UsageError(
                f"--gpus {gpus}: this program uses one GPU; leave it out (`rmlab train runtime=multi_gpu` uses several)"
            )
        return question


def _plan_sweep(arguments: list[str], asked: _Options, as_json: bool) -> None:
    """Of each level and arm one cell is planned; seeds cost the same."""
    from rmlab.configuration import compose
    from rmlab.planning.advice import command_to_run
    from rmlab.planning.report import (
        advice,
        command_lines,
        listed_lines,
        needed,
        plan_values,
        set_by_levels,
        ways_for_all,
    )
    from rmlab.sweep.owned_keys import refuse_owned
    from rmlab.sweep.plan import cell_name
    from rmlab.sweep.request import read_request

    if not arguments or "=" in arguments[0]:
        raise UsageError("name the sweep: rmlab plan sweep data_scale preset=small")
    name, *rest = arguments
    request = read_request(rest)
    spec = request.spec(name)
    refuse_owned(spec.factors, request.overrides)
    each = len(spec.seeds) * (spec.search.trials if spec.search else 1)
    cells = []
    for level, arm in spec.combinations:
        config = compose(spec.program, [*spec.overrides, *request.overrides, *spec.sets(level, arm)])
        label = cell_name(spec, str(level), str(arm), 0).removesuffix(" s0")
        question = asked.question(spec.program, config)
        cells.append((label, question, question.answer()))

    def owns_key(key: str) -> bool:
        return any(factor.owns_key(key) for factor in spec.factors)

    _, question, largest = max(cells, key=lambda cell: cell[2].held)
    ways = ways_for_all(question, largest, owns_key)
    settings = needed(question, ways)
    to_name = {key: word for *_, found in cells for key, word in found.work.to_name.items()}
    of_all = {key: word for key, word in to_name.items() if not owns_key(key)}
    words = ["rmlab", SWEEP, *arguments]
    total = sum(found.seconds for *_, found in cells) * each
    if as_json:
        command = command_to_run(words, settings, of_all)
        values = {
            label: {**plan_values(question, found, words), "command": command} for label, question, found in cells
        }
        print(json.dumps({"sweep": name, "times": each, "cells": values, "seconds": total, "command": command}))
        return
    print(f"{spec.question}\n{counted(len(cells), 'level')} x {each} of each, {asked.card.name}")
    for line in _cell_lines(cells):
        print(line)
    for line in listed_lines("fits", advice(question, largest, ways)):
        print(line)
    print(f"time        {duration(total)} ({total / 3600:.2f} h) one after the other on {counted(largest.gpus, 'GPU')}")
    for line in command_lines(words, settings, of_all):
        print(line)
    for key, word in to_name.items():
        if key not in of_all:
            print(f"            {set_by_levels(key, word)}")


def _cell_lines(cells: Sequence[tuple[str, "Question", "Estimate"]]) -> list[str]:
    """A line a cell, by its label, and what was assumed of any."""
    lines, width = [], max(len(label) for label, *_ in cells)
    for label, _, found in cells:
        tokens = sum(cost.tokens for cost in found.phases)
        verdict = "" if found.fits else "  does not fit"
        lines.append(
            f"  {label:<{width}}  {tokens / 1e6:>10,.2f} M tokens  {found.held / 2**30:>7.2f} GiB held  "
            f"{duration(found.seconds):>10} each{verdict}"
        )
    return lines + [
        f"assumed     {note}" for note in dict.fromkeys(note for *_, found in cells for note in found.work.notes)
    ]
