"""The folder of a study, and a store for its runs."""

from pathlib import Path

import pytest

from analysis import study_page
from rmlab.tracking.store import Store


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Of a study of two sweeps at preset demo, whose baselines are one configuration, with a plan."""
    made = tmp_path / "two_sweeps"
    made.mkdir()
    (made / "study.yaml").write_text("preset: demo\nsweeps: [label_ratio, evidence]\n")
    (made / "README.md").write_text(f"# A plan\n\n{study_page.NOTHING_YET} Levels: many.\n")
    return made


@pytest.fixture
def store(runs_folder: Path) -> Store:
    return Store.open(None)
