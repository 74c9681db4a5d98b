"""`rmlab import` and `rmlab trajectories ...` as a user meets them."""

import json
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from rmlab.paths import REPOSITORY, STARTER
from rmlab.trajectories.store import iterate_trajectories, read_count, read_trajectories
from tests.command_line import rmlab_here
from tests.waiting import PATIENCE


def rmlab(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.CompletedProcess(arguments, *rmlab_here(*arguments))


def row(task: str, model: str, resolved: bool | None, words: str) -> dict:
    return {
        "instance_id": task,
        "model": model,
        "resolved": resolved,
        "patch": "+x",
        "messages": [
            {"role": "user", "content": words},
            {"role": "assistant", "content": "```bash\nls\n```"},
            {"role": "tool", "content": "a.py " * 600},
            {"role": "assistant", "content": f"Done by {model}."},
        ],
    }


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    """40 tasks of 8 repositories, 2 models."""
    found = [
        row(
            f"o__n{t % 8}-{t}",
            f"m{m}",
            (t + m) % 3 == 0,
            f"Fix number {t} of {' '.join(f'w{t * 31 + i}' for i in range(30))}",
        )
        for t in range(40)
        for m in range(2)
    ]
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(map(json.dumps, found)))
    return path


def test_import_json_has_the_contract_and_the_set_is_proven(rows: Path, tmp_path: Path) -> None:
    answer = rmlab("import", "auto", rows, "-o", tmp_path / "set.parquet", "--json")
    assert answer.returncode == 0, answer.stderr
    found = json.loads(answer.stdout)
    assert {
        key: found[key]
        for key in ("trajectories", "tasks", "labelled", "resolved", "policies", "duplicates", "skipped")
    } == {
        "trajectories": 80,
        "tasks": 40,
        "labelled": 80,
        "resolved": 27,
        "policies": {"m0": 40, "m1": 40},
        "duplicates": 0,
        "skipped": {},
    }
    pool = read_trajectories(tmp_path / "set.parquet")
    assert (len(pool), pool.metadata) == (80, pool.metadata | {"command": "rmlab import", "from": "rows.jsonl"})
    assert [t.trajectory_id for t in iterate_trajectories(tmp_path / "set.parquet")] == [
        t.trajectory_id for t in pool.trajectories
    ]
    assert read_count(tmp_path / "set.parquet") == 80
    again = rmlab("import", "chat", rows, "-o", tmp_path / "again.parquet")
    assert "80 trajectories of 40 tasks: 80 labelled, 27 resolved" in again.stdout
    assert read_trajectories(tmp_path / "again.parquet").fingerprint == pool.fingerprint


def test_folder_zip_and_tar_give_the_same_set(rows: Path, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    inner = tmp_path / "run" / "rows.jsonl"
    inner.write_text(rows.read_text())
    with zipfile.ZipFile(tmp_path / "run.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(inner, "rows.jsonl")
    with tarfile.open(tmp_path / "run.tar.gz", "w:gz") as tar:
        tar.add(inner, "rows.jsonl")
    prints = set()
    for name in ("run", "run.zip", "run.tar.gz"):
        assert rmlab("import", "auto", tmp_path / name, "-o", tmp_path / "set.parquet", "--force").returncode == 0
        prints.add(read_trajectories(tmp_path / "set.parquet").fingerprint)
    assert len(prints) == 1


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("import", "nope", "x", "-o", "o.parquet"), 2, "there is no format 'nope': auto, mini-swe-agent"),
        (("import", "auto", "nowhere.zip", "-o", "o.parquet"), 1, "nowhere.zip: there is no such file or folder"),
        (("import", "auto", "-o", "o.parquet"), 2, "Missing argument"),
        (("trajectories", "split", "nowhere", "-o", "o.parquet"), 1, "nowhere: there is no such file"),
        (("trajectories", "lengths", STARTER / "README.md"), 1, "is not a readable Parquet file"),
        (("trajectories", "show", STARTER / "trajectories.parquet", "nope"), 1, "has no trajectory and no task 'nope'"),
        (
            ("trajectories", "split", STARTER / "trajectories.parquet", "-o", "o.parquet", "--part", "x=1"),
            2,
            "--part x=1: write PART=SHARE",
        ),
        (
            ("trajectories", "split", STARTER / "trajectories.parquet", "-o", "o.parquet", "--near", "nan"),
            2,
            "--near nan: must be a share",
        ),
        (
            ("trajectories", "split", STARTER / "trajectories.parquet", "-o", STARTER / "trajectories.parquet"),
            2,
            "is also an input",
        ),
        (("import", "auto", STARTER / "README.md", "-o", STARTER / "README.md"), 2, "README.md is also an input"),
        (("import", "auto", "", "-o", "o.parquet"), 2, "a path is empty"),
        (("import", "auto", "hf:", "-o", "o.parquet"), 2, "a path is empty"),
        (("import", "auto", "/dev/zero", "-o", "o.parquet"), 1, "/dev/zero is neither a file nor a folder"),
        (
            ("import", "auto", STARTER / "README.md", "-o", "o.csv"),
            2,
            "o.csv ends in .csv: the file to write must end in .parquet",
        ),
        (
            ("trajectories", "split", STARTER / "trajectories.parquet", "-o", "o.zip"),
            2,
            "must end in .parquet, e.g. o.parquet",
        ),
        (("collect", "output=o.csv"), 2, "o.csv ends in .csv: the file to write must end in .parquet"),
        (("evaluate", "t.csv", "--html", "page/"), 2, "page ends in nothing: the file to write must end in .html"),
        (("import", "auto", "x" * 300, "-o", "o.parquet"), 1, "File name too long"),
    ],
)
def test_what_is_wrong_is_one_line_and_an_exit_code(
    arguments: tuple, code: int, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found, _, err = rmlab_here(*arguments)
    assert found == code
    assert words in err
    assert err.strip().count("\n") == 0
    assert not (tmp_path / "o.parquet").exists()


def test_a_set_of_the_hub_without_a_network_is_one_line(tmp_path: Path) -> None:
    answer = subprocess.run(  # of its own: the hub's library reads the setting when it is imported
        [sys.executable, "-m", "rmlab.cli", "import", "auto", "hf:nobody/nothing", "-o", str(tmp_path / "o.parquet")],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
    )
    assert answer.returncode == 1
    assert "hf:nobody/nothing cannot be read" in answer.stderr
    assert answer.stderr.strip().count("\n") == 0
    assert not (tmp_path / "o.parquet").exists()


def test_nothing_stops_the_rest_and_strict_does(rows: Path, tmp_path: Path) -> None:
    rows.write_text(
        rows.read_text()
        + '\n{"broken": \n'
        + json.dumps({"instance_id": "x", "messages": [{"role": "user", "content": "Fix"}]})
    )
    (tmp_path / "notes.yaml").write_text("a: 1")
    _, out, _ = rmlab_here("import", "auto", tmp_path, "-o", tmp_path.parent / f"{tmp_path.name}.parquet", "--json")
    found = json.loads(out)
    assert found["trajectories"] == 80
    assert found["skipped"] == {"no agent turn": 1, "no known format": 1, "not JSON": 1}
    code, _, err = rmlab_here("import", "auto", tmp_path, "-o", tmp_path / "strict.parquet", "--strict")
    assert code == 1
    assert "rows.jsonl:81: not JSON" in err
    assert not (tmp_path / "strict.parquet").exists()


def test_labels_that_hold_none_are_an_error(rows: Path, tmp_path: Path) -> None:
    (tmp_path / "nothing.json").write_text('{"a": 1}')
    answer = rmlab("import", "auto", rows, "--labels", tmp_path / "nothing.json", "-o", tmp_path / "set.parquet")
    assert answer.returncode == 1
    assert "contains no labels. Name a report" in answer.stderr


def test_lengths_split_and_show(rows: Path, tmp_path: Path) -> None:
    assert rmlab_here("import", "auto", rows, "-o", tmp_path / "set.parquet")[0] == 0
    lengths = json.loads(
        rmlab_here(
            "trajectories", "lengths", tmp_path / "set.parquet", "--budget", "900", "--budget", "8192", "--json"
        )[1]
    )
    assert lengths["trajectories"] == 80
    assert lengths["tokenizer"].startswith("starter")
    assert {label: row["n"] for label, row in lengths["tokens"].items()} == {
        "resolved": 27,
        "unresolved": 53,
        "all": 80,
    }
    assert lengths["budgets"]["8192"]["fit_rate"] == {"resolved": 1.0, "unresolved": 1.0, "all": 1.0}
    small = lengths["budgets"]["900"]
    assert small["fit_rate"]["all"] < small["fit_rate_with_observations_cut"]["all"]
    code, out, err = rmlab_here(
        "trajectories", "split", tmp_path / "set.parquet", "-o", tmp_path / "split.parquet", "--json"
    )
    assert code == 0, err
    parts = json.loads(out)["parts"]
    assert sum(part["trajectories"] for part in parts.values()) == 80
    pool = read_trajectories(tmp_path / "split.parquet")
    clusters = {part: {t.cluster for t in pool.trajectories if t.split == part} for part in parts}
    assert sum(map(len, clusters.values())) == len(set.union(*clusters.values())) == 8
    assert {t.trajectory_id for t in pool.trajectories} == {
        t.trajectory_id for t in read_trajectories(tmp_path / "set.parquet").trajectories
    }
    shown = rmlab_here("trajectories", "show", tmp_path / "split.parquet")[1]
    assert [line.split()[0] for line in shown.splitlines()[1:]] == ["m0"] * 3 + ["m1"] * 3
    one = rmlab_here("trajectories", "show", tmp_path / "split.parquet", "o__n3-11")[1]
    assert one.count("[call bash]\nls\n[/call]") == 2
    assert "--- patch\n+x" in one
