"""What a policy learns from, and what it is evaluated on afterwards."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rmlab.errors import DataError, UsageError
from rmlab.fingerprint import fingerprint
from rmlab.microswe import actions as grammar
from rmlab.microswe.episode import Edits, EnvironmentConfig, replayed
from rmlab.microswe.task import Task
from rmlab.models.tokenizer import IM_END
from rmlab.policies.conversation import OPEN, PolicyPrompt
from rmlab.training.batching import SFTExample
from rmlab.trajectories.record import Trajectory
from rmlab.trajectories.store import TrajectorySet
from rmlab.wording import counted


@dataclass
class DemonstrationsConfig:
    """paths: trajectory sets whose supervised part is learned from. most: number of attempts, drawn by seed; null = all.

    finished_only: learn only from attempts that were submitted resolved, or with their last turn (wrong edits on the way stay in
    the context). A policy trained on unfinished attempts does not finish its own. repeat: how often each occurs in an epoch,
    while repairs occur once. capacity: tokens of a conversation.
    """

    paths: list[str] = field(default_factory=list)
    most: int | None = None
    finished_only: bool = False
    repeat: int = 1
    capacity: int = 640


@dataclass
class RepairsConfig:
    """corpus: pretraining corpus whose functions are broken. each: repairs per function; 0 = none, and no corpus is read."""

    corpus: str = ""
    each: int = 0


@dataclass
class HeldOutConfig:
    """What is measured. tasks: number per part, null = all that hold, 0 = measure nothing. attempts: sampled attempts per task."""

    parts: list[str] = field(default_factory=lambda: ["validation", "rl"])
    tasks: int | None = None
    attempts: int = 4
    temperature: float = 1.0
    max_action_tokens: int = 64


SEMANTICS = 2  # bumped when the same attempt teaches something else
WRONG = "wrong"
TOKENISED_AT_ONCE = 20_000  # texts: a tokenizer's answer takes much more room than its ids
TURN = f"{IM_END}\n{OPEN}"


@dataclass(frozen=True)
class Lessons:
    """lessons: those that hold a right action and fit. actions: how many are taught, by kind, and how many are not (`wrong`).

    left_out: reason -> attempts.
    """

    lessons: tuple[SFTExample, ...]
    actions: dict[str, int]
    left_out: dict[str, int]


def label_actions(trajectory: Trajectory, max_turns: int | None = None, edits: Edits = Edits.build_up) -> list[str]:
    """Of each message of the agent in order: "edit", "run" or "submit" where it is right, "wrong" where it is not.

    max_turns, edits: of the environment. The last turn is for submitting; None = nobody counts. Raises DataError where the
    conversation is no micro-SWE episode.
    """
    messages = [m.content for m in trajectory.messages if m.role == "assistant"]
    programs = replayed(program(trajectory), messages, edits)
    before, after = programs[0], programs[-1]
    final = after.split("\n")
    shown = {before}  # the issue shows what the first program gives
    verdicts = []
    for turn, (action, code, changed) in enumerate(
        zip(map(grammar.try_parse, messages), programs[:-1], programs[1:], strict=True), 1
    ):
        if isinstance(action, grammar.Edit):
            if edits is Edits.start_over:
                mends = code != changed == after
            else:
                mends = changed != code and changed.split("\n")[action.line - 1] == final[action.line - 1]
            verdicts.append("edit" if mends and trajectory.resolved else WRONG)
        elif isinstance(action, grammar.Run):
            verdicts.append(WRONG if code in shown else "run")
            shown.add(code)
        else:
            due = trajectory.resolved or turn == max_turns
            verdicts.append("submit" if isinstance(action, grammar.Submit) and due else WRONG)
    return verdicts


def program(trajectory: Trajectory) -> str:
    """The program that the issue shows. Raises DataError where the first message numbers none."""
    lines = trajectory.messages[0].content.split("\n") if trajectory.messages else []
    # what the issue says may itself run over lines: the program is the longest tail that is numbered 1, 2, ...
    for start in range(1, len(lines)):
        numbered = lines[start:]
        if all(line.startswith(f"{n} ") or line == str(n) for n, line in enumerate(numbered, 1)):
            return "\n".join(line[len(str(n)) + 1 :] for n, line in enumerate(numbered, 1))
    raise DataError(
        f"trajectory {trajectory.trajectory_id} is not a micro-SWE episode: its first message shows no numbered program. "
        "Demonstrations come from `rmlab collect`."
    )


def ended_well(trajectory: Trajectory, max_turns: int) -> bool:
    """Whether it was submitted, resolved or with the last turn."""
    turns = sum(message.role == "assistant" for message in trajectory.messages)
    return trajectory.exit_status == "submitted" and (trajectory.resolved is True or turns == max_turns)


def lessons(
    trajectories: Iterable[Trajectory],
    prompt: PolicyPrompt,
    capacity: int,
    max_turns: int | None = None,
    edits: Edits = Edits.build_up,
) -> Lessons:
    """What is taught of each attempt, in order. capacity: tokens that a lesson may have. max_turns, edits: as in `label_actions`.

    The environment's last message (`final got 7`) is not read: a policy never sees it.
    """
    made: list[SFTExample] = []
    actions: Counter[str] = Counter()
    left_out: Counter[str] = Counter()
    for trajectory in trajectories:
        verdicts = label_actions(trajectory, max_turns, edits)
        if all(verdict == WRONG for verdict in verdicts):
            left_out["no right action"] += 1
            continue
        lesson = _lesson(trajectory, verdicts, prompt)
        if len(lesson.ids_T) > capacity:
            left_out[f"over {capacity} tokens"] += 1
            continue
        made.append(lesson)
        actions.update(verdicts)
    return Lessons(tuple(made), dict(sorted(actions.items())), dict(sorted(left_out.items())))


def repair_lessons(texts: Sequence[str], prompt: PolicyPrompt, capacity: int) -> list[SFTExample]:
    """Repairs of a corpus as lessons: the numbered program is read, the edit is taught. Those over `capacity` tokens are left out."""
    made: list[SFTExample] = []
    for start in range(0, len(texts), TOKENISED_AT_ONCE):
        part = texts[start : start + TOKENISED_AT_ONCE]
        halves = [text.removesuffix(f"{IM_END}\n").partition(TURN) for text in part]
        if wrong := next((text for text, (_, turn, _) in zip(part, halves, strict=True) if not turn), None):
            raise DataError(f"{wrong[:60]!r} is not a repair: it has no turn of the assistant")
        read = prompt.begun([f"{shown}{TURN}" for shown, _, _ in halves])
        answers = prompt.ended([edit for _, _, edit in halves])
        pairs = zip(read, answers, strict=True)
        made += [_joined([(shown, False), (edit, True)]) for shown, edit in pairs if len(shown) + len(edit) <= capacity]
    return made


def _lesson(trajectory: Trajectory, verdicts: Sequence[str], prompt: PolicyPrompt) -> SFTExample:
    pieces: list[tuple[list[int], bool]] = []
    remaining = iter(verdicts)
    for message in trajectory.messages[: _last_answer(trajectory) + 1]:
        if message.role == "assistant":
            pieces.append((prompt.message(message.content), next(remaining) != WRONG))
        else:
            pieces.append((prompt.observation(message.content) if pieces else prompt.issue(message.content), False))
    return _joined(pieces)


def _last_answer(trajectory: Trajectory) -> int:
    return max(i for i, message in enumerate(trajectory.messages) if message.role == "assistant")


def _joined(pieces: Sequence[tuple[Sequence[int], bool]]) -> SFTExample:
    ids = [one for piece, _ in pieces for one in piece]
    taught = [right for piece, right in pieces for _ in piece]
    return SFTExample(np.array(ids, dtype=np.int32), np.array(taught, dtype=np.bool_))


def training_set(
    pools: Sequence[TrajectorySet],
    repairs: Sequence[str],
    prompt: PolicyPrompt,
    config: DemonstrationsConfig,
    environment: EnvironmentConfig,
    tasks: Sequence[Task],
    seed: int,
) -> tuple[list[SFTExample], dict[str, Any]]:
    """What is taught, and for the policy's record how much of what was left out (`counts`) and which clusters were shown."""
    chosen, counts = attempts_to_learn_from(pools, config, environment, tasks, seed)
    taught = lessons(chosen, prompt, config.capacity, environment.max_turns, environment.edits)
    repaired = repair_lessons(repairs, prompt, config.capacity)
    counts |= {
        "lessons": len(taught.lessons),
        "actions": taught.actions,
        "left_out": taught.left_out,
        "repairs": len(repaired),
        "repairs_too_long": len(repairs) - len(repaired),
    }
    shown = {"counts": counts, "shown_clusters": sorted({t.cluster for t in chosen})}
    return [*list(taught.lessons) * config.repeat, *repaired], shown


def counts_in_words(counts: Mapping[str, Any]) -> str:
    """The `counts` of `training_set` as a sentence: what is taught, and what was left out and why."""
    taught = counted(counts["lessons"], "lesson") + f" from {counted(counts['attempts'], 'attempt')}"
    kinds = ", ".join(f"{many:,} {kind}" for kind, many in counts["actions"].items())
    out = {"not ended well": counts["not_ended_well"], **counts["left_out"]}
    out |= {f"of the part {part}": many for part, many in counts["of_other_parts"].items()}
    out |= {"repairs too long": counts["repairs_too_long"]}
    left = ", ".join(f"{many:,} {reason}" for reason, many in out.items() if many)
    repairs = f"; {counted(counts['repairs'], 'repair')}" if counts["repairs"] else ""
    return f"{taught} (actions: {kinds or 'none'}){repairs}" + (f"; left out: {left}" if left else "")


def attempts_to_learn_from(
    pools: Sequence[TrajectorySet],
    config: DemonstrationsConfig,
    environment: EnvironmentConfig,
    tasks: Sequence[Task],
    seed: int,
) -> tuple[list[Trajectory], dict[str, Any]]:
    """The attempts, drawn by seed where `config.most` says so, and how many were left out and why.

    pools: one a path of `config.paths`. tasks: all that anything is measured or trained on later; what is demonstrated may share
    no cluster with those of another part than `supervised`. Raises UsageError for other rules of play, DataError where nothing
    is left or a cluster is shared.
    """
    for path, pool in zip(config.paths, pools, strict=True):
        _check_rules(path, pool, environment)
    attempts = [t for pool in pools for t in pool.trajectories if t.split == "supervised"]
    others = Counter(str(t.split) for pool in pools for t in pool.trajectories if t.split != "supervised")
    if not attempts:
        raise DataError(
            f"{', '.join(config.paths) or 'demonstrations.paths'}: there is no attempt of the supervised part to learn from"
        )
    held_out = {task.cluster: task for task in tasks if task.part != "supervised"}
    if mixed := next((t for t in attempts if t.cluster in held_out), None):
        task = held_out[mixed.cluster]
        raise DataError(
            f"trajectory {mixed.trajectory_id} is labelled as supervised part, but {task.task_id} of the part "
            f"{task.part} is in its cluster {mixed.cluster}: the parts never mix. Collect demonstrations again from the "
            "tasks files that are named here."
        )
    turns = environment.max_turns
    whole = [t for t in attempts if ended_well(t, turns)] if config.finished_only else attempts
    if not whole:
        raise DataError(
            f"demonstrations.finished_only=true: none of {len(attempts)} attempts was submitted resolved or with its last "
            "turn. Collect more, or use all attempts with finished_only=false."
        )
    chosen = sorted(whole, key=lambda t: fingerprint([seed, t.trajectory_id]))[: config.most]
    return chosen, {
        "attempts": len(chosen),
        "not_ended_well": len(attempts) - len(whole),
        "of_other_parts": dict(sorted(others.items())),
    }


def _check_rules(path: str, pool: TrajectorySet, environment: EnvironmentConfig) -> None:
    """Sets from before these were recorded were played with edits that build up, in any number of turns."""
    played = pool.metadata.get("edits", Edits.build_up.value)
    if played != environment.edits.value:
        raise UsageError(
            f"{path} was collected with environment.edits={played}, but environment.edits={environment.edits.value} is set, which "
            "changes the correct edits. Collect again, or use the other value."
        )
    turns = pool.metadata.get("max_turns")
    if turns is not None and int(turns) != environment.max_turns:
        raise UsageError(
            f"{path} was collected with environment.max_turns={turns}, but environment.max_turns={environment.max_turns} is set, "
            "and the last turn is for submitting. Collect again, or use the other value."
        )
