"""Where things are. rmlab runs from its clone, so everything is relative to the repository's root."""

import os
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
CONF = REPOSITORY / "conf"
SWEEPS = REPOSITORY / "sweeps"
PROGRAMS = REPOSITORY / "experiments" / "programs"
STARTER = REPOSITORY / "rmlab" / "starter"


def runs_folder() -> Path:
    """Store, artifacts, caches, figures: `$RMLAB_RUNS` where it is set (a test, a scratch disk), else `runs/` in the clone."""
    return Path(os.path.realpath(os.environ.get("RMLAB_RUNS") or REPOSITORY / "runs"))
