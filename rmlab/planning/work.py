"""What does a program ask of a device? By its name, from its composed configuration and the data that it names."""

from collections.abc import Callable
from typing import Any

from rmlab.errors import UsageError
from rmlab.planning.assumed import Assumed
from rmlab.planning.phases import Work
from rmlab.planning.policy_work import collect_work, pretrain_work, rl_work, warm_start_work
from rmlab.planning.verifier_work import verifier_work

WORK: dict[str, Callable[[Any, Assumed], Work]] = {
    "train_verifier": verifier_work,
    "cross_validate": lambda settings, assumed: verifier_work(settings, assumed, settings.folds.number),
    "train_policy": warm_start_work,
    "pretrain": pretrain_work,
    "rl": rl_work,
    "collect": collect_work,
}
"""By program of experiments/programs."""


def work_of(program: str, settings: Any, assumed: Assumed) -> Work:
    """Of a program's settings. Raises UsageError for one that plans nothing."""
    if program not in WORK:
        raise UsageError(f"{program} has no plan; there are plans of {', '.join(WORK)}")
    work = WORK[program](settings, assumed)
    runtime = getattr(settings, "runtime", None)
    if getattr(runtime, "processes", 1) == 0:
        assumed.note("runtime.processes=0 takes all GPUs that are visible: 8, or as many as --gpus says")
    if runtime is not None and runtime.device == "cpu" and work.phases:
        assumed.note("it is set to run on the CPU (runtime.device=cpu); what is said here is of a GPU (runtime=cuda)")
    return work
