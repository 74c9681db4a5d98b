"""`rmlab doctor`: what works on this machine: packages, GPUs, store, sandbox, data, disk. Each line says what to do if it does not."""

import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import typer

from rmlab.errors import RmlabError
from rmlab.paths import REPOSITORY, STARTER, runs_folder

app = typer.Typer()

Verdict = Literal["ok", "note", "broken"]
FREE_GIB_WANTED = 2.0


@dataclass(frozen=True)
class Finding:
    """One line of the report: broken = the demo cannot run; note = something optional is missing."""

    subject: str
    verdict: Verdict
    text: str


def python() -> Iterator[Finding]:
    version = sys.version.split()[0]
    yield Finding("Python", "ok", f"{version} at {sys.executable}")


def packages() -> Iterator[Finding]:
    """Installed versions against the floors of pyproject.toml."""
    import importlib.metadata
    import tomllib

    from packaging.version import Version

    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    wrong, versions = [], {}
    for requirement in project["dependencies"]:
        name, floor = re.split(r">=", requirement)
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            wrong.append(f"{name} is not installed")
            continue
        if Version(versions[name]) < Version(floor):
            wrong.append(f"{name} {versions[name]} is older than {floor}")
    if wrong:
        yield Finding("packages", "broken", f"{'; '.join(wrong)}. Run `make setup`.")
    else:
        shown = ", ".join(f"{name} {versions[name]}" for name in ("torch", "transformers", "mlflow", "hydra-core"))
        yield Finding("packages", "ok", f"{len(versions)} packages meet their minimum versions ({shown})")


def devices() -> Iterator[Finding]:
    import torch

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    yield Finding(
        "CPU",
        "ok",
        f"{cores} cores usable, torch uses {torch.get_num_threads()} threads unless a preset says otherwise",
    )
    if not torch.cuda.is_available():
        yield Finding(
            "GPU", "note", "none that torch can use: presets smoke and demo run on the CPU, small needs a CUDA device"
        )
    for index in range(torch.cuda.device_count()):
        card = torch.cuda.get_device_properties(index)
        yield Finding("GPU", "ok", f"cuda:{index} {card.name}, {card.total_memory / 2**30:.0f} GiB")


def store() -> Iterator[Finding]:
    from rmlab.tracking.store import Store

    opened = Store.open(None)
    yield Finding("store", "ok", f"{opened.uri} opens")


def sandbox() -> Iterator[Finding]:
    from rmlab.microswe.sandbox import Program, Sandbox

    with Sandbox(workers=1, allow_weak=True) as box:
        [outcome] = box.run([Program(context="", code="def f(x):\n    return x + 1", entry="f", inputs=("(1,)",))])
    if outcome.error or not outcome.results[0].matches("2"):
        yield Finding("sandbox", "broken", f"f(1) must return 1 + 1, but gave {outcome}")
    elif box.isolation.weak:
        yield Finding(
            "sandbox",
            "note",
            f"runs code without containing it, so model-written code needs sandbox.allow_weak=true; isolation: {box.isolation}",
        )
    else:
        yield Finding("sandbox", "ok", f"runs code, isolated by {box.isolation.means}")


def shipped_data() -> Iterator[Finding]:
    from rmlab.microswe.task import read_tasks
    from rmlab.trajectories.store import read_trajectories

    tasks, _ = read_tasks(STARTER / "tasks.parquet")
    yield Finding("tasks", "ok", f"{len(tasks):,} micro-SWE tasks")
    pool = read_trajectories(STARTER / "trajectories.parquet")
    yield Finding("trajectories", "ok", f"{len(pool):,} in the starter set, fingerprint {pool.fingerprint}")


def disk() -> Iterator[Finding]:
    folder = runs_folder()
    existing = next(p for p in (folder, *folder.parents) if p.exists())
    free = shutil.disk_usage(existing).free / 2**30
    verdict: Verdict = "ok" if free >= FREE_GIB_WANTED else "note"
    yield Finding("disk", verdict, f"{free:.1f} GiB free for {folder} (a sweep at preset demo takes well under 1 GiB)")


CHECKS: dict[str, Callable[[], Iterator[Finding]]] = {
    "Python": python,
    "packages": packages,
    "devices": devices,
    "store": store,
    "sandbox": sandbox,
    "shipped data": shipped_data,
    "disk": disk,
}


def findings() -> Iterator[Finding]:
    """Every check in turn; a check that fails is a finding, not the end of the report."""
    for subject, check in CHECKS.items():
        try:
            yield from check()
        except (RmlabError, ImportError, OSError) as error:
            yield Finding(subject, "broken", str(error))


@app.command(epilog="Example: `rmlab doctor`")
def doctor() -> None:
    """Check what works on this machine: packages, GPUs, store, sandbox, shipped data, disk."""
    from rich.console import Console

    console = Console(highlight=False)
    marks = {"ok": "[green]ok    [/]", "note": "[yellow]note  [/]", "broken": "[red]broken[/]"}
    broken = 0
    for finding in findings():
        broken += finding.verdict == "broken"
        console.print(f"{marks[finding.verdict]} {finding.subject:<13}", end="")
        console.print(finding.text, markup=False, soft_wrap=True)
    if broken:
        raise RmlabError(f"{broken} of these would stop the demo: fix the lines marked broken.")
