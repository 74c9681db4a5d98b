"""Are two patches one and the same? A hash of the patch after what does not change it is taken away.

Of a real diff, only the changed lines of each file count: not the order of its files, context lines, line numbers, blank
lines, or spaces within and behind a line (indentation counts, since it has a meaning in Python). The patch of micro-SWE is
exact as it stands.
"""

import re
from collections import defaultdict

from rmlab.fingerprint import fingerprint

HUNK = re.compile(r"^@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")
HASH = re.compile(r"[0-9a-f]{16}")


def patch_hash(patch: str) -> str:
    """16 hex digits, equal for equal patches; a text that is such a hash already stays as it is."""
    return patch if HASH.fullmatch(patch) else fingerprint(_changes(patch) or patch.strip())


def _changes(patch: str) -> list[list[str]]:
    """[file, changed line, ...] of each file of a unified diff, sorted by file; empty where the text is none.

    Lines are counted as the head of their hunk says, so that a deleted line `-- x` is no head of a file.
    """
    lines_of: dict[str, list[str]] = defaultdict(list)
    name, old, new = "", 0, 0
    for line in patch.splitlines():
        if old > 0 or new > 0:
            old -= line[:1] in ("-", " ", "")
            new -= line[:1] in ("+", " ", "")
            text = line[1:].rstrip()
            if line[:1] in ("-", "+") and text:
                indent = len(text) - len(text.lstrip())
                lines_of[name].append(line[0] + text[:indent].expandtabs() + " ".join(text.split()))
        elif hunk := HUNK.match(line):
            old, new = (int(count or 1) for count in hunk.groups())
        elif line.startswith(("--- ", "+++ ")) and not line.endswith("/dev/null"):
            name = line[4:].split("\t")[0].strip().removeprefix("a/").removeprefix("b/")
        elif line.startswith(("Binary files ", "GIT binary", "rename ", "new file mode", "deleted file mode")):
            lines_of[name].append(line)
    return [[file, *lines] for file, lines in sorted(lines_of.items())]
