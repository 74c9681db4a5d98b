"""Words of messages that depend on a number."""


def many(number: int, what: str, plural: str = "") -> str:
    """`1 run`, `2 runs`, `1,234 runs`. plural: where it is not the word with an s."""
    return f"{number:,} {what if number == 1 else plural or f'{what}s'}"
