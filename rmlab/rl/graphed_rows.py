"""Forward and backward passes of a decoder over rows of one shape, as CUDA graphs: only the device's own time remains.

A row of a small model takes thousands of kernels of a few microseconds each, and launching them takes several times as long as running
them. A graph launches all of them at once, but its shapes are fixed: a row is padded with dummy sequences, and quantities without a
fixed size (sequences, keys that they see, the longest) have room for the largest row so far; for a larger one, graphs are recaptured.
"""

from typing import Any

import numpy as np
import torch

from rmlab.gpu_memory import give_back
from rmlab.models.attention import sent
from rmlab.models.packed import BEYOND, PackedRow

FILL = 128  # tokens of a sequence that fills a row
Row = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]


class GraphedRows:
    """A decoder of transformers over rows of `tokens` tokens, within `packed_rows`; gradients flow into its parameters.

    capture: False pads all the same and captures nothing, which any device can do.
    """

    def __init__(self, decoder: Any, tokens: int, capture: bool = True):
        self.decoder, self.tokens, self.capture = decoder, tokens, capture
        self.device = next(decoder.parameters()).device
        self.sequences, self.keys, self.longest = 128, 3 * tokens, 768
        self._rows: Any = None

    def __call__(self, ids_1T: torch.Tensor, row: PackedRow) -> torch.Tensor:
        """hidden_TH of a row's tokens (`pack_branches`). Both on the CPU, not filled up, at most `tokens` tokens."""
        given = self._padded(ids_1T, row)
        if self._rows is None:
            self._rows = self._captured(given)
        for (
            parameter
        ) in self.decoder.parameters():  # a gradient that is not there yet would become the graph's own memory
            if parameter.requires_grad and parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        hidden_1TH: torch.Tensor = self._rows(*(sent(x, self.device) for x in given))
        return hidden_1TH[0, : ids_1T.shape[1]]

    def _padded(self, ids_1T: torch.Tensor, row: PackedRow) -> Row:
        """ids_1T, position_1T, and where sequences begin among tokens and among keys, and the keys' places, at their fixed sizes."""
        real = ids_1T.shape[1]
        assert row.key_place_U is not None
        starts, key_starts = row.segments.cu_seqlens_q.numpy(), row.segments.cu_seqlens_k.numpy()
        fill = np.append(np.arange(real + FILL, self.tokens, FILL), self.tokens)[: None if real < self.tokens else 0]
        starts = np.concatenate([starts, fill])
        key_starts = np.concatenate([key_starts, key_starts[-1] + fill - real])
        key_U = np.concatenate([row.key_place_U.numpy(), np.arange(real, self.tokens)])
        self._make_room(len(starts) - 1, len(key_U), max(row.segments.max_seqlen_q, row.segments.max_seqlen_k))
        position_T = np.concatenate([row.position_1T[0].numpy(), np.arange(self.tokens - real) % FILL])
        beyond = self.tokens + np.arange(self.keys - len(key_U)) % BEYOND
        return (
            torch.nn.functional.pad(ids_1T, (0, self.tokens - real)),
            torch.from_numpy(position_T)[None],
            _repeated(starts, self.sequences + 1),
            _repeated(key_starts, self.sequences + 1),
            torch.from_numpy(np.concatenate([key_U, beyond])),
        )

    def _make_room(self, sequences: int, keys: int, longest: int) -> None:
        before = self.sequences, self.keys, self.longest
        while self.sequences < sequences:
            self.sequences *= 2
        self.keys = max(self.keys, -(-keys // self.tokens) * self.tokens)
        self.longest = max(self.longest, -(-longest // 256) * 256)
        if before != (self.sequences, self.keys, self.longest) and self._rows is not None:
            self._rows = None
            give_back()  # the activations of a whole row, before those of the next graphs are made

    def _captured(self, given: Row) -> Any:
        rows = _GraphedModule(self.decoder, self.longest)
        if not self.capture:
            return rows
        with torch.autocast("cuda", enabled=False):
            made: Any = torch.cuda.make_graphed_callables(
                rows.train(self.decoder.training), tuple(sent(x, self.device) for x in given)
            )
        return made


class _GraphedModule(torch.nn.Module):
    def __init__(self, decoder: Any, longest: int):
        super().__init__()
        self.decoder, self.longest = decoder, longest

    def forward(
        self,
        ids_1T: torch.Tensor,
        position_1T: torch.Tensor,
        cu_seqlens_q: torch.Tensor,
        cu_seqlens_k: torch.Tensor,
        key_place_U: torch.Tensor,
    ) -> torch.Tensor:
        """hidden_1TH."""
        half = ids_1T.is_cuda  # weights are cast anew in each graph
        with torch.autocast(ids_1T.device.type, torch.bfloat16, enabled=half, cache_enabled=False):
            hidden_1TH: torch.Tensor = self.decoder(
                input_ids=ids_1T,
                position_ids=position_1T,
                use_cache=False,
                cu_seq_lens_q=cu_seqlens_q,
                cu_seq_lens_k=cu_seqlens_k,
                max_length_q=self.longest,
                max_length_k=self.longest,
                key_places=key_place_U,
            ).last_hidden_state
        return hidden_1TH


def _repeated(starts: np.ndarray[Any, Any], size: int) -> torch.Tensor:
    """int32, the last repeated: sequences of no token."""
    return torch.from_numpy(np.pad(starts, (0, size - len(starts)), mode="edge").astype(np.int32))
