"""The layers of a model compiled while a block lasts: each by itself, so that one short compilation serves them all.

A whole decoder takes about a minute for each of a few widths; a layer whose width is a variable takes seconds once.
"""

from contextlib import AbstractContextManager
from typing import Any


class compiled_layers(AbstractContextManager[None]):
    """Compiles the decoder's layers of a transformers language model (or of one with a scalar head) where `wanted`."""

    def __init__(self, model: Any, wanted: bool):
        inner = (
            model if hasattr(model, "get_decoder") else model.model
        )  # a scalar head stands on a whole language model
        self.layers = list(inner.get_decoder().layers) if wanted else []

    def __enter__(self) -> None:
        for layer in self.layers:
            layer.compile(dynamic=True)

    def __exit__(self, *_: object) -> None:
        for layer in self.layers:
            layer._compiled_call_impl = None
