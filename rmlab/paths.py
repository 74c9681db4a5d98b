"""Where things are. rmlab runs from its clone, so everything is relative to the repository's root."""

import os
import re
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
CONF = REPOSITORY / "conf"
SWEEPS = REPOSITORY / "sweeps"
PROGRAMS = REPOSITORY / "experiments" / "programs"
PROGRAMS_PACKAGE = "experiments.programs"
BENCHMARKS = REPOSITORY / "experiments" / "benchmarks"
STARTER = REPOSITORY / "rmlab" / "starter"


def runs_folder() -> Path:
    """Store, artifacts, caches, figures: `$RMLAB_RUNS` where it is set (a test, a scratch disk), else `runs/` in the clone."""
    return Path(os.path.realpath(os.environ.get("RMLAB_RUNS") or REPOSITORY / "runs"))


def portable(text: str) -> str:
    """A text of a record with paths that mean the same in every clone: below the repository without its root, below the runs folder
    from `runs/` on, below the home folder from `~/` on. Other paths stay as they are."""
    roots = ((f"{runs_folder()}", "runs"), (f"{REPOSITORY}/", ""), (f"{REPOSITORY}", "."), (f"{Path.home()}", "~"))
    for root, name in roots:
        if root.strip("/") and root in text:  # a look for the whole root takes a hundredth of the pattern's time
            end = r"(?=\w|\.\w)" if root.endswith("/") else r"(?![\w-])(?!\.\w)"
            text = re.sub(rf"(?<![\w.~-]){re.escape(root)}{end}", name, text)
    return text


def located(text: str) -> Path:
    """The path here of one that a record has, as `portable` wrote it: below this runs folder, this home folder or, where the working
    folder has nothing there, this clone."""
    path = Path(text).expanduser()
    if path.parts[:1] == ("runs",) and (own := runs_folder().joinpath(*path.parts[1:])).exists():
        return own
    return path if path.is_absolute() or path.exists() else REPOSITORY / path
