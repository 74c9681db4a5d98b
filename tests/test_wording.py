from rmlab.wording import counted


def test_one_is_not_many() -> None:
    assert [counted(n, "run") for n in (0, 1, 2, 1234)] == ["0 runs", "1 run", "2 runs", "1,234 runs"]
    assert [counted(n, "trajectory", "trajectories") for n in (1, 2)] == ["1 trajectory", "2 trajectories"]
