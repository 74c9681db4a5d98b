"""A count with its word, as a sentence has it: 1 report, 2 reports, 1,000 tasks."""


def counted(count: int, word: str, many: str = "") -> str:
    """The count, and the word in the form that goes with it. many: its plural, where that is not the word with an s."""
    return f"{count:,} {word if count == 1 else many or word + 's'}"
