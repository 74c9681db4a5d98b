"""Trajectories of others, from their archive to a verifier's score table: imported, split, trained on, scored, read again."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rmlab.commands.browse import browse
from rmlab.commands.import_trajectories import import_trajectories
from rmlab.commands.score import score
from rmlab.commands.trajectories import split
from rmlab.configuration import load_program
from rmlab.errors import DataError
from rmlab.paths import REPOSITORY
from rmlab.scores.table import read_score_table
from rmlab.tracking.query import get_run
from rmlab.tracking.store import Store
from rmlab.trajectories.store import read_trajectories, write_trajectories

RUN = REPOSITORY.parent / "shared" / "data" / "real_corpus" / "moatless_20240609_gpt4o.zip"


@pytest.mark.slow
@pytest.mark.skipif(not RUN.is_file(), reason="../shared/data/real_corpus is not there")
def test_a_real_run_is_imported_split_trained_on_and_scored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RMLAB_RUNS", str(tmp_path))
    whole, pool = tmp_path / "real.parquet", tmp_path / "split.parquet"
    import_trajectories("auto", [str(RUN)], whole, [])
    split(whole, pool)
    asked = [
        "preset=smoke",
        f"data.path={pool}",
        "data.scale=32",
        "data.label_ratio=1:3",
        "prompt.max_tokens=3072",
        "model.max_positions=3072",
        "prompt.over_length=cut_observations",
        "evaluation.tasks=24",
        "runtime.progress=false",
    ]
    run = get_run(Store.open(), load_program("train_verifier").main(asked))
    report, selection = (json.loads(run.artifact(name).read_text()) for name in ("report.json", "selection.json"))
    assert (report["trajectories"] + report["unlabelled"], selection["taken"], selection["resolved"]) == (24, 32, 8)
    assert report["fit_rate"] < report["score_rate"], "some are read in part"
    assert 0 < report["cut_tokens"] < report["cut_attempts_tokens"]
    assert 0 < selection["training_cut"]["cut_attempts"] < 32
    table = read_score_table(run.artifact("scores.parquet"))
    score(pool, run.run_id, tmp_path / "scores.parquet")
    again = read_score_table(tmp_path / "scores.parquet")
    known = dict(zip(again.trajectory_id.tolist(), again.score.tolist(), strict=True))
    assert np.allclose([known[name] for name in table.trajectory_id.tolist()], table.score, atol=1e-6, equal_nan=True)
    browse(tmp_path / "scores.parquet", pool, tmp_path / "browse.html")

    parts = read_trajectories(pool).trajectories
    (lesson, *_), (judged, *_) = ([t for t in parts if t.split == part] for part in ("verifier", "evaluation"))
    copied = replace(judged, messages=lesson.messages)  # a benchmark's copy of another's task
    write_trajectories(pool, [copied if t is judged else t for t in parts])
    with pytest.raises(DataError, match=rf"tasks .*{lesson.task_id}.* have nearly the same issue \(overlap 1\.00"):
        load_program("train_verifier").main(asked)
