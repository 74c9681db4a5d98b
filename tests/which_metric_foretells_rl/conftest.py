import shutil
from pathlib import Path

import pytest

from analysis.foretelling.plan import PLAN, STUDY


@pytest.fixture
def plan(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder of its own with the plan of the page, of which nothing has been done."""
    folder = tmp_path / "plan"
    folder.mkdir()
    for name in ("cells.csv", "common.yaml"):
        shutil.copy(STUDY / name, folder)
    monkeypatch.setenv(PLAN, str(folder))
    return folder
