from rmlab.wording import counted, duration, number


def test_one_is_not_many() -> None:
    assert [counted(n, "run") for n in (0, 1, 2, 1234)] == ["0 runs", "1 run", "2 runs", "1,234 runs"]
    assert [counted(n, "trajectory", "trajectories") for n in (1, 2)] == ["1 trajectory", "2 trajectories"]


def test_an_undefined_number_is_shown_as_absent() -> None:
    assert [number(0.75), number(0.12345, 4), number(None), number(None, absent="")] == ["0.750", "0.1235", "-", ""]


def test_a_time_is_as_exact_as_one_wants_to_know_it() -> None:
    assert [duration(s) for s in (0.4, 8.0, 99.4, 119, 600, 5990, 7800, 7200)] == [
        *("0 s", "8 s", "99 s", "2 min", "10 min", "1 h 40 min", "2 h 10 min", "2 h")
    ]
