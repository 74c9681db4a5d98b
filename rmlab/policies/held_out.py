"""How many tasks of parts that it has not learned from does a policy solve, sampled and greedy?"""

from typing import TYPE_CHECKING, Any

from rmlab.errors import UsageError
from rmlab.fingerprint import fingerprint
from rmlab.microswe.episode import EnvironmentConfig
from rmlab.microswe.loading import LoadedTasks
from rmlab.microswe.sandbox import Sandbox
from rmlab.microswe.task import Task
from rmlab.policies.demonstrations_config import HeldOutConfig
from rmlab.policies.engine import EngineConfig, Sampling
from rmlab.policies.rollout import Planned, plan
from rmlab.policies.success import Success, success
from rmlab.progress import progress
from rmlab.training.config import RuntimeConfig
from rmlab.wording import counted

if TYPE_CHECKING:
    from rmlab.models.tokenizer import Tokenizer


def held_out_success(
    model: Any,
    tokenizer: "Tokenizer",
    title: str = "",
    *,
    loaded: LoadedTasks,
    sandbox: Sandbox,
    config: HeldOutConfig,
    environment: EnvironmentConfig,
    engine: EngineConfig,
    runtime: RuntimeConfig,
    name: str,
    seed: int,
) -> dict[str, Success]:
    """pass@1 by PART_sampled and PART_greedy, {} where config.tasks is 0; prints a line each, behind the title.

    name: of the policy, by which its attempts are drawn. Raises UsageError as `held_out_tasks` does.
    """
    from rmlab.policies.language_engine import LanguageEngine
    from rmlab.training.device import resolve_device

    found = dict[str, Success]()
    if config.tasks == 0:
        return {}
    playing = LanguageEngine(model, tokenizer, sandbox, environment, engine, resolve_device(runtime.device))
    wanted: list[tuple[str, Planned, Sampling]] = []  # all in one queue: only one of them waits for its longest line
    for part in config.parts:
        chosen = held_out_tasks(loaded, part, config.tasks, seed)
        for way, temperature, attempts in (("sampled", config.temperature, config.attempts), ("greedy", 0.0, 1)):
            sampling = Sampling(temperature, config.max_action_tokens)
            wanted += [(f"{part}_{way}", planned, sampling) for planned in plan(chosen, [name], attempts)]
    with progress("held out", len(wanted), "episodes", runtime.progress) as advance:
        made = playing.rollout(
            [planned for _, planned, _ in wanted], [sampling for _, _, sampling in wanted], seed, advance
        )
    for which in dict.fromkeys(which for which, _, _ in wanted):
        found[which] = success(
            [rollout.trajectory for rollout, (own, _, _) in zip(made, wanted, strict=True) if own == which]
        )
        print(f"{title}{which.replace('_', ', ')}: {found[which]}")
    print(f"{title}{len(made)} held-out attempts in {playing.seconds}")
    return found


def held_out_tasks(loaded: LoadedTasks, part: str, number: int | None, seed: int) -> list[Task]:
    """Tasks of a part, drawn by seed. Raises UsageError for the supervised part, an unknown one, or too few."""
    tasks = [task for task in loaded.tasks if task.part == part]
    if part == "supervised" or len(tasks) < (number or 1):
        raise UsageError(
            f"held_out.parts={part}, held_out.tasks={number}: that part has {counted(len(tasks), 'task')} here, and the "
            "supervised part is learned from. Choose among validation, rl, verifier, evaluation."
        )
    return sorted(tasks, key=lambda task: fingerprint([seed, task.task_id]))[:number]
