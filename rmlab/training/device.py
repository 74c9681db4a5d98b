"""The device, the arithmetic and the threads of one run, through accelerate."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol

from rmlab.errors import RmlabError, UsageError
from rmlab.training.config import Dtype, MicroBatchRuntimeConfig, RuntimeConfig

DEVICES = ("cpu", "cuda", "auto")


def resolve_device(wanted: str) -> str:
    """ "cpu" or "cuda". Raises RmlabError where CUDA is asked for and is not there, UsageError for another word."""
    import torch

    if wanted not in DEVICES:
        raise UsageError(f"runtime.device={wanted}: choose one of {', '.join(DEVICES)}")
    there = torch.cuda.is_available()
    if wanted == "cuda" and not there:
        raise RmlabError(
            "runtime.device=cuda: torch sees no CUDA device on this machine. "
            "Take runtime.device=cpu, or install a CUDA build of torch and check `rmlab doctor`."
        )
    if wanted == "cpu" or not there:
        return "cpu"
    torch.backends.cuda.enable_cudnn_sdp(
        False
    )  # it plans every new shape anew, and lengths differ from batch to batch here
    return "cuda"


def device_name(device: str) -> str:
    """What a run says it ran on: "cpu", or the card's name. device: as `resolve_device` gives it."""
    import torch

    return str(torch.cuda.get_device_name()) if device == "cuda" else device


class Arithmetic(Protocol):
    """dtype: of a forward pass over float32 weights. threads: of the CPU."""

    dtype: Dtype
    threads: int


def accelerator(training: Arithmetic, runtime: RuntimeConfig) -> Any:
    """An `accelerate.Accelerator` for one process on one device; sets the process's CPU threads.

    One process trains one cell: accelerate keeps its state per process, and so do the threads.
    """
    import torch
    from accelerate import Accelerator
    from accelerate.state import AcceleratorState

    device = resolve_device(runtime.device)
    torch.set_num_threads(training.threads)
    AcceleratorState._reset_state(
        reset_partial_state=True
    )  # a process that trained in another arithmetic before (tests)
    made = Accelerator(cpu=device == "cpu", mixed_precision="bf16" if training.dtype is Dtype.bfloat16 else "no")
    if made.num_processes > 1:
        raise RmlabError(
            f"{made.num_processes} processes share this run: a cell is trained by one process on one device. "
            "Start it without `accelerate launch`; a sweep runs several cells at once."
        )
    return made


def side_by_side(model: Any, training: "Arithmetic", runtime: MicroBatchRuntimeConfig, device: Any) -> bool:
    """Whether a run reads its examples in one row without padding: on a GPU in bfloat16, where the model's attention can be told of it.

    device: the run's Accelerator.
    """
    from rmlab.models.packed import packs

    on_gpu = device.device.type == "cuda" and training.dtype is Dtype.bfloat16
    return runtime.packed and on_gpu and packs(model)


@contextmanager
def checkpointed_layers(model: Any, wanted: bool) -> Iterator[None]:
    """Where `wanted`, a language model (or the one below a scalar head) keeps what goes into each layer while it trains, and
    makes the activations within again when their gradient is asked for."""
    from rmlab.models.heads import language_model
    from rmlab.models.lora import plain_model

    inner = plain_model(language_model(model))
    kind = (
        "activation" if hasattr(inner, "activation_checkpointing_enable") else "gradient"
    )  # its name in older transformers
    if wanted:
        getattr(inner, f"{kind}_checkpointing_enable")({"use_reentrant": False})
    try:
        yield
    finally:
        if wanted:
            getattr(inner, f"{kind}_checkpointing_disable")()


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
