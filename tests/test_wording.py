from rmlab.wording import counted, number


def test_one_is_not_many() -> None:
    assert [counted(n, "run") for n in (0, 1, 2, 1234)] == ["0 runs", "1 run", "2 runs", "1,234 runs"]
    assert [counted(n, "trajectory", "trajectories") for n in (1, 2)] == ["1 trajectory", "2 trajectories"]


def test_an_undefined_number_is_shown_as_absent() -> None:
    assert [number(0.75), number(0.12345, 4), number(None), number(None, absent="")] == ["0.750", "0.1235", "-", ""]
