"""Several processes, one per GPU, that train one model together: their ranks, the micro-batches each reads, what all have to agree on.

A rank is one of the processes (`rmlab.launchers.rank_processes` starts them). Rank 0 tracks the run, shows the progress and decides
when a checkpoint is written and when training ends; the others follow. The micro-batches of a step are those of a single process, or
parts of them, so that the sum of their losses does not depend on the number of ranks.
"""

import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from rmlab.stopping import Stopped

if TYPE_CHECKING:
    import torch

Part = TypeVar("Part")

STARTED = "RMLAB_RANKS"
"""In the environment of a rank: how many there are."""
PATIENCE_SECONDS = 30.0


def started_ranks() -> int:
    """How many ranks train the run of this process together; 1 where it trains alone."""
    return int(os.environ.get(STARTED, 1))


def says_for_all() -> bool:
    """Whether this process prints what every rank finds alike, such as a notice on the weights: rank 0, or a process without others. In
    somebody's own program the ranks are those of its torch.distributed, or of the command that started it (torchrun, accelerate)."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return bool(distributed.get_rank() == 0)
    return os.environ.get("RANK", "0") == "0"


@dataclass(frozen=True)
class Ranks:
    """number: of ranks in all. index: of this one, from 0. device: of this one, a torch device."""

    number: int = 1
    index: int = 0
    device: Any = "cpu"

    @classmethod
    def of(cls, device: Any) -> "Ranks":
        """Of the run's Accelerator."""
        return cls(device.num_processes, device.process_index, device.device)

    @property
    def is_first(self) -> bool:
        """Whether this rank tracks the run and shows its progress."""
        return self.index == 0

    def agree(
        self, stop: Stopped | KeyboardInterrupt | None, save: bool
    ) -> tuple[Stopped | KeyboardInterrupt | None, bool]:
        """What rank 0 says of stopping and of writing a checkpoint; the others end as it does."""
        if self.number == 1:
            return stop, save
        import torch
        from torch.distributed import broadcast

        decision = torch.tensor([stop is not None, save], dtype=torch.int32, device=self.device)
        broadcast(decision, 0)
        stops, saves = map(bool, decision.tolist())
        return (stop or Stopped("rank 0 ended the training")) if stops else None, saves

    def total(self, value: "torch.Tensor") -> "torch.Tensor":
        """The sum over the ranks."""
        if self.number > 1:
            from torch.distributed import all_reduce

            all_reduce(value)
        return value

    def all_say(self, number: int) -> bool:
        """Whether all ranks give the same number."""
        if self.number == 1:
            return True
        import torch
        from torch.distributed import ReduceOp, all_reduce

        most = torch.tensor([number, -number], device=self.device)
        all_reduce(most, ReduceOp.MAX)
        return int(most.sum()) == 0

    def wait(self) -> None:
        """Until all ranks are here."""
        if self.number > 1:
            from torch.distributed import barrier

            barrier()


ALONE = Ranks()


WHOLE_SHARE = 0.4
"""Of a GPU's memory that a whole model may take with its gradients and moments; the rest is for activations."""


def fits_whole(learning: float, frozen: float, memory: float) -> bool:
    """Whether a GPU has room for a whole model that trains. learning: bytes of the weights that learn, which have a gradient and two
    moments of the same size beside them. frozen: of the others. memory: of the GPU."""
    return 4 * learning + frozen <= WHOLE_SHARE * memory


def dealt(parts: Sequence[Part], ranks: Ranks) -> list[tuple[Part, bool]]:
    """The parts of this rank, and whether each counts: every rank gets as many, because those of a sharded model compute each layer at
    the same time, and one that has read nothing has no gradients to add; where they do not come out even, the last ranks read a part
    that counts for another one once more, for nothing."""
    mine = [(part, True) for part in parts[ranks.index :: ranks.number]]
    missing = -(-len(parts) // ranks.number) - len(mine)
    return mine + [(parts[0], False)] * missing if missing else mine


def even(parts: Sequence[Sequence[Any]], number: int) -> list[list[Any]]:
    """The parts, the largest of them halved until they are a multiple of `number`, or no part has two examples."""
    halved = [list(part) for part in parts]
    while len(halved) % number and max(map(len, halved)) > 1:
        at = max(range(len(halved)), key=lambda i: (len(halved[i]) > 1, sum(item.tokens for item in halved[i])))
        middle = len(halved[at]) // 2
        halved[at : at + 1] = [halved[at][:middle], halved[at][middle:]]
    return halved


@contextmanager
def other_ranks_fail_first(ranks: Ranks) -> Iterator[None]:
    """Where another rank is gone, what this one says of its broken connection is not what was wrong: it waits to be ended by the
    process that started both, which knows."""
    try:
        yield
    except RuntimeError as error:
        if ranks.number > 1 and is_of_connection(error):
            time.sleep(PATIENCE_SECONDS)
        raise


def is_of_connection(error: BaseException) -> bool:
    """Whether an error says that another rank could not be reached: as a rule because that one failed before."""
    from torch.distributed import DistError

    return isinstance(error, DistError) or (
        isinstance(error, RuntimeError) and any(word in str(error) for word in ("gloo", "NCCL", "Connection"))
    )
