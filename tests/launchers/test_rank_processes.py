"""What a run on several GPUs says where one of its processes is gone."""

from pathlib import Path
from typing import Any, cast

import pytest

from rmlab.launchers.rank_processes import _Rank, _worst


def test_a_rank_that_is_cut_off_names_the_log_of_the_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rank, log = _Rank(0, cast(Any, None), cast(Any, None)), tmp_path / "ranks.log"
    content = ("RuntimeError: gloo: connection closed", "Traceback ...")
    assert str(log) not in str(_worst(rank, "cut off", content, {}, log)), "no other rank has begun"
    log.write_text("rank 1: out of memory")
    assert str(_worst(rank, "cut off", content, {}, log)) == (
        "rank 0: RuntimeError: gloo: connection closed. All ranks were ended; the same command continues from the last checkpoint. "
        f"What the other ranks printed is in {log}."
    )
    assert "Traceback ..." in capsys.readouterr().err
