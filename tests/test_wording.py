from rmlab.wording import counted, duration, estimate, listed, number


def test_one_is_not_many() -> None:
    assert [counted(n, "run") for n in (0, 1, 2, 1234)] == ["0 runs", "1 run", "2 runs", "1,234 runs"]
    assert [counted(n, "trajectory", "trajectories") for n in (1, 2)] == ["1 trajectory", "2 trajectories"]


def test_lists_are_read_aloud() -> None:
    assert [listed(words) for words in ([], ["a"], ["a", "b"], ["a", "b", "c"])] == [
        "none",
        "a",
        "a and b",
        "a, b and c",
    ]


def test_an_undefined_number_is_shown_as_absent() -> None:
    assert [number(0.75), number(0.12345, 4), number(None), number(None, absent="")] == ["0.750", "0.1235", "-", ""]


def test_a_value_stands_with_its_interval_where_there_is_one() -> None:
    assert estimate(0.75, (0.7, 0.8)) == "0.750 [0.700, 0.800]"
    assert estimate(0.05, [-0.01, 0.11], signed=True) == "+0.050 [-0.010, +0.110]"
    assert estimate(0.5, (-0.25, 1.0), 2, signed=True) == "+0.50 [-0.25, +1.00]"
    assert [estimate(0.75, ends) for ends in (None, (None, None), (0.7, None))] == ["0.750"] * 3
    assert [estimate(None, (0.7, 0.8)), estimate(None, None, absent="")] == ["-", ""]


def test_a_time_is_as_exact_as_one_wants_to_know_it() -> None:
    assert [duration(s) for s in (0.4, 8.0, 99.4, 119, 600, 5990, 7800, 7200)] == [
        *("0 s", "8 s", "99 s", "2 min", "10 min", "1 h 40 min", "2 h 10 min", "2 h")
    ]
