"""Which attempt a statement of an outcome is about."""

import json
from pathlib import Path

from rmlab.trajectories.ingest.locations import Location, roots, token, tokens
from rmlab.trajectories.labels.documents import reports
from rmlab.trajectories.labels.join import LabelTarget, join
from rmlab.trajectories.labels.statement import Report
from tests.trajectories.drafts import A, B, C


def test_a_task_that_is_called_both_has_no_outcome() -> None:
    (report,) = reports({"resolved_ids": [A, B], "unresolved_ids": [B]}, Location("run.zip", "results.json"))
    assert (report.outcome, report.contradictions) == ({A: True}, [B])
    result = join([attempt(0, B)], [report])
    assert result.label == {}
    assert result.conflicts == [f"{B}: run.zip/results.json (id lists) lists it as both resolved and unresolved"]


def attempt(
    key: int, task: str, *names: str, content: str = "", own: bool | None = None, joins: bool = True
) -> LabelTarget:
    location = Location("run.zip", f"{'/'.join(names) or 'trajs'}/{task}.json")
    return LabelTarget(
        key,
        task,
        content or str(key),
        location,
        tokens(["run", *names]),
        None if own is None else (own, f"row {key}"),
        joins,
    )


def report(path: str, outcome: dict[str, bool], **more: object) -> Report:
    return Report(Location("run.zip", path), "id lists", outcome=outcome, **more)


def test_names_compare_across_spellings() -> None:
    assert len({token(n) for n in ("deepseek/deepseek-chat", "deepseek__deepseek-chat", "DeepSeek_deepseek.chat")}) == 1


def test_each_run_takes_its_own_report() -> None:
    runs = [attempt(i, A, f"run_{i}") for i in range(3)]
    result = join(runs, [report("m.run_0.json", {A: True}), report("m.run_1.json", {A: False})])
    assert {key: outcome for key, (outcome, _) in result.label.items()} == {0: True, 1: False}
    assert result.label[0][1] == "run.zip/m.run_0.json (id lists)"
    assert not result.conflicts
    assert not result.ambiguous


def test_one_statement_for_two_attempts_labels_neither() -> None:
    both = [attempt(0, A, "trajs"), attempt(1, A, "trajs")]
    result = join(both, [report("results.json", {A: True})])
    assert result.label == {}
    assert len(result.ambiguous) == 1
    assert "states one outcome, but it could mean any of 2 attempts" in result.ambiguous[0]
    copies = [attempt(0, A, "trajs", content="same"), attempt(1, A, "copy", content="same")]
    assert set(join(copies, [report("results.json", {A: True})]).label) == {0, 1}


def test_two_reports_that_disagree_label_nobody_and_both_are_named() -> None:
    result = join(
        [attempt(0, A), attempt(1, B)],
        [report("a.json", {A: True, B: True}), report("logs/b.json", {A: False, B: True})],
    )
    assert set(result.label) == {1}
    assert result.conflicts == [
        f"{A} (run.zip/trajs/{A}.json): resolved by run.zip/a.json (id lists), unresolved by run.zip/logs/b.json (id lists)"
    ]
    own = join([attempt(0, A, own=False)], [report("a.json", {A: True})])
    assert own.label == {}
    assert "unresolved by row 0" in own.conflicts[0]


def test_a_report_of_another_run_in_the_same_folder_labels_nobody() -> None:
    mine = attempt(0, A, "mine")
    assert join([mine], [report("other/results.json", {A: True})]).label == {}
    assert join([mine], [report("logs/x/results.json", {A: True})]).label == {
        0: (True, "run.zip/logs/x/results.json (id lists)")
    }
    assert join([mine], [report("results.json", {A: True}, system="other")]).label == {}
    assert set(join([mine], [report("results.json", {A: True}, system="MINE")]).label) == {0}


def test_a_report_of_another_model_in_the_same_folder_labels_nobody() -> None:
    location = Location("run.zip", f"mine/{A}.json")
    mine = LabelTarget(
        0, A, "0", location, tokens(["run", "mine", "deepseek/deepseek-reasoner"]), model="deepseek/deepseek-reasoner"
    )
    other = report("mine/deepseek__deepseek-chat.dev.json", {A: True})
    found = join([mine], [other])
    assert (found.label, found.conflicts) == ({}, [])
    assert "is about deepseek__deepseek-chat, 1 attempt beside it is of deepseek/deepseek-reasoner" in found.notes[0]
    for name in (
        "deepseek__deepseek-reasoner.dev.json",
        "openrouter__deepseek__deepseek-reasoner-0528.json",
        "x.dev.json",
        "results.json",
    ):
        assert set(join([mine], [report(f"mine/{name}", {A: True})]).label) == {0}, name
    logs = report(f"mine/logs/run_evaluation/dev/deepseek__deepseek-chat/{A}/report.json", {A: True})
    assert join([mine], [logs]).label == {}
    assert set(join([mine], [report("deepseek__deepseek-chat.json", {A: True}, explicit=True)]).label) == {
        0
    }  # the user's word
    for name in (
        f"{A}.json",
        f"{A}.report.json",
        f"{A}_eval.json",
        f"{A.rsplit('-', 1)[0]}.json",
    ):  # an instance is no model
        assert set(join([mine], [report(f"mine/{name}", {A: True})]).label) == {0}, name


def test_an_attempt_and_a_report_may_write_an_instance_differently() -> None:
    theirs = attempt(0, "o/n:pr-1")
    assert set(join([theirs], [report("results.json", {A: True})]).label) == {0}


def test_a_named_matrix_of_other_systems_says_so() -> None:
    mine = [attempt(0, A, "mine")]
    others = [report("board.json", {A: True}, system=name, explicit=True) for name in ("x", "y")]
    found = join(mine, others)
    assert found.label == {}
    assert found.notes == [
        "run.zip/board.json is about 2 systems, but no attempt has the name of one (x, y, ...): "
        "import the run from a folder named after its system"
    ]
    assert join(mine, [*others, report("board.json", {A: True}, system="Mine", explicit=True)]).notes == []


def test_named_reports_are_taken_wherever_they_lie_and_never_outvote() -> None:
    mine = attempt(0, A, "mine")
    assert set(join([mine], [report("elsewhere/x.json", {A: True}, explicit=True)]).label) == {0}
    both = join([mine], [report("mine/results.json", {A: False}), report("elsewhere/x.json", {A: True}, explicit=True)])
    assert both.label == {}
    assert len(both.conflicts) == 1


def test_a_row_that_names_no_run_takes_no_label() -> None:
    assert join([attempt(0, A, joins=False)], [report("results.json", {A: True})]).label == {}


def test_paths_that_end_alike_are_called_apart(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("a/run", "b/run", "b/x/run", "c.json", "a/run")]
    assert roots(paths) == ["a/run", "b/run", "x/run", "c.json", "a/run"]
    assert Location("a/run", "trajs/x.json").folders == ("a", "run", "trajs")
    assert (Location("a/r.json", "").stem, Location("a/r.json", "").name, str(Location("a/r.json", ""))) == (
        "r",
        "r.json",
        "a/r.json",
    )
    runs = [
        LabelTarget(i, A, str(i), Location(f"{r}/run", f"{A}.json"), tokens([r, "run"])) for i, r in enumerate("ab")
    ]
    stated = [Report(Location(f"{r}/run", "report.json"), "id lists", outcome={A: r == "a"}) for r in "ab"]
    assert {key: outcome for key, (outcome, _) in join(runs, stated).label.items()} == {0: True, 1: False}
    named = [Report(Location(f"{r}/report.json", ""), "id lists", outcome={A: r == "a"}, explicit=True) for r in "ab"]
    assert {key: outcome for key, (outcome, _) in join(runs, named).label.items()} == {0: True, 1: False}


def test_order_does_not_matter() -> None:
    attempts = [attempt(i, t, f"run_{i % 2}") for i, t in enumerate([A, A, B, B, C])]
    stated = [
        report("m.run_0.json", {A: True, B: False, C: True}),
        report("m.run_1.json", {A: False, B: True}),
        report("results.json", {A: True}),
    ]
    forward, backward = join(attempts, stated), join(attempts[::-1], stated[::-1])
    assert forward.label == backward.label
    assert sorted(forward.conflicts) == sorted(backward.conflicts)
    assert sorted(forward.ambiguous) == sorted(backward.ambiguous)


def test_whole_import_with_labels_elsewhere(tmp_path: Path, importing) -> None:
    run = {
        "trajectory_format": "mini-swe-agent-1",
        "info": {"exit_status": "Submitted", "submission": "d"},
        "messages": [{"role": "user", "content": "Fix"}, {"role": "assistant", "content": "```bash\nls\n```"}],
    }
    for task in (A, B):
        (tmp_path / "trajs" / task).mkdir(parents=True)
        (tmp_path / "trajs" / task / f"{task}.traj.json").write_text(json.dumps(run | {"instance_id": task, "n": task}))
        run["messages"][0]["content"] += " it"
    (tmp_path / "elsewhere.json").write_text(json.dumps({A: True}))
    found = importing(tmp_path / "trajs", labels=(tmp_path / "elsewhere.json",))
    assert (found.summary["trajectories"], found.summary["labelled"], found.summary["resolved"]) == (2, 1, 1)
    assert found.by_task()[B].resolved is None
    assert found.by_task()[A].label_source == "elsewhere.json (id to bool)"
