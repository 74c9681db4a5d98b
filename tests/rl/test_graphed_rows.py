"""Graphs of rows: what replaces them takes the place of their memory."""

import gc
import weakref
from types import SimpleNamespace

import numpy as np
import pytest


def test_nothing_of_a_micro_batch_is_left_when_the_next_one_begins() -> None:
    """Its loss would keep the graphs alive that it came from, and their memory."""
    import torch

    from rmlab.training.optimizer import accumulate

    weight, before = torch.nn.Parameter(torch.ones(2)), list[weakref.ref[torch.Tensor]]()

    def loss(part: float) -> torch.Tensor:
        assert all(value() is None for value in before)
        made = (weight * part).sum()
        before.append(weakref.ref(made))
        return made

    device = SimpleNamespace(device="cpu", backward=lambda made: made.backward())
    assert float(accumulate([1.0, 2.0, 3.0], loss, device, lambda part: weight.sum(), ranks=2)) == 12.0
    assert len(before) == 3


def test_a_run_on_the_cpu_holds_nothing_of_a_gpu_that_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    from rmlab.gpu_memory import most_held

    if torch.cuda.is_initialized():
        pytest.skip("this process has used the GPU")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert most_held() is None


@pytest.mark.gpu
def test_graphs_that_are_replaced_give_their_memory_back() -> None:
    """With the cyclic garbage collector off, since it would free them at some time by chance."""
    import torch

    from rmlab.models.config import ModelConfig
    from rmlab.models.load import scratch_model
    from rmlab.models.packed import pack_branches, packed_rows
    from rmlab.rl.graphed_rows import GraphedRows

    if not torch.cuda.is_available():
        pytest.skip("no CUDA device here")
    shape = ModelConfig(
        hidden_size=256, layers=12, heads=4, kv_heads=2, head_dim=64, intermediate_size=1024, max_positions=4096
    )
    model = scratch_model(shape, 64, 0).eval().to("cuda")
    graphs, held = GraphedRows(model.get_decoder(), 4096), []
    few_keys, many_keys, more_keys = ((64, 16), (1500, 20), (2500, 14))
    gc.disable()
    try:
        with packed_rows(model, True):
            for beginning, branches in (few_keys, many_keys, more_keys):
                tree = np.full(beginning, 3, np.int32), [np.full(100, 4, np.int32)] * branches
                ids_1T, row, _ = pack_branches([tree], 0, 1)
                before, first = graphs.keys, graphs._rows is None
                graphs(ids_1T, row).float().sum().backward()
                assert (before == graphs.keys) == first, "each row after the first needs larger graphs"
                torch.cuda.empty_cache()
                held.append(torch.cuda.memory_reserved())
    finally:
        gc.enable()
    assert held[1] < 1.3 * held[0]
    assert held[2] < 1.3 * held[0]
