from pathlib import Path

import pytest

from rmlab.tracking import origin


def test_a_tree_without_history_is_told_its_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(origin, "REPOSITORY", tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    monkeypatch.delenv("RMLAB_COMMIT", raising=False)
    assert origin.commit.__wrapped__() == "unknown"
    monkeypatch.setenv("RMLAB_COMMIT", "859a760\n")
    assert origin.commit.__wrapped__() == "859a760"
