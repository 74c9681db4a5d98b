"""What happens when the memory of a GPU is full: work beside other cells is stopped and starts again when there is room; work that is
alone on its GPU fails, and the message says what needs less memory.

Which of the two applies depends on who used the GPU at that moment, so it is decided once, where the error is first seen.
"""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rmlab.errors import RmlabError
from rmlab.stopping import Stopped
from rmlab.wording import counted

FULL = ("cuda out of memory", "cuda error: out of memory", "cublas_status_alloc_failed", "hip out of memory")
"""A full GPU in the words of torch's allocator, of CUDA where a process begins to use the GPU, and of cuBLAS, which needs some, too."""


class Crowded(Stopped):
    """The GPU's memory was full because other cells had it too. others: how many."""

    def __init__(self, others: int, error: str) -> None:
        super().__init__(f"the memory of the GPU, shared with {counted(others, 'other cell')}, is full: {error}")
        self.others = others


_others: Callable[[], int] | None = None


def shared_with(others: Callable[[], int]) -> None:
    """From now on `others` says how many other cells have the GPU of this process, at the moment when it is asked."""
    global _others
    _others = others


def says_full(words: str) -> bool:
    """Whether the words of an error say that a GPU's memory is full."""
    return any(full in words.lower() for full in FULL)


def full_memory(error: BaseException) -> RmlabError | None:
    """What the work is to end with where an error, or what is behind it, says that the GPU's memory is full; else None."""
    if isinstance(error, RmlabError):
        return None
    if not says_full(str(error)):
        behind = error.__cause__ or error.__context__
        return None if behind is None else full_memory(behind)
    said = str(error).splitlines()[0].partition(" If reserved but unallocated")[0].rstrip(".")
    alone = "and no other cell uses it" if _others else "or other work uses it too"
    told = (
        Crowded(others, said)
        if _others and (others := _others())
        else RmlabError(
            f"the memory of the GPU is too small for this work, {alone}: {said}. Smaller batches "
            "(training.micro_batch_size=1), activations that are made again (training.checkpointing=true), on several GPUs a sharded "
            "model (runtime.parallel=fsdp), or fewer tokens (prompt.max_tokens) need less; `rmlab plan` says how much."
        )
    )
    told.__cause__ = error
    return told


@contextmanager
def explains_full_memory() -> Iterator[None]:
    """A full GPU within the block is one of the two errors of `full_memory`."""
    try:
        yield
    except Exception as error:
        if (told := full_memory(error)) is None:
            raise
        raise told from error


def give_back() -> None:
    """Gives GPU memory that nothing uses any more back to other programs. Also that of captured graphs that have been dropped: they lie
    in cycles of references, and each has a pool of its own that nothing else is taken from."""
    import torch

    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def most_held() -> float | None:
    """GiB of the GPU that torch has held at once in this process, unused parts included; None where it has not used one."""
    import torch

    return torch.cuda.max_memory_reserved() / 2**30 or None  # 0 of a GPU that was never used, or is not there


def most_in_tensors() -> float | None:
    """GiB of the GPU that tensors have taken at once in this process, of what torch has held; None as for `most_held`."""
    import torch

    return torch.cuda.max_memory_allocated() / 2**30 or None
