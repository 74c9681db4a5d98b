"""The reader of scored trajectories as one HTML file: the whole table, and the turns of those that the score is most wrong about.

A file of at most 10 MB that loads nothing and can be sent to a colleague. What it does not hold it says.
"""

from pathlib import Path
from typing import Any

from rmlab.errors import DataError
from rmlab.files import write_text
from rmlab.pages.attempts import Attempts, Details
from rmlab.pages.html import asset, embedded_json, page, text

EMBEDDED = 200  # attempts, the most confident mistakes first
LARGEST = 10_000_000  # bytes of the file
LONGEST = 20_000  # characters of a message in a file, where the whole does not fit


def write_browse_page(path: Path, title: str, attempts: Attempts) -> None:
    """Writes the page whole or not at all."""
    write_text(path, browse_page(title, attempts))


def browse_page(title: str, attempts: Attempts) -> str:
    """The page's markup. Raises DataError where the table alone is larger than a page may be."""
    shell = _markup(title, attempts, {"data-rows": attempts.columns()}, served=False)
    room = LARGEST - len(shell.encode()) - 1000  # for the numbers that the notes say
    if room < 0:
        raise DataError(
            f"the table of {len(attempts):,} attempts alone makes a page of more than {LARGEST // 10**6} MB: use --serve"
        )
    return _markup(
        title, attempts, {"data-rows": attempts.columns(), "data-details": _embedded(attempts, room)}, served=False
    )


def served_page(title: str, attempts: Attempts) -> str:
    """The page that asks its server for rows and turns."""
    return _markup(title, attempts, {}, served=True)


def _embedded(attempts: Attempts, room: int) -> list[Details]:
    """Details of the first attempts, as many as fit into `room` bytes; long messages are cut where the whole does not fit."""
    names = [name for name in attempts.scores.trajectory_id.tolist() if name in attempts.trajectory][:EMBEDDED]
    for longest in (None, LONGEST, LONGEST // 10):
        chosen: list[Details] = []
        used = 0
        for name in names:
            details = attempts.details(name, longest)
            size = len(embedded_json(details).encode()) + 1
            if details is None or used + size > room:
                break
            chosen.append(details)
            used += size
        if len(chosen) == len(names):
            break
    return chosen if names else []


def _markup(title: str, attempts: Attempts, data: dict[str, Any], *, served: bool) -> str:
    about = {"served": served, "count": len(attempts), "columns": attempts.telling_columns()}
    missing = attempts.without_trajectory
    held = len(data.get("data-details", ()))
    notes = [f"{len(attempts):,} attempts, {attempts.mistakes:,} of them with the likelier answer wrong"]
    if missing:
        notes.append(f"{missing:,} have no trajectory here")
    if not served:
        notes.append(
            "all turns are in this file"
            if held == len(attempts)
            else f"turns of the {held:,} that the score is most wrong about are in this file; rmlab browse --serve has all"
        )
    body = f"""<header><h1>{text(title)}</h1><p>{text("; ".join(notes))}.</p></header>
<main>
<section id="list" aria-label="Attempts">
<form id="filters" role="search"><label>Filter <input id="filter" type="search" autocomplete="off" placeholder="task or policy"></label>
<label><input id="mistakes" type="checkbox"> mistakes only</label> <span id="shown" role="status"></span></form>
<div id="scroll" tabindex="0" aria-label="Table of attempts: arrow keys move, Enter reads"><table>
<thead><tr id="head"></tr></thead><tbody id="rows"></tbody></table></div>
<p class="keys">Keys: arrows or j, k move; Enter reads; n, p next and previous turn; / filters; Esc goes back to the table.</p>
</section>
<article id="reader" tabindex="-1" aria-label="Turns and patch"><p class="dim">Choose an attempt to read it.</p></article>
</main>"""
    return page(
        f"{title} - rmlab browse",
        body,
        asset("browse.css"),
        asset("highlight.js") + asset("browse.js"),
        {"data-about": about, **data},
        connect=served,
    )
