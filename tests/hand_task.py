"""A task of micro-SWE written by hand."""

from rmlab.microswe.task import Task

NEGATED = Task(
    task_id="hand/f/0",
    function_id="hand.f",
    package="hand",
    source="hand",
    cluster="a",
    part="rl",
    entry="f",
    context="",
    original="def f(x):\n    return x",
    code="def f(x):\n    return -x",
    lines=(2,),
    operators=("sign",),
    inputs=("(1,)",),
    outputs=("1",),
    public=0,
    public_share=0.5,
)
"""Its one mistake is a sign too many."""
