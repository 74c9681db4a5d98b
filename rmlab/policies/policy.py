"""What is a policy? Something that gets many attempts in progress and returns the next action of each.

The batch is the seam: a language model generates for all attempts at once, a script goes through them one by one.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol, TypeVar

from hydra.core.config_store import ConfigStore

from rmlab.fingerprint import fingerprint
from rmlab.microswe.episode import Episode


@dataclass
class Attempt:
    """One attempt under way: its episode, the randomness that is its own, and what the policy keeps in mind of it.

    rng depends on seed, task, policy and number alone, so an attempt is the same in any batch, order and process.
    memory: the policy's; nothing else reads it.
    """

    episode: Episode
    policy: str
    number: int
    rng: random.Random
    memory: Any = None


class Policy(Protocol):
    """name: how trajectories and the factor `policy_mixture` call it."""

    name: str

    def act(self, attempts: Sequence[Attempt]) -> list[str]:
        """The next message of each attempt, in order. Only called with attempts whose episodes wait for an action."""
        ...


KINDS: dict[str, "Callable[[str, ScriptedConfig], Policy]"] = {}
Kind = TypeVar("Kind", bound="Callable[[str, ScriptedConfig], Policy]")


def policy_kind(kind: str) -> "Callable[[Kind], Kind]":
    """Registers a policy that is code: a class that is made of a name and a ScriptedConfig. `rmlab collect policy=[KIND]` plays it."""

    def register(made: Kind) -> Kind:
        KINDS[kind] = made
        node = {"kind": kind}
        ConfigStore.instance().store(
            group="policy", name=kind, package=f"policy.{kind}", node=node, provider=made.__module__
        )
        return made

    return register


def attempt_rng(seed: int, task_id: str, policy: str, number: int) -> random.Random:
    return random.Random(int(fingerprint([seed, task_id, policy, number]), 16))


class LineSearch(StrEnum):
    """Which line it turns to when it does not see the bug."""

    top_down = "top_down"  # from the first line downwards, skipping some
    suspicious = "suspicious"  # the more ways a line could be wrong, the sooner
    random = "random"  # any line
    operators = "operators"  # suspicious lines, and there one kind of change after the other, in a fixed order


class Runs(StrEnum):
    """When it looks at the public call's value."""

    never = "never"
    first = "first"  # before its first edit and after every edit
    after_edit = "after_edit"
    sometimes = "sometimes"  # before and after edits, by a coin


class Reacts(StrEnum):
    """What it does when a value is not the expected one."""

    stay = "stay"  # writes the same line again
    move = "move"  # leaves the edit in place and turns to another line
    revert = "revert"  # puts the line back, then turns to another line


class Stops(StrEnum):
    """What makes it submit."""

    match = "match"  # the expected value was shown
    patience = "patience"  # it has made as many edits as it meant to
    random = "random"  # a coin after every edit


@dataclass
class ScriptedConfig:
    """A policy's behaviour. All numbers except patience are probabilities.

    kind: which registered policy plays it (`policy_kind`). The rest is described as `scripted` uses it; another kind uses what it
    needs.
    eye: it goes to the line with the bug, whatever its search would do. hand: on that line it writes the correct
    repair; varies by task, uniformly over hand ± spread / 2 (some bugs are obvious to every script, some to none).
    habit: of the wrong edits of a line it takes the most tempting one, else the next, and so on (the order is fixed per
    task, so attempts repeat mistakes as those of language models do, and the most frequent patch is not simply right).
    patience: most edits it intends to make. doubt: it edits once more although the expected value was shown. haste: it
    submits although another value was shown (stops=match), or at random (stops=random). lingers: it runs again instead
    of submitting, drawn anew each time. slips: a message breaks the grammar. ends: it submits when no turn is left for anything else.
    """

    kind: str = "scripted"
    search: LineSearch = LineSearch.suspicious
    runs: Runs = Runs.after_edit
    reacts: Reacts = Reacts.stay
    stops: Stops = Stops.match
    eye: float = 0.6
    hand: float = 0.5
    spread: float = 0.8
    habit: float = 0.5
    patience: int = 2
    doubt: float = 0.2
    haste: float = 0.3
    lingers: float = 0.15
    slips: float = 0.03
    ends: bool = False
