import pytest

from rmlab.configuration import load_program
from rmlab.errors import UsageError
from rmlab.trajectories.store import read_trajectories

SMALL = ["policy=[hasty,careful]", "~parts.supervised", "~parts.verifier", "~parts.evaluation", "parts.validation.tasks=3",
         "parts.validation.attempts=2", "progress=false"]


@pytest.fixture(scope="module")
def collect():
    return load_program("collect")


def test_writes_a_labelled_set_that_names_its_origin(collect, tmp_path, capsys):
    path = tmp_path / "few.parquet"
    pool = collect.main([*SMALL, f"output={path}", "seed=5"])
    back = read_trajectories(path)
    assert back.fingerprint == pool.fingerprint
    assert len(back) == 3 * 2 * 2
    assert {t.split for t in back.trajectories} == {"validation"}
    assert all(t.resolved is not None and t.cluster and t.source for t in back.trajectories)
    assert back.metadata["seed"] == "5"
    assert back.metadata["command"].startswith("rmlab collect")
    assert set(back.metadata) == {"command", "seed", "tasks_fingerprint", "rmlab_version", "environment"}
    assert "validation hasty: 6 trajectories" in capsys.readouterr().out


@pytest.mark.parametrize(("override", "words"), [
    ("parts.validation.tasks=100000", r"parts.validation.tasks=100000 cannot be filled: \d+ tasks"),
    ("+parts.training={tasks: 1}", "parts.training: there is no such part; the parts are supervised"),
    ("parts.validation.policies=[nobody]", "policy 'nobody' is not configured: there are careful, hasty"),
    ("policy.hasty.speed=3", "speed"),
    ("policy.hasty.search=sideways", "sideways"),
])
def test_wrong_settings_end_in_one_line(collect, tmp_path, override, words):
    with pytest.raises(UsageError, match=words) as raised:
        collect.main([*SMALL, f"output={tmp_path / 'x.parquet'}", override])
    assert "\n" not in str(raised.value)


def test_tasks_are_drawn_one_of_every_cluster_first(collect):
    from rmlab.microswe.task import read_tasks
    from rmlab.paths import STARTER

    tasks = [t for t in read_tasks(STARTER / "tasks.parquet")[0] if t.part == "verifier"]
    clusters = len({t.cluster for t in tasks})
    chosen = collect.choose(tasks, clusters, seed=0)
    assert len({t.cluster for t in chosen}) == clusters
    assert chosen == collect.choose(list(reversed(tasks)), clusters, seed=0)
    assert collect.choose(tasks, None, seed=1)[:5] != chosen[:5]
