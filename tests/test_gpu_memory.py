"""A full GPU beside other cells is no fault of the work; alone it is, and the message says what to do."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from rmlab import gpu_memory
from rmlab.commands import score
from rmlab.errors import RmlabError
from rmlab.gpu_memory import Crowded, explains_full_memory, full_memory, shared_with
from rmlab.stopping import stop_behind
from tests.command_line import rmlab_here

FULL = (
    "CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 139.80 GiB of which 2.19 MiB is free. "
    "If reserved but unallocated memory is large try setting PYTORCH_ALLOC_CONF=expandable_segments:True"
)


@pytest.fixture
def neighbours() -> Iterator[None]:
    before = gpu_memory._others
    shared_with(lambda: 5)
    yield
    shared_with(before)


def full_behind() -> None:
    try:
        raise torch.OutOfMemoryError(FULL)
    except RuntimeError as error:
        raise ValueError("the batch could not be read") from error


@pytest.mark.usefixtures("neighbours")
def test_beside_others_it_is_a_stop() -> None:
    words = "shared with 5 other cells, is full: CUDA out of memory"
    with pytest.raises(Crowded, match=words) as caught, explains_full_memory():
        full_behind()
    crowded = caught.value
    assert stop_behind(crowded) is crowded
    assert crowded.others == 5


def test_alone_it_is_a_failure_that_says_what_needs_less() -> None:
    for error in (
        torch.OutOfMemoryError(FULL),
        RuntimeError("CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate(handle)"),
    ):
        told = full_memory(error)
        assert isinstance(told, RmlabError)
        assert stop_behind(told) is None
        assert "\n" not in str(told)
        assert "training.checkpointing=true" in str(told)
        assert "expandable_segments" not in str(told)
        assert told.__cause__ is error


@pytest.mark.usefixtures("neighbours")
def test_any_other_error_stays_as_it_is() -> None:
    with pytest.raises(RuntimeError, match=r"^no luck$"), explains_full_memory():
        raise RuntimeError("no luck")
    with pytest.raises(RmlabError, match=r"^told before$"), explains_full_memory():
        raise RmlabError("told before") from torch.OutOfMemoryError(FULL)


def test_a_command_says_it_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(score, "_chosen", lambda *_: full_behind())
    code, _, err = rmlab_here("score", tmp_path / "set.parquet", "--model", "m", "-o", tmp_path / "scores.parquet")
    assert code == 1
    assert err.splitlines()[-1].startswith("rmlab: the memory of the GPU is too small for this work")
    assert "Traceback" not in err
