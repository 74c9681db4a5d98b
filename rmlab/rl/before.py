"""The start's results on held-out tasks are the same in all runs that begin from it with one seed, so they are measured once and kept.
So is how difficult tasks are for it. Each run makes the start's attempts at validation tasks itself, and its own verifier scores them.

Each attempt has its own random stream (seed, task, name, number), so such runs would make the same attempts at step 0 if the
arithmetic is deterministic (float32 on a CPU), and elsewhere attempts that differ only by rounding. Other seeds make other attempts.
"""

import json
import platform
from collections.abc import Callable
from typing import Any, TypeVar

from rmlab.files import made_once, write_text
from rmlab.fingerprint import fingerprint, hashed_fields
from rmlab.microswe import loading
from rmlab.paths import runs_folder
from rmlab.rl.config import SEMANTICS, RLRun
from rmlab.tracking.tags import commit

Measured = TypeVar("Measured")


def beginning(settings: RLRun, start: str, device: str) -> list[Any]:
    """All that decides what the attempts of a start at a task are: the code and what runs programs here too, so that "before" and "after"
    are of one environment. start: its fingerprint. device: cpu or cuda."""
    return [
        SEMANTICS,
        [loading.SEMANTICS, platform.python_version(), platform.machine(), commit()],
        start,
        device,
        settings.name,
        settings.seed,
        *(hashed_fields(part) for part in (settings.environment, settings.engine, settings.lora, settings.training)),
        [settings.rl.temperature, settings.rl.max_action_tokens, settings.rl.retries, settings.limits.batch_seconds],
    ]


def once(identity: list[Any], measure: Callable[[], Measured]) -> tuple[Measured, bool]:
    """What `measure` gives, as JSON has it, and whether it was kept already. Of runs that begin at once on a machine one measures.

    identity: of everything that the result depends on. Raises what `made_once` raises.
    """
    kept = runs_folder() / "cache" / f"before-{fingerprint(identity)}.json"
    measured = made_once(kept, lambda: write_text(kept, json.dumps(measure())))
    result: Measured = json.loads(kept.read_text(encoding="utf-8"))
    return result, not measured
