"""What do the programs of policies ask of a device (pretraining, warm start, RL, collecting)? From their composed configurations."""

import math
from pathlib import Path
from typing import Any

from rmlab.errors import DataError
from rmlab.models.cost import GRAPHED_WORK, ModelShape, Reading, known_shape, reading
from rmlab.paths import portable
from rmlab.planning.assumed import (
    EPISODE_TOKENS,
    EPISODE_TURNS,
    ISSUE_TOKENS,
    SAID_TOKENS,
    Assumed,
    around,
    model_shape,
    named_shape,
    names_open_model,
    read_texts,
    spread,
)
from rmlab.planning.memory import TrainingMemory
from rmlab.planning.phases import (
    VERIFIER,
    Phase,
    RolloutPhase,
    ScoringPhase,
    TrainingPhase,
    Work,
    every_position,
    largest_micro_batch,
)
from rmlab.rl.config import check_options
from rmlab.training.batching import total_steps
from rmlab.training.config import Dtype

DEMONSTRATIONS = 50_000


def warm_start_work(settings: Any, assumed: Assumed) -> Work:
    """Of `rmlab warm-start`: demonstrations are imitated, then the policy plays held-out tasks."""
    shape, name = model_shape(settings.model, assumed)
    config = settings.demonstrations
    lengths: list[int] = []
    for path in config.paths:
        if Path(path).is_file():
            lengths += read_texts(Path(path)).tokens(shape.vocabulary, "supervised")
            assumed.note(f"lengths are estimated from the characters of {portable(path)}")
        else:
            assumed.note(
                f"{portable(path)} does not exist: {DEMONSTRATIONS:,} demonstrations of {assumed.episode} tokens are assumed"
            )
            lengths += [assumed.episode] * DEMONSTRATIONS
    if assumed.mean_tokens is not None:
        lengths = around(min(assumed.episode, config.capacity), config.capacity, len(lengths))
        assumed.note(
            f"--mean-tokens {assumed.episode}: demonstrations of this length on average, the longest {lengths[-1]:,}"
        )
    lengths = [n for n in sorted(lengths) if n <= config.capacity] or [EPISODE_TOKENS]
    count = min(config.most or len(lengths), len(lengths)) * config.repeat
    training = settings.training
    steps = total_steps(count, training)
    chosen = spread(lengths, min(count, 5000))
    share = SAID_TOKENS / EPISODE_TOKENS
    tokens, rows, parts = largest_micro_batch(chosen, training, settings.runtime)
    one = reading(chosen, round(sum(chosen) * share), every_position=True)
    half = training.dtype is Dtype.bfloat16
    rank, compiled = settings.lora.rank, settings.runtime.compiled
    run = TrainingMemory(
        half, rank, training.checkpointing, tokens, rows, round(tokens * share), parts, True, compiled=compiled
    )
    phases: list[Phase] = [
        TrainingPhase(shape, one.scaled(training.epochs * count / len(chosen)), steps, run, "imitation")
    ]
    held_out = settings.held_out
    if held_out.tasks != 0:
        attempts = len(held_out.parts) * (held_out.tasks or 1000) * (held_out.attempts + 1)
        phases.append(_rollouts(shape, attempts, settings.engine, assumed, "held-out tasks"))
        assumed.note(
            f"attempts of {assumed.episode} tokens, {assumed.of_episode(SAID_TOKENS)} of them said, are assumed"
        )
    return Work(name, tuple(phases), half=half)


def _rollouts(shape: ModelShape, attempts: int, engine: Any, assumed: Assumed, name: str = "rollouts") -> RolloutPhase:
    read, said = assumed.episode, assumed.of_episode(SAID_TOKENS)
    return RolloutPhase(shape, attempts, engine.slots, engine.capacity, engine.dtype == "bfloat16", read, said, name)


def pretrain_work(settings: Any, assumed: Assumed) -> Work:
    """Of `rmlab pretrain`: the tokens that are asked for, whatever the minutes."""
    shape, name = model_shape(settings.model, assumed)
    config = settings.training
    rows = max(config.batch_tokens // config.context, 1)
    steps = max(config.tokens // config.batch_tokens, 1)
    one = reading([config.context] * rows, rows * config.context, every_position=True)
    half = config.dtype is Dtype.bfloat16
    run = TrainingMemory(half, 0, False, config.batch_tokens, rows, config.batch_tokens, 1, True)
    if assumed.mean_tokens is not None:
        assumed.note("--mean-tokens does not apply to pretraining, which reads rows of training.context tokens")
    assumed.note(f"training.max_minutes={config.max_minutes:g} may end it earlier")
    return Work(name, (TrainingPhase(shape, one.scaled(steps), steps, run, "pretraining"),), half=half)


def rl_work(settings: Any, assumed: Assumed) -> Work:
    """Of `rmlab rl`: rollouts, scores and updates of all steps, and the evaluations beside them."""
    shape, name = _policy_shape(settings.start, "start", assumed)
    loop, watch, half = settings.rl, settings.watch, settings.training.dtype is Dtype.bfloat16
    check_options(loop)
    attempts = loop.groups * loop.attempts
    updates = min(loop.updates, attempts)
    episode, said, issue = assumed.episode, assumed.of_episode(SAID_TOKENS), assumed.of_episode(ISSUE_TOKENS)
    issue *= half  # packed into a row, attempts at one task are read behind one issue (`rmlab.models.packed`)
    assumed.note(
        f"attempts of {episode} tokens, {said} of them said in {EPISODE_TURNS} turns, are assumed"
        + (f", {issue} before the first, shared by the attempts at one task" if issue else "")
        + "; the time of their programs is not counted"
    )
    alike = max(loop.attempts / updates, 1)  # attempts at one task in an optimiser step
    one = branched(attempts, issue, episode - issue, alike, said)
    rows = max(int(loop.batch_tokens / (one.tokens / attempts)), 1)
    parts = math.ceil(attempts / updates / rows)
    run = TrainingMemory(half, settings.lora.rank, False, loop.batch_tokens, rows, rows * said, parts, True)
    evaluations = 2 + (max(loop.steps // watch.every - 1, 0) if watch.every else 0)
    held_out = 4 * (watch.held_out_tasks or 400) * (watch.held_out_attempts + 1) * 2 if watch.held_out_tasks != 0 else 0
    beside = evaluations * (watch.tasks or 400) * watch.attempts + held_out
    learned = one.scaled(loop.steps * loop.passes)
    stepped: list[Phase] = [
        TrainingPhase(shape, learned, loop.steps * updates * loop.passes, run, "updates"),
        _rollouts(shape, attempts * loop.steps, settings.engine, assumed),
    ]
    phases = stepped if loop.steps else []
    phases.append(_rollouts(shape, beside, settings.engine, assumed, "evaluations"))
    # of the first optimiser step they are those of the pass that is trained (`rmlab.rl.update`)
    behind = one.scaled(loop.steps * (updates - 1) / updates)
    started = one.scaled(loop.steps if settings.algorithm.kl_weight else min(evaluations - 1, loop.steps))
    copied = not settings.lora.rank  # with adapters the start is the model without them
    for name_of, read, owner in (
        ("log-probabilities before", behind, ""),
        ("log-probabilities of the start", started, "start" if copied else ""),
    ):
        if read.tokens or owner:
            phases.append(ScoringPhase(shape, read, loop.batch_tokens, half, name=name_of, owner=owner))
    for judge in _verifiers(settings, shape, assumed):
        read = reading([episode] * (attempts * loop.steps + beside), every_position=every_position(judge, False))
        phases.append(ScoringPhase(judge, read, loop.batch_tokens, half, name="verifier", owner=VERIFIER))
    graphs = bool(loop.steps) and half and not shape.experts and shape.weights * loop.batch_tokens <= GRAPHED_WORK
    return Work(name, tuple(phases), together=True, half=half, graphs=graphs)


ENSEMBLE = "reward.ensemble"


def _verifiers(settings: Any, policy: ModelShape, assumed: Assumed) -> list[ModelShape]:
    """Of the verifiers that score in RL; where the reward needs one that is not named yet, of one shaped as the policy.

    Raises UsageError for a reward that the program refuses whichever verifier is named.
    """
    from rmlab.rl.rewards import REWARDS, check_reward  # the plans of other programs need no rewards

    reward, named = settings.reward, settings.verifier
    check_reward(reward, named or "a verifier that is assumed")
    shapes = [
        _policy_shape(name, key, assumed)[0]
        for key, names in (("verifier", [named] if named else []), (ENSEMBLE, reward.ensemble))
        for name in names
    ]
    if ENSEMBLE in assumed.to_name:
        members = ("VERIFIER" if names_open_model(name) else name for name in reward.ensemble)
        assumed.to_name[ENSEMBLE] = f"[{','.join(members)}]"
    if not named and (REWARDS[reward.mode].needs_score or shapes):
        assumed.note(
            f"reward={reward.mode} needs a verifier and none is named: one of the start's shape is assumed; name it with verifier=RUN, "
            "CELL or FOLDER"
        )
        assumed.to_name["verifier"] = "VERIFIER"
        shapes.insert(0, policy)
    return shapes


def branched(attempts: int, issue: int, own: int, alike: float, said: int) -> Reading:
    """Of attempts of `own` tokens behind an issue that `alike` of them share, read once."""
    issues = attempts / alike
    pairs = issues * issue * (issue + 1) / 2 + attempts * own * (issue + (own + 1) / 2)
    return Reading(attempts, round(issues * issue + attempts * own), round(pairs), attempts * said, True)


def _policy_shape(name: str, key: str, assumed: Assumed) -> tuple[ModelShape, str]:
    """Of a folder or a known name; a run's name is not looked up (that would open the store): a small model is assumed."""
    try:
        found = named_shape(name)
        if names_open_model(name):
            assumed.to_name[key] = "VERIFIER" if key in ("verifier", ENSEMBLE) else "POLICY"
        return found
    except DataError:
        assumed.note(
            f"{key}={name} is no folder with a model: the shape of SmolLM2-135M is assumed; name a folder, or an open model"
        )
        small = known_shape("SmolLM2-135M")
        assert small is not None
        return small


def collect_work(settings: Any, assumed: Assumed) -> Work:
    """Of `rmlab collect`: what language models say; scripts need no device."""
    phases: list[Phase] = []
    names = []
    scripted = 0
    for part in ("supervised", "verifier", "validation", "rl", "evaluation"):
        config = getattr(settings.parts, part)
        if config.tasks == 0:
            continue
        for name in config.policies or settings.names:
            attempts = (config.tasks or 1000) * config.attempts
            if name not in settings.language:
                scripted += attempts
                continue
            policy = settings.language[name]
            shape, model = _policy_shape(policy.model, f"language.{name}.model", assumed)
            names.append(model)
            phases.append(_rollouts(shape, attempts, policy.engine, assumed, f"{name}, {part}"))
    if scripted:
        assumed.note(
            f"{scripted:,} attempts of scripts need only the CPU (for their programs, see `rmlab bench execution`)"
        )
    if phases:
        assumed.note(
            f"attempts of {assumed.episode} tokens, {assumed.of_episode(SAID_TOKENS)} of them said, are assumed; the time of "
            "their programs is not counted"
        )
    half = all(phase.half for phase in phases if isinstance(phase, RolloutPhase))
    return Work(", ".join(dict.fromkeys(names)) or "scripts", tuple(phases), half=half)
