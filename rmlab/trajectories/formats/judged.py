"""The attempt within the prompt of R2E-Gym's verifier: the whole log of the interaction, and the final patch.

    === INTERACTION LOG ===   [SYSTEM] .. [/SYSTEM]  [USER] .. [/USER]  [STEP] 0 [/STEP]  [ASSISTANT] .. [/ASSISTANT]
    === END INTERACTION ===
    === FINAL PATCH ===       [PATCH] .. [/PATCH]
    === END FINAL PATCH ===

Marks stand on lines of their own. What an agent printed may hold such lines too, so a turn is closed by its own mark only,
and the log ends at the last line that ends it.
"""

import re

LOG, LOG_ENDS = "=== INTERACTION LOG ===", ("=== END INTERACTION", "=== END")
PATCH, PATCH_END = "=== FINAL PATCH ===", "=== END FINAL PATCH"
STEP = re.compile(r"^\[STEP\]\n\s*\d+\s*\n\[/STEP\]\s*$", re.MULTILINE)
MARK = re.compile(r"^\[(/?)([A-Za-z]+)\]$")
ROLES = ("system", "user", "assistant", "tool")


def judged_attempt(prompt: str) -> tuple[list[tuple[str, str]], str | None]:
    """(role, text) of each turn, and the patch (None where the prompt has none)."""
    log, patch = prompt.split(LOG, 1)[1], None
    if PATCH in log:
        log, _, rest = log.rpartition(PATCH)
        inner = rest.rpartition(PATCH_END)[0] or rest
        lines = [line for line in inner.split("\n") if line.strip() not in ("[PATCH]", "[/PATCH]")]
        patch = "\n".join(lines).strip("\n") or None
    end = next((one for one in LOG_ENDS if one in log), None)
    body = log.rpartition(end)[0] if end else log
    closed = any(
        (mark := MARK.match(line.strip())) and mark[1] and mark[2].lower() in ROLES for line in body.split("\n")
    )
    turns: list[tuple[str, list[str]]] = []
    now = ""  # the role whose turn is open
    for line in body.split("\n"):
        mark = MARK.match(line.strip())
        role = mark[2].lower() if mark else ""
        if mark and not mark[1] and role in ROLES and not (closed and now):
            turns.append((role, []))
            now = role
        elif mark and mark[1] and role == now:
            now = ""
        elif turns:
            turns[-1][1].append(line)
    return [(role, STEP.sub("", "\n".join(lines)).strip()) for role, lines in turns], patch and patch + "\n"
