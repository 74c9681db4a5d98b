from pathlib import Path

import pytest

from rmlab.errors import DataError
from rmlab.policies.folder import record_of


def test_a_record_that_is_not_there_says_nothing_and_a_damaged_one_is_an_error(tmp_path: Path) -> None:
    assert record_of(tmp_path) == {}
    path = tmp_path / "policy.json"
    path.write_text('{"shown_clusters": ["a"], "environment": {"max_turns": 6}}')
    assert record_of(tmp_path)["shown_clusters"] == ["a"]
    for damaged in (b"[1]", b"{bad", b'{"shown_clusters": "abc"}', b'{"environment": 3}', b"\xff\xfe"):
        path.write_bytes(damaged)
        with pytest.raises(DataError, match=r"it is unknown what (this policy|it) was trained on"):
            record_of(tmp_path)
