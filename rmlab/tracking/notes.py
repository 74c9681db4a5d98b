"""Markdown that the MLflow UI shows beside a run or an experiment, short enough for a tag."""

from rmlab.tracking.run import LONGEST_TAG

NOTE = "mlflow.note.content"


def summary_note(question: str, table: str, rest: str) -> str:
    """What a sweep's summary run says of itself: the question, the table, where it comes from.

    A table that is too long for a tag is cut after a line, and the note says where the whole one is.
    """
    note = f"## {question}\n\n{table}\n\n{rest}"
    if len(note) <= LONGEST_TAG:
        return note
    lines, cut = table.split("\n"), "\n\n(the rest of the table: artifact `table.md`)"
    while len(lines) > 1 and len(f"## {question}\n\n" + "\n".join(lines) + f"{cut}\n\n{rest}") > LONGEST_TAG:
        lines.pop()
    return f"## {question}\n\n" + "\n".join(lines) + f"{cut}\n\n{rest}"
