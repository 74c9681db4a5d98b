import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmlab.microswe.actions import Edit, Run, Submit, UnreadableAction, apply, numbered, parse, patch, try_parse, write

CODE = "def middle(xs):\n    xs = sorted(xs)\n    return xs[0]"


@pytest.mark.parametrize(
    ("text", "action"),
    [
        ("run", Run()),
        (" submit\n", Submit()),
        ("edit 3: return xs[1]", Edit(3, "return xs[1]")),
        ("edit 3:return xs[1]", Edit(3, "return xs[1]")),
        ("edit 3:    return xs[1]  ", Edit(3, "return xs[1]")),
        ("edit 12: x = {1: 2}", Edit(12, "x = {1: 2}")),
    ],
)
def test_reads_actions(text, action):
    assert parse(text) == action


@pytest.mark.parametrize(
    "text",
    [
        "",
        "RUN",
        "run it",
        "edit 3",
        "edit x: y",
        "edit 3:",
        "edit 3: a\nrun",
        "edit 3: a\x0cb",
        "edit 3: " + "x" * 401,
        "edit -1: x",
        "submit.",
        "edit 3: a\0b",
    ],
)
def test_refuses_everything_else(text):
    no_line = r"^an edit takes one line of code of at most 400 characters$"
    no_action = r"^say one of: edit N: code \| run \| submit$"
    is_edit = text.startswith("edit 3:") and "\n" not in text
    with pytest.raises(UnreadableAction, match=no_line if is_edit else no_action):
        parse(text)
    assert try_parse(text) is None


@given(st.integers(1, 9999), st.text(min_size=1, max_size=60))
def test_every_readable_edit_survives_writing(line, code):
    try:
        action = parse(f"edit {line}: {code}")
    except UnreadableAction:
        return
    assert parse(write(action)) == action


def test_an_edit_keeps_the_indentation_and_the_number_of_lines():
    after = apply(CODE, Edit(3, "return xs[1]"))
    assert after == "def middle(xs):\n    xs = sorted(xs)\n    return xs[1]"
    assert patch(CODE, after) == "3- return xs[0]\n3+ return xs[1]"
    assert patch(CODE, CODE) == ""


@pytest.mark.parametrize("line", [0, 4])
def test_a_line_that_is_not_there_is_named(line):
    with pytest.raises(UnreadableAction, match=f"no line {line}: lines are 1 to 3"):
        apply(CODE, Edit(line, "pass"))


def test_numbers_lines_from_one():
    assert numbered(CODE).split("\n")[0] == "1 def middle(xs):"
    assert numbered(CODE).split("\n")[2] == "3     return xs[0]"
