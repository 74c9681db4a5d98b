"""Commands side by side on the cards of this machine, several on each: which runs where, how each ended. What they do is not known here.

A card is leased as the cells of a sweep lease theirs (`rmlab.launchers.gpus.Gpus`), so a sweep that runs beside this one shares it, or
waits. Where this process ends, however it ends, its commands are told to stop, and save what they have.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from rmlab.launchers.gpus import VISIBLE, Gpus, visible_gpus
from rmlab.microswe.sandbox import linux
from rmlab.paths import runs_folder


class SideBySide:
    """At most `together` commands on each card; on a machine without cards so many in all. cards: None = all that are visible."""

    def __init__(self, logs: Path, together: int, cards: int | None = None) -> None:
        self.logs = logs
        names = visible_gpus()[:cards]
        self.most = together * max(len(names), 1)
        self._gpus = Gpus(names, runs_folder() / "locks", together) if names else None
        self._running: dict[str, tuple[subprocess.Popen[bytes], str | None]] = {}
        self._begins: dict[str, int] = {}
        self._told: dict[str, int] = {}
        self.crowded: dict[str, int] = {}
        """Of what found too little memory beside others: how many share its card from then on."""
        logs.mkdir(parents=True, exist_ok=True)

    def __len__(self) -> int:
        return len(self._running)

    def start(self, name: str, words: Sequence[str]) -> bool:
        """Starts a command, whose output goes to a file of its name; False where there is no room for it now."""
        if len(self._running) >= self.most:
            return False
        card = self._gpus.take() if self._gpus else None
        if self._gpus and card is None:
            return False
        seen = os.environ | ({VISIBLE: card} if card else {})
        with self.log(name).open("ab") as out:
            self._begins[name] = out.tell()
            self._told.pop(name, None)
            process = subprocess.Popen(
                words, stdout=out, stderr=subprocess.STDOUT, env=seen, preexec_fn=_end_with_parent
            )
        self._running[name] = process, card
        return True

    def log(self, name: str) -> Path:
        """Where the output of a command goes, after that of earlier ones of its name."""
        return self.logs / f"{name}.txt"

    def last_line(self, name: str) -> str:
        """What a command that was started here said last."""
        said = self.log(name).read_bytes()[self._begins[name] :].decode(errors="replace")
        return next((line.strip() for line in reversed(said.splitlines()) if line.strip()), "it said nothing")

    def ended(self, full: Callable[[str], bool] = lambda _: False) -> list[tuple[str, int]]:
        """Those that have ended since this was last asked, each with its exit code. full: whether one of this name found too little
        memory; where others had its card too, it is in `crowded` as well."""
        found = [(name, code) for name, (process, _) in self._running.items() if (code := process.poll()) is not None]
        cards = {name: self._running.pop(name)[1] for name, _ in found}
        if self._gpus:
            held = {name: card for name, card in cards.items() if card}
            others = {name: self._gpus.counter(card)() for name, card in held.items()}  # before any place is given back
            for name, card in held.items():
                if others[name] and full(name):
                    self.crowded[name] = self._gpus.shrink(card, others[name])
                else:
                    self._gpus.give_back(card)
        return found

    def stop(self, at_once: bool = False) -> None:
        """Tells all to stop, each once; at_once: ends them."""
        number = signal.SIGKILL if at_once else signal.SIGTERM
        for name, (process, _) in self._running.items():
            if self._told.get(name) != number:
                self._told[name] = number
                process.send_signal(number)

    def told(self, name: str) -> bool:
        """Whether a command was told to stop."""
        return name in self._told


def _end_with_parent() -> None:
    """In the new process, before its program: the kernel tells it to stop once the process that started it is gone."""
    if sys.platform == "linux":
        linux.prctl(linux.PR_SET_PDEATHSIG, signal.SIGTERM)
