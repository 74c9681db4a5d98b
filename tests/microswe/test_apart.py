from dataclasses import replace

import pytest
from typer.testing import CliRunner

from rmlab.cli import app
from rmlab.errors import UsageError
from rmlab.microswe.build.clusters import clusters as clusters_of
from rmlab.microswe.build.clusters import demonstration_split
from rmlab.microswe.task import Task, read_tasks, write_tasks
from rmlab.paths import STARTER
from rmlab.trajectories.record import Split
from tests.hand_task import NEGATED


def of(cluster: str, number: int, part: Split = "rl") -> list[Task]:
    return [
        replace(NEGATED, task_id=f"hand/{cluster}/{i}", function_id=f"hand.{cluster}", cluster=cluster, part=part)
        for i in range(number)
    ]


def test_whole_clusters_go_up_to_the_share_and_those_of_the_other_file_stay() -> None:
    tasks = [task for i in range(10) for task in of(f"c{i}", 3)]
    beside = of("c4", 1) + of("c7", 2)
    stay, going = demonstration_split(tasks, beside, 0.5)
    assert len(going) == 15
    assert len(stay) == 15
    assert {t.part for t in going} == {"supervised"}
    assert {t.part for t in stay} == {"rl"}
    assert not {t.cluster for t in going} & {t.cluster for t in stay}
    assert {"c4", "c7"} <= {t.cluster for t in stay}
    assert demonstration_split(tasks, beside, 0.5, seed=1)[1] != going
    with pytest.raises(UsageError, match="between 0 and 1"):
        demonstration_split(tasks, beside, 1.0)
    with pytest.raises(UsageError, match="Use a larger share"):
        demonstration_split(tasks, beside, 0.05)


def test_the_command_writes_both_files_and_asks_for_the_file_that_they_were_built_beside(tmp_path) -> None:
    beside, more = tmp_path / "t.parquet", tmp_path / "more.parquet"
    write_tasks(beside, of("c0", 2), {})
    write_tasks(
        more, [task for i in range(1, 5) for task in of(f"c{i}", 2)], {"beside": read_tasks(beside)[1]["fingerprint"]}
    )
    said = [
        "tasks",
        "apart",
        str(more),
        "--supervised",
        str(tmp_path / "s.parquet"),
        "--rest",
        str(tmp_path / "r.parquet"),
        "--share",
        "0.5",
    ]
    assert CliRunner().invoke(app, [*said, "--beside", str(beside)]).exit_code == 0
    shown, about = read_tasks(tmp_path / "s.parquet")
    assert len(shown) == 4 == len(read_tasks(tmp_path / "r.parquet")[0])
    assert "--share 0.5" in about["set_apart"]
    again = CliRunner().invoke(app, ["tasks", "apart", str(tmp_path / "r.parquet"), *said[3:], "--beside", str(beside)])
    assert isinstance(again.exception, UsageError)
    assert "has been set apart already" in str(again.exception)
    failed = CliRunner().invoke(app, [*said, "--beside", str(more)])
    assert isinstance(failed.exception, UsageError)
    assert "was not built beside" in str(failed.exception)


@pytest.mark.slow
def test_the_shipped_files_share_no_cluster() -> None:
    first, shown, practised = (
        read_tasks(STARTER / f"{name}.parquet")[0] for name in ("tasks", "tasks_supervised", "tasks_rl")
    )
    assert {t.part for t in shown} == {"supervised"}
    assert len(shown) >= 3000
    clusters = {t.cluster for t in shown}
    assert not clusters & {t.cluster for t in practised}
    assert not clusters & {t.cluster for t in first}
    parts = {t.function_id: t.part for t in (*first, *shown, *practised)}
    functions = {t.function_id: t for t in (*first, *shown, *practised)}
    found = clusters_of({i: t.original for i, t in functions.items()}, {i: t.context for i, t in functions.items()})
    of_cluster: dict[str, set[str]] = {}
    for function_id, part in parts.items():
        of_cluster.setdefault(found[function_id], set()).add(part)
    assert {len(own) for own in of_cluster.values()} == {1}, "the rule asked anew over all three files"
