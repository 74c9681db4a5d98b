"""Makes .venv from the lock. Runs on a bare Python: standard library only.

usage: python .ci/environment.py [EXTRA ...]        (EXTRA: an optional group of pyproject.toml, e.g. dev)

Where the Python that runs this already has a torch at or above the floor of pyproject.toml (a CUDA build, say), the
environment sees that Python's packages, and those that are at their floor are used as they are, not pinned.
TORCH_INDEX (environment): a package index to take the torch wheel from, e.g. one with CPU builds.
"""

import hashlib
import importlib.metadata
import os
import re
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
STAMP = VENV / "rmlab-installed"
MADE_BY = VENV / "rmlab-python"
PACKAGES = VENV / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"


def version_tuple(version: str) -> tuple[int, ...]:
    """Leading numbers of a version: enough to compare a release with a floor."""
    return tuple(int(part) for part in re.match(r"[0-9]+(\.[0-9]+)*", version).group().split("."))


def normalised(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def floors() -> dict[str, tuple[int, ...]]:
    import tomllib

    dependencies = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    pairs = (re.match(r"([A-Za-z0-9_.-]+?)>=([0-9.]+)$", line) for line in dependencies)
    return {normalised(m.group(1)): version_tuple(m.group(2)) for m in pairs if m}


def usable_here(floor: dict[str, tuple[int, ...]]) -> set[str]:
    """Packages of this Python that may serve as they are: at their floor, or without one. Empty where torch is not."""
    here = {normalised(d.metadata["Name"]): d.version for d in importlib.metadata.distributions() if d.metadata["Name"]}
    if "torch" not in here or version_tuple(here["torch"]) < floor["torch"]:
        return set()
    return {name for name, version in here.items() if version_tuple(version) >= floor.get(name, ())}


def create(inherit: bool) -> None:
    """An empty environment; with `inherit` it also sees the packages of this Python, be that a system or an environment."""
    venv.EnvBuilder(clear=True, with_pip=True, symlinks=True).create(VENV)
    if inherit:
        folders = [p for p in sys.path if Path(p).name in ("site-packages", "dist-packages")]
        lines = [f"import site; site.addsitedir({folder!r})" for folder in folders]
        (PACKAGES / "inherited.pth").write_text("\n".join(lines) + "\n")


def pip(*arguments: str) -> None:
    command = [
        str(VENV / "bin" / "python"),
        "-m",
        "pip",
        "--disable-pip-version-check",
        "install",
        "--quiet",
        "--no-compile",
        *arguments,
    ]
    if subprocess.run(command).returncode:
        sys.exit(
            f"setting up .venv failed at: pip install {' '.join(arguments)}\nMend what pip says above and run make again."
        )


def compile_packages() -> None:
    """Compiles what was installed on all cores, where pip would use one. What does not compile is meant for another Python.

    The packages' own tests and models that nobody loads, a quarter of all, are left to the first import.
    """
    seldom = r"/tests?/|/transformers/models/"
    subprocess.run([str(VENV / "bin" / "python"), "-m", "compileall", "-qq", "-j", "0", "-x", seldom, str(PACKAGES)])


def outside(extras: list[str]) -> None:
    """Where .venv is activated and so runs this itself, the Python that made it goes on: it cannot be made from itself."""
    if Path(sys.prefix).resolve() != VENV.resolve():
        return
    maker = MADE_BY.read_text().strip() if MADE_BY.exists() else sys._base_executable
    if not Path(maker).exists() or Path(maker).parent.parent.resolve() == VENV.resolve():
        maker = sys._base_executable
    os.execv(maker, [maker, str(Path(__file__).resolve()), *extras])


def main(extras: list[str]) -> None:
    outside(extras)
    if sys.version_info < (3, 11):  # noqa: UP036 (the one place that says so to an older Python)
        sys.exit(
            f"rmlab needs Python 3.11 or newer; {sys.executable} is {sys.version.split()[0]}. Use make PYTHON=python3.12, say."
        )
    constraints = (ROOT / "constraints.txt").read_text()
    content = "\n".join([sys.version, sys.prefix, constraints, (ROOT / "pyproject.toml").read_text()])
    key = hashlib.sha256(content.encode()).hexdigest()
    stamp = STAMP.read_text().split() if STAMP.exists() else []
    if stamp and stamp[0] == key and set(extras) <= set(stamp[1:]):
        return
    extras = sorted(set(extras) | (set(stamp[1:]) if stamp and stamp[0] == key else set()))
    ready = usable_here(floors())
    if not stamp or stamp[0] != key:
        print(
            f"Setting up .venv (Python {sys.version.split()[0]}{', with the packages of ' + sys.prefix if ready else ''}); "
            "a minute or more the first time ...",
            flush=True,
        )
        create(inherit=bool(ready))
        MADE_BY.write_text(sys.executable + "\n")
    lock = [line for line in constraints.splitlines() if normalised(line.split("==")[0]) not in ready]
    pinned = VENV / "constraints.txt"
    pinned.write_text("\n".join(lock) + "\n")
    torch = next((line for line in lock if line.startswith("torch==")), None)
    if os.environ.get("TORCH_INDEX") and torch:
        pip(torch, "--index-url", os.environ["TORCH_INDEX"])
    pip("--constraint", str(pinned), "--editable", f"{ROOT}[{','.join(extras)}]" if extras else str(ROOT))
    compile_packages()
    STAMP.write_text(" ".join([key, *extras]) + "\n")
    print("Done: .venv is set up. `make demo` runs the demo; `.venv/bin/rmlab --help` shows the commands.", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
