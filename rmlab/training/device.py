"""The device, precision, threads and memory of one run, through accelerate."""

import ctypes
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol

from rmlab.errors import RmlabError, UsageError
from rmlab.training.config import DEVICES, Dtype, MicroBatchRuntimeConfig, RuntimeConfig
from rmlab.training.ranks import started_ranks

RANKS_WAIT_HOURS = 1
"""For one another: rank 0 may write a large checkpoint meanwhile; that one is gone its parent sees at once."""


def resolve_device(wanted: str, setting: str = "runtime.device") -> str:
    """ "cpu" or "cuda". setting: what a message calls it. Raises RmlabError where CUDA is asked for and is not there, UsageError for
    another word."""
    import torch

    if wanted not in DEVICES:
        raise UsageError(f"{setting}={wanted}: choose one of {', '.join(DEVICES)}")
    there = torch.cuda.is_available()
    if wanted == "cuda" and not there:
        raise RmlabError(
            f"{setting}=cuda: torch sees no CUDA device on this machine. "
            f"Use {setting}=cpu, or install a CUDA build of torch and check `rmlab doctor`."
        )
    return "cuda" if there and wanted != "cpu" else "cpu"


def prepare_device(wanted: str) -> str:
    """The device, as `resolve_device` gives it, with what holds for the rest of this process set: on a CPU freed memory is kept; on a
    GPU torch's own attention does without cuDNN, which plans every new shape anew, and lengths differ from batch to batch here."""
    import torch

    device = resolve_device(wanted)
    if device == "cpu":
        keep_freed_memory()
    else:
        torch.backends.cuda.enable_cudnn_sdp(False)
    return device


def keep_freed_memory() -> None:
    """Lets this process keep memory that it frees, for what it allocates next. Where the C library is not glibc, nothing happens.

    glibc gives large blocks back to the kernel, which has to fill them with zeros when they are asked for again: for a training
    on a CPU, which allocates its activations anew in every step, that is a tenth of its time.
    """
    allocator = getattr(ctypes.CDLL(None), "mallopt", None)
    if allocator:
        for parameter, value in MALLOC.values():
            allocator(parameter, value)


MALLOC = {"M_MMAP_THRESHOLD": (-3, 32 * 2**20), "M_TRIM_THRESHOLD": (-1, 2**31 - 1), "M_TOP_PAD": (-2, 64 * 2**20)}
"""Parameters of mallopt(3) by number, and bytes: the most that it takes for the first two."""


def device_name(device: str) -> str:
    """What a run says it ran on: "cpu", or the card's name. device: as `resolve_device` gives it."""
    import torch

    return str(torch.cuda.get_device_name()) if device == "cuda" else device


class Arithmetic(Protocol):
    """dtype: of a forward pass over float32 weights. threads: of the CPU."""

    dtype: Dtype
    threads: int


def accelerator(training: Arithmetic, runtime: RuntimeConfig) -> Any:
    """An `accelerate.Accelerator` for one process on one device, which may be a rank of several (`rmlab.training.ranks`); sets the
    process's CPU threads, and what `prepare_device` sets.

    One process trains one cell: accelerate keeps its state per process, and so do the threads.
    """
    from datetime import timedelta

    import torch
    from accelerate import Accelerator
    from accelerate.state import AcceleratorState
    from accelerate.utils import InitProcessGroupKwargs

    device = prepare_device(runtime.device)
    AcceleratorState._reset_state(
        reset_partial_state=True
    )  # a process that trained in another arithmetic before (tests)
    made = Accelerator(
        cpu=device == "cpu",
        mixed_precision="bf16" if training.dtype is Dtype.bfloat16 else "no",
        kwargs_handlers=[InitProcessGroupKwargs(timeout=timedelta(hours=RANKS_WAIT_HOURS))],
    )
    torch.set_num_threads(training.threads)
    if made.num_processes != started_ranks():
        raise RmlabError(
            f"{made.num_processes} processes share this run, but rmlab did not start them. Start it without "
            "`accelerate launch`: runtime=multi_gpu starts its own processes, and a sweep runs several cells at once."
        )
    return made


def trains_packed(model: Any, training: "Arithmetic", runtime: MicroBatchRuntimeConfig, device: Any) -> bool:
    """Whether a run packs its examples into rows without padding: on a GPU in bfloat16, where the model's attention can be told of it.

    device: the run's Accelerator.
    """
    from rmlab.models.packed import packs

    on_gpu = device.device.type == "cuda" and training.dtype is Dtype.bfloat16
    return runtime.packed and on_gpu and packs(model)


@contextmanager
def checkpointed_layers(model: Any, wanted: bool, offload: bool = False) -> Iterator[None]:
    """Where `wanted`, a language model (or the one below a scalar head) keeps what goes into each layer while it trains, and
    makes the activations within again when their gradient is asked for. offload: what is kept lies in the machine's memory.

    Raises UsageError for an offload of what is not kept.
    """
    from rmlab.models.heads import language_model
    from rmlab.models.lora import plain_model

    inner = plain_model(language_model(model))
    if offload and not wanted:
        raise UsageError(
            "runtime.offload=true needs training.checkpointing=true: it offloads the activations that checkpointing keeps"
        )
    # transformers 5.17, the floor, has the older names alone
    enable, disable = (
        getattr(inner, f"activation_checkpointing_{what}", None) or getattr(inner, f"gradient_checkpointing_{what}")
        for what in ("enable", "disable")
    )
    if wanted:
        on_gpu = next(inner.parameters()).is_cuda  # on the CPU it lies there as it is
        more = {"offload": True} if offload and on_gpu else {}  # which the floor does not know
        enable({"use_reentrant": False}, **more)
    try:
        yield
    finally:
        if wanted:
            disable()


class compiled_layers(AbstractContextManager[None]):
    """Compiles the decoder's layers of a transformers language model (or of one with a scalar head) where `wanted`.

    All layers are one piece of code, and it is compiled once for rows of any length where examples stand side by side in one row:
    shapes that change are an unknown in it. backend: of torch.compile.
    """

    def __init__(self, model: Any, wanted: bool, backend: Any = "inductor"):
        from rmlab.models.heads import language_model

        self.layers = list(language_model(model).get_decoder().layers) if wanted else []
        self.backend = backend

    def __enter__(self) -> None:
        for layer in self.layers:
            layer.compile(dynamic=True, backend=self.backend)

    def __exit__(self, *_: object) -> None:
        for layer in self.layers:
            layer._compiled_call_impl = None
