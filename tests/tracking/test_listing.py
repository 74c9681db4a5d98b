import csv
import io
import os
import re
import signal
from pathlib import Path

import pytest

from rmlab.commands.runs import KINDS, list_runs, short_ids
from rmlab.errors import UsageError
from rmlab.tracking.run import RunLogger
from rmlab.tracking.store import Store
from tests.forked import exit_code


@pytest.fixture
def filled(store: Store) -> Store:
    for seed, auc in enumerate((0.6, 0.8, 0.7)):
        tags = {"sweep": "data_scale", "preset": "demo", "level": "9", "config_hash": f"c{seed}"}
        with RunLogger.start(
            store,
            "data_scale",
            f"data_scale=9 s{seed}",
            kind="verifier",
            tags=tags,
            params={"seed": seed, "learning_rate": 10.0**-seed},
        ) as run:
            run.metrics({"eval/auc_within_task": auc})
            run.metric("eval/rm_at_k", 0.1, 1)
            run.metric("eval/rm_at_k", 0.2, 16)
    with RunLogger.start(store, "policies", "grpo", kind="policy"):
        pass
    return store


def names(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return [line.split("  ")[0].strip() for line in capsys.readouterr().out.splitlines()[1:]]


def test_runs_are_sorted_chosen_and_counted(filled: Store, capsys: pytest.CaptureFixture[str]) -> None:
    list_runs(sort="auc_within_task")
    assert names(capsys) == ["data_scale=9 s1", "data_scale=9 s2", "data_scale=9 s0", "grpo"]
    list_runs(sort="eval/auc_within_task", ascending=True, limit=2)
    assert names(capsys) == ["data_scale=9 s0", "data_scale=9 s2", "2 of 4 runs"]
    list_runs(sort="learning_rate", kind="verifier")
    assert names(capsys) == ["data_scale=9 s0", "data_scale=9 s1", "data_scale=9 s2"], "numbers, not words"
    list_runs(sort="name", ascending=True, sweep="data_scale")
    assert names(capsys) == ["data_scale=9 s0", "data_scale=9 s1", "data_scale=9 s2"]
    list_runs(kind="policy")
    assert names(capsys) == ["grpo"]
    list_runs(kind="benchmark")
    assert capsys.readouterr().out.startswith("no runs of kind benchmark in sqlite:///")
    with pytest.raises(
        UsageError, match=r"--sort auc_within_tas: no run has .*auc_within_task.*`rmlab runs list --csv` has"
    ):
        list_runs(sort="auc_within_tas")


def test_below_runs_of_rl_it_is_said_of_which_tasks_their_metrics_are(
    filled: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    list_runs()
    assert "held-out" not in capsys.readouterr().out, "no run of RL is there"
    with RunLogger.start(filled, "policies", "execution_a", kind="rl") as run:
        run.metrics({"rl/pass_at_1": 0.3, "outcome/all_greedy_difference": 0.1, "outcome/all_sampled_difference": 0.2})
    list_runs(kind="rl")
    *_, last = capsys.readouterr().out.splitlines()
    assert last == (
        "pass_at_1 is of sampled attempts at validation tasks, at the last evaluation; gained is pass@1 on held-out tasks after "
        "training less before, greedy (one attempt a task); gained_sampled is the same of sampled attempts."
    )
    list_runs(kind="rl", as_csv=True)
    assert "held-out" not in capsys.readouterr().out


def test_a_list_says_of_which_sweep_a_summary_is(filled: Store, capsys: pytest.CaptureFixture[str]) -> None:
    for sweep in ("data_scale", "evidence"):
        tags = {"sweep": sweep, "preset": "demo"}
        with RunLogger.start(filled, sweep, "summary demo", kind="summary", tags=tags):
            pass
    list_runs(kind="summary")
    header, *rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert header[:3] == ["run", "sweep", "id"]
    assert sorted(row[:3] for row in rows) == [["summary", "demo", "data_scale"], ["summary", "demo", "evidence"]]
    list_runs(kind="summary", as_csv=True)
    listed = csv.DictReader(io.StringIO(capsys.readouterr().out))
    assert sorted((row["name"], row["sweep"]) for row in listed) == [
        ("summary demo", "data_scale"),
        ("summary demo", "evidence"),
    ]
    list_runs(sweep="evidence")
    assert capsys.readouterr().out.split()[:2] == ["run", "id"], "it was asked for by its sweep"
    list_runs(kind="policy")
    assert capsys.readouterr().out.split()[:2] == ["run", "id"], "none is of a sweep"


def test_a_sweep_or_kind_that_there_is_not_is_refused_with_what_is_there(filled: Store) -> None:
    with pytest.raises(
        UsageError, match=r"--sweep data_scal: there is no such sweep \(did you mean data_scale\?\); in sqlite"
    ):
        list_runs(sweep="data_scal")
    with pytest.raises(UsageError, match=r"--kind verifer: .*\(did you mean verifier\?\); .* of: policy, verifier$"):
        list_runs(kind="verifer")


def test_the_help_names_the_kinds_that_runs_have() -> None:
    programs = [
        *Path("experiments/programs").glob("*.py"),
        *Path("rmlab").rglob("*.py"),
        Path("analysis/summaries/summary_runs.py"),
    ]
    given = {
        word
        for path in programs
        for word in re.findall(
            r'(?:\bKIND = (?:"\w+", )?|^ +kind=|, kind=)"(\w+)"', path.read_text(encoding="utf-8"), re.MULTILINE
        )
    } - {"stable"}
    assert given == set(KINDS)


def test_a_name_is_text_and_not_markup(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    with RunLogger.start(store, "verifiers", "data.sources=[bold] s0", kind="verifier"):
        pass
    list_runs()
    assert names(capsys) == ["data.sources=[bold] s0"]


def test_csv_has_everything(filled: Store, capsys: pytest.CaptureFixture[str]) -> None:
    list_runs(sweep="data_scale", sort="seed", ascending=True, as_csv=True)
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [row["name"] for row in rows] == ["data_scale=9 s0", "data_scale=9 s1", "data_scale=9 s2"]
    assert [
        (row["param seed"], row["eval/auc_within_task"], row["eval/rm_at_k"], row["config_hash"], row["status"])
        for row in rows
    ] == [
        ("0", "0.6", "0.2", "c0", "finished"),
        ("1", "0.8", "0.2", "c1", "finished"),
        ("2", "0.7", "0.2", "c2", "finished"),
    ]


def test_a_killed_process_does_not_run_for_ever(filled: Store, capsys: pytest.CaptureFixture[str]) -> None:
    def killed() -> None:
        RunLogger.start(Store.open(filled.uri), "policies", "warm start", kind="warm_start")
        os.kill(os.getpid(), signal.SIGKILL)

    assert exit_code(killed) == -signal.SIGKILL
    with RunLogger.start(filled, "policies", "alive", kind="warm_start"):
        list_runs(kind="warm_start", as_csv=True)
        shown = {row["name"]: row["status"] for row in csv.DictReader(io.StringIO(capsys.readouterr().out))}
    assert shown == {"warm start": "killed", "alive": "running"}


def test_a_long_name_is_not_cut_in_a_terminal(
    store: Store, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "130")
    name = "learning_rate=0.00123 batch_size=32 width=narrow depth=2 label_smoothing=0.05 s0"
    with RunLogger.start(store, "search", name, kind="verifier", tags={"config_hash": "c0"}):
        pass
    RunLogger.start(store, "search", "stopped", kind="verifier", tags={"config_hash": "c1"}).fail(KeyboardInterrupt())
    list_runs()
    said = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)
    assert "…" not in said
    assert all(word in said for word in name.split())
    assert " stopped " in said


def test_ids_in_a_list_are_as_long_as_they_must_be(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    alike = ["0123456789" + "a" * 22, "0123456789" + "b" * 22, "c" * 32]
    assert list(short_ids(alike).values()) == ["0123456789a", "0123456789b", "c" * 11]
    with RunLogger.start(store, "verifiers", "one", kind="verifier") as run:
        pass
    list_runs()
    assert capsys.readouterr().out.splitlines()[1].split()[:2] == ["one", run.run_id[:8]]
