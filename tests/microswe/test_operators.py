"""The operators: exactly one line changes, every text compiles, and the mistakes are the ones that are named."""

import ast
import inspect
import textwrap

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rmlab.metrics import best_of_k, calibration, discrimination
from rmlab.microswe.build import clusters, operators, public_call
from rmlab.microswe.build.operators import _walked, mutants

FUNCTION = """\
def span(xs, n=3, *, key=None):
    total = 0
    for i, x in enumerate(xs):
        if x > n and key is None:
            continue
        elif not x:
            break
        total += x * 2
    ys = [y for y in xs[1:] if y != n]
    return (max(ys), total)"""


def changed(code, line, operator=None):
    return {m.code.split("\n")[line - 1].strip() for m in mutants(code, [line]) if operator in (None, m.operator)}


def own_functions():
    """Functions of this repository, in the plain form that tasks have."""
    for module in (best_of_k, calibration, discrimination, clusters, operators, public_call):
        for _, function in inspect.getmembers(module, inspect.isfunction):
            yield ast.unparse(ast.parse(textwrap.dedent(inspect.getsource(function))))


@pytest.mark.parametrize("code", [FUNCTION, *own_functions()])
def test_every_mutant_compiles_and_differs_in_exactly_its_line(code):
    lines = code.split("\n")
    found = mutants(code)
    assert len({m.code for m in found}) == len(found)
    for mutant in found:
        compile(mutant.code, "mutant", "exec")
        other = mutant.code.split("\n")
        assert [i + 1 for i, (a, b) in enumerate(zip(lines, other, strict=True)) if a != b] == [mutant.line]


def test_the_mistakes_of_each_line():
    assert {"if x >= n and key is None:", "if x < n and key is None:"} <= changed(FUNCTION, 4, "comparison")
    assert changed(FUNCTION, 4, "boolean") == {"if x > n or key is None:"}
    assert {"if x > n + 1 and key is None:", "if x > n - 1 and key is None:"} == changed(FUNCTION, 4, "boundary")
    assert "if not (x > n and key is None):" in changed(FUNCTION, 4, "negated_condition")
    assert {"if x > n:", "if key is None:"} == changed(FUNCTION, 4, "missing_term")
    assert changed(FUNCTION, 5) == {"break", "pass"}
    assert "elif x:" in changed(FUNCTION, 6, "negated_condition")
    assert {"total -= x * 2", "total *= x * 2", "total += x + 2"} <= changed(FUNCTION, 8, "arithmetic")
    assert changed(FUNCTION, 8, "dropped_statement") == {"pass"}
    assert {"ys = [y for y in xs[:] if y != n]", "ys = [y for y in xs[2:] if y != n]"} <= changed(
        FUNCTION, 9, "slice_bounds"
    )
    assert changed(FUNCTION, 9, "missing_condition") == {"ys = [y for y in xs[1:]]"}
    assert changed(FUNCTION, 9, "early_return") == {"return [y for y in xs[1:] if y != n]"}
    assert "return (min(ys), total)" in changed(FUNCTION, 10, "function_swap")
    assert changed(FUNCTION, 10, "swapped_values") == {"return (total, max(ys))"}


@pytest.mark.parametrize(
    ("line", "operator", "mistake"),
    [
        ("xs[i]", "index", "xs[i - 1]"),
        ("xs[0]", "index", "xs[-1]"),
        ("xs[i - 1]", "index", "xs[i]"),
        ("f(a, b)", "swapped_arguments", "f(b, a)"),
        ("a - b", "swapped_operands", "b - a"),
        ("a + 1", "missing_term", "a"),
        ("range(a)", "range_bounds", "range(a - 1)"),
        ("range(1, a)", "range_bounds", "range(a)"),
        ("-a", "sign", "a"),
        ("sorted(a, reverse=True)", "missing_argument", "sorted(a)"),
        ("abs(a)", "missing_call", "a"),
        ("7", "constant", "8"),
        ("a if b else i", "missing_branch", "a"),
        ("a.startswith(b)", "function_swap", "a.endswith(b)"),
        ("True", "constant", "False"),
        ("a in b", "comparison", "a not in b"),
        ("a is b", "comparison", "a is not b"),
        ("xs[a:b]", "slice_bounds", "xs[a:]"),
    ],
)
def test_small_mistakes(line, operator, mistake):
    code = f"def f(xs, a, b, i):\n    return {line}"
    assert f"return {mistake}" in changed(code, 2, operator)


@pytest.mark.parametrize(
    "pair",
    [
        ("a < b", "a <= b"),
        ("range(a)", "range(a + 1)"),
        ("xs[a]", "xs[a + 1]"),
        ("max(xs)", "min(xs)"),
        ("f(a, b)", "f(b, a)"),
        ("a and b", "a or b"),
        ("a - b", "b - a"),
        ("a + b", "a - b"),
        ("3", "2"),
    ],
)
def test_these_mistakes_can_be_undone(pair):
    for one, other in (pair, pair[::-1]):
        assert f"return {other}" in changed(f"def f(xs, a, b):\n    return {one}", 2)


def test_a_variable_is_confused_only_with_one_that_is_bound_there():
    code = "def f(a):\n    b = a\n    c = a + b\n    return c"
    assert changed(code, 2, "wrong_variable") == set()
    assert changed(code, 3, "wrong_variable") == {"c = b + b", "c = a + a"}
    assert "return b" in changed(code, 4, "wrong_variable")


def test_a_first_assignment_is_never_dropped_but_a_later_one_is():
    code = "def f(a):\n    b = a\n    b = b + 1\n    return b"
    assert changed(code, 2, "dropped_statement") == set()
    assert changed(code, 3, "dropped_statement") == {"pass"}


def test_lines_that_hold_more_than_one_statement_or_reach_over_several_are_left_alone():
    assert mutants("def f(a):\n    a += 1; a -= 1\n    if a: return 1\n    return a", [2, 3]) == []
    assert {m.line for m in mutants("def f(a, b):\n    c = (a +\n         b)\n    return c")} == {4}


def test_text_formatting_is_not_arithmetic():
    assert changed("def f(a):\n    return '%d' % a", 2, "arithmetic") == set()


def test_a_text_that_does_not_parse_is_an_error():
    with pytest.raises(SyntaxError):
        mutants("def f(:")


names = st.sampled_from(["a", "b", "xs"])
numbers = st.integers(-3, 12).map(str)
expressions = st.recursive(
    names | numbers,
    lambda inner: st.one_of(
        st.builds(
            "({} {} {})".format,
            inner,
            st.sampled_from(["+", "-", "*", "//", "%", "**", "<", "<=", "==", "and", "or", "in"]),
            inner,
        ),
        st.builds("xs[{}]".format, inner),
        st.builds("xs[{}:{}]".format, inner, inner),
        st.builds("max({}, {})".format, inner, inner),
        st.builds("(not {})".format, inner),
        st.builds("[{} for i in {} if {}]".format, inner, inner, inner),
        st.builds("({} if {} else {})".format, inner, inner, inner),
        st.builds("(lambda c: {})".format, inner),
    ),
    max_leaves=6,
)


@settings(max_examples=60, deadline=None)
@given(expressions)
def test_any_expression_keeps_its_structure_around_the_mistake(expression):
    code = ast.unparse(ast.parse(f"def f(xs, a, b):\n    c = {expression}\n    return c"))
    for mutant in mutants(code):
        assert ast.unparse(ast.parse(mutant.code)) == mutant.code


NESTED = """def f(xs, sep="-"):
    out = {"b": 1}
    for x in xs:
        if x > 1 and sep in "a b":
            out[x] = [y + 1 for y in range(x)]
    def inner(k):
        return k - 1
    return sorted(out), inner(2)"""


def test_lines_one_by_one_are_all_lines_at_once():
    whole = mutants(NESTED)
    assert len({m.line for m in whole}) >= 6
    assert [m for line in range(1, 9) for m in mutants(NESTED, [line])] == whole


def test_nodes_are_walked_as_ast_walks_them():
    tree = ast.parse(NESTED)
    assert _walked(tree) == [node for node in ast.walk(tree) if not isinstance(node, ast.expr_context)]
