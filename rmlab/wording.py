"""Words of messages that depend on a number."""


def counted(count: int, word: str, plural: str = "") -> str:
    """`1 report`, `2 reports`, `1,000 tasks`. plural: of the word, where that is not the word with an s."""
    return f"{count:,} {word if count == 1 else plural or f'{word}s'}"
