"""Graphs of rows: what replaces them takes the place of their memory."""

import gc

import numpy as np
import pytest


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
                before, captured = graphs.keys, graphs._rows
                graphs(ids_1T, row).float().sum().backward()
                assert (before != graphs.keys) == (captured is not None), "each row after the first needs larger graphs"
                torch.cuda.empty_cache()
                held.append(torch.cuda.memory_reserved())
    finally:
        gc.enable()
    assert held[1] < 1.3 * held[0]
    assert held[2] < 1.3 * held[0]
