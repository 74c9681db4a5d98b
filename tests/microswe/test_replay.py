from rmlab.microswe.episode import Edits, replayed

CODE = "def f(x):\n    y = x + 2\n    return y"


def test_programs_of_edits_that_build_up_and_that_start_over() -> None:
    said = ["run", "edit 2: y = x", "edit 3: return x", "edit 9: x", "hello"]
    first, both = CODE.replace("x + 2", "x"), "def f(x):\n    y = x\n    return x"
    assert replayed(CODE, said, Edits.build_up) == [CODE, CODE, first, both, both, both]
    last = CODE.replace("return y", "return x")
    assert replayed(CODE, said, Edits.start_over) == [CODE, CODE, first, last, last, last]
    assert replayed(CODE, [], Edits.build_up) == [CODE]
