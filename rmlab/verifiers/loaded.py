"""A trained verifier in somebody's own program: what `rmlab.load_verifier` gives.

It reads, batches and scores as `rmlab score` does, and leaves the program as it was: no setting of torch outlasts a call, and an
autocast around a call does not reach the verifier, which scores in its own arithmetic.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from os import PathLike, fspath
from pathlib import Path
from threading import Lock

import torch

from rmlab.errors import DataError, UsageError
from rmlab.tracking.references import find_model
from rmlab.training.device import resolve_device
from rmlab.training.pretrained import HUB
from rmlab.trajectories.ingest.in_memory import Attempt, records
from rmlab.trajectories.ingest.skipped import Skipped
from rmlab.trajectories.record import Trajectory
from rmlab.verifiers.config import OverLength
from rmlab.verifiers.encoding import Encoded
from rmlab.verifiers.scoring import BATCH_TOKENS
from rmlab.verifiers.verifier import RECORD, Verifier, load_verifier

ONE_AT_A_TIME = Lock()
"""A call sets what holds for the whole process (torch's attention on a GPU) and puts it back."""


@dataclass(frozen=True)
class AttemptScore:
    """score: probability that the attempt's issue is resolved; None where there is none. reason: why there is none, else None.
    n_tokens: of the attempt's whole prompt; 0 where the agent said nothing. n_read: of these, how many the verifier read; fewer where
    a long prompt was cut, 0 where there is no score."""

    score: float | None
    n_tokens: int
    n_read: int
    reason: str | None


@dataclass(frozen=True, repr=False)
class LoadedVerifier:
    """name: as it was asked for. verifier: with its model on its device."""

    name: str
    verifier: Verifier

    def score(
        self, attempts: Iterable[Attempt], *, batch_tokens: int | None = None, show_progress: bool = False
    ) -> list[float | None]:
        """For each of N attempts, in their order, the probability in [0, 1] that its issue is resolved; None where the attempt does not
        fit the verifier's context, or the agent said nothing in it (`details` says why).

        An attempt is {"messages": [...], "patch": "..."}. messages: the whole conversation as dicts with role and content as the
        chat APIs have them, with tool calls and content parts. patch: what the attempt changed, None where it changed nothing. It may
        also be a list of messages, any other document that `rmlab import` reads, or a `Trajectory`. A score is the one that
        `rmlab import` and `rmlab score` give for it, up to rounding; a label that stands beside it is not read.

        Give all attempts in one call: they are batched by length, equal ones are read once, and so is what several have in common at
        their start. batch_tokens: read at once, 16,384 on a CPU and 65,536 on a GPU where None; fewer take less memory.

        Threads may share a verifier; their calls run one after the other. Unlike `rmlab score`, nothing checks whether an
        attempt's text states its outcome. Raises UsageError where `attempts` is no list, DataError with the place of a message that
        cannot be read, such as one without a role.
        """
        return [one.score for one in self.details(attempts, batch_tokens=batch_tokens, show_progress=show_progress)]

    def details(
        self, attempts: Iterable[Attempt], *, batch_tokens: int | None = None, show_progress: bool = False
    ) -> list[AttemptScore]:
        """As `score`, with the tokens of each attempt, and the reason where it has no score."""
        if batch_tokens is not None and batch_tokens < 1:
            raise UsageError(f"batch_tokens={batch_tokens}: it must be at least 1, or None")
        device = next(self.verifier.model.parameters()).device
        found = records(attempts)
        with ONE_AT_A_TIME, _apart(device):
            encoded = self.verifier.encode([one for one in found if isinstance(one, Trajectory)], show=show_progress)
            score_N = self.verifier.score_prompts(
                encoded,
                batch_tokens=BATCH_TOKENS[device.type] if batch_tokens is None else batch_tokens,
                show=show_progress,
            )
        prompts, scores = iter(encoded), iter(score_N.tolist())

        def result(one: Trajectory | Skipped) -> AttemptScore:
            if isinstance(one, Skipped):
                return AttemptScore(None, 0, 0, one.reason)
            prompt = next(prompts)
            if prompt.ids is None:
                return AttemptScore(None, prompt.n_tokens, 0, self._unfit(prompt))
            return AttemptScore(next(scores), prompt.n_tokens, len(prompt.ids), None)

        return [result(one) for one in found]

    def _unfit(self, encoded: Encoded) -> str:
        prompt = self.verifier.prompt
        cut = " even with its observations cut" if prompt.over_length is OverLength.cut_observations else ""
        return f"its prompt of {encoded.n_tokens:,} tokens does not fit the verifier's context of {prompt.max_tokens:,} tokens{cut}"

    def __repr__(self) -> str:
        device = next(self.verifier.model.parameters()).device
        context = f"a context of {self.verifier.prompt.max_tokens:,} tokens"
        return f"<verifier {self.name}: {context}, trained in {self.verifier.dtype.value}, on {device}>"


def loaded_verifier(name: str | PathLike[str], device: str = "cpu", over_length: str | None = None) -> LoadedVerifier:
    """See `rmlab.load_verifier`, which is this."""
    name = fspath(name)
    if over_length is not None and over_length not in list(OverLength):
        raise UsageError(f"over_length={over_length}: it must be one of {', '.join(OverLength)}")
    where = _device(device)
    if name.startswith(HUB) or (Path(name, "config.json").is_file() and not Path(name, RECORD).is_file()):
        raise DataError(f"{name} is no verifier that rmlab has trained: `rmlab score --model` scores with other models")
    verifier = load_verifier(find_model(name, RECORD).folder, where)
    if over_length is not None:
        verifier = replace(verifier, prompt=replace(verifier.prompt, over_length=OverLength(over_length)))
    return LoadedVerifier(name, verifier)


def _device(wanted: str) -> str:
    """`resolve_device`, also for one of several GPUs (cuda:1)."""
    kind, _, number = str(wanted).partition(":")
    found = resolve_device(kind, "device")
    if not number:
        return found
    there = torch.cuda.device_count() if found == "cuda" else 1
    if kind == "auto" or not number.isdecimal() or int(number) >= there:
        raise UsageError(f"device={wanted}: this machine has {', '.join(f'{found}:{i}' for i in range(there))}")
    return f"{found}:{number}"


@contextmanager
def _apart(device: torch.device) -> Iterator[None]:
    """Without the autocast of the program around it; on a GPU with it as the current one, and without cuDNN's attention, which plans
    every new shape anew (`rmlab.training.device.prepare_device`)."""
    with torch.autocast(device.type, enabled=False):
        if device.type != "cuda":
            yield
            return
        before = torch.backends.cuda.cudnn_sdp_enabled()  # type: ignore[no-untyped-call]  # torch does not type it
        torch.backends.cuda.enable_cudnn_sdp(False)
        try:
            with torch.cuda.device(device):
                yield
        finally:
            torch.backends.cuda.enable_cudnn_sdp(before)
