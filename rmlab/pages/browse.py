"""Scored attempts with their trajectories, the most confident mistakes first: what the reader of trajectories shows.

The reader of scored trajectories over HTTP, on this machine only: tables of any size, every turn of every attempt.

The page asks for rows in chunks and for one attempt at a time. Only requests that name this machine as their host are
answered, so that a page elsewhere cannot read trajectories through a name that it points here.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import numpy as np

from rmlab.errors import DataError, RmlabError, UsageError
from rmlab.files import write_text
from rmlab.pages.html import asset, embedded_json, page, policy, text
from rmlab.scores.scores import Scores
from rmlab.trajectories.record import Trajectory
from rmlab.verifiers.per_turn import TurnScores

Details = dict[str, Any]
"""What is shown of one attempt: plain JSON."""


@dataclass(frozen=True)
class ScoredAttempts:
    """scores: in the order shown. trajectory: of each, by trajectory_id. turns: scores after every turn. notes: how they were joined."""

    scores: Scores
    trajectory: Mapping[str, Trajectory]
    turns: TurnScores
    notes: Sequence[str] = ()

    def __len__(self) -> int:
        return len(self.scores)

    @property
    def mistakes(self) -> int:
        """How many attempts the likelier answer is wrong about; they come first."""
        return int((np.abs(self.scores.score - self.scores.resolved) > 0.5).sum())

    def columns(self, start: int = 0, count: int | None = None) -> dict[str, Any]:
        """The table's columns for these rows, as plain lists; null = unlabelled, not scored, not known."""
        end = len(self) if count is None else min(start + count, len(self))
        rows = self.scores.select(np.arange(start, max(end, start)))
        own = [self.trajectory[name] for name in rows.trajectory_id.tolist()]
        return {
            "id": rows.trajectory_id.tolist(),
            "task": rows.task_id.tolist(),
            "policy": rows.policy.tolist(),
            "attempt": [t.attempt for t in own],
            "score": [_rounded(s) for s in rows.score.tolist()],
            "label": [None if np.isnan(y) else int(y) for y in rows.resolved.tolist()],
            "turns": [sum(m.role == "assistant" for m in t.messages) for t in own],
            "tokens": [None if np.isnan(n) else int(n) for n in rows.n_tokens.tolist()],
        }

    def telling_columns(self) -> list[str]:
        """The table's columns that tell attempts apart, so that no room is spent on the others."""
        told = {
            "policy": len(np.unique(self.scores.policy)) > 1,
            "attempt": len({t.attempt for t in self.trajectory.values()}) > 1,
            "turns": True,
            "tokens": not np.isnan(self.scores.n_tokens).all(),
        }
        return [
            "task",
            *(name for name in ("policy", "attempt") if told[name]),
            "score",
            "label",
            "error",
            *(name for name in ("turns", "tokens") if told[name]),
        ]

    def details(self, trajectory_id: str, longest: int | None = None) -> Details | None:
        """Everything of one attempt; None where it is not here. longest: characters of a message or patch, its middle left out."""
        trajectory = self.trajectory.get(trajectory_id)
        if trajectory is None:
            return None
        patch = trajectory.patch
        return {
            "id": trajectory_id,
            "messages": [[message.role, shortened(message.content, longest)] for message in trajectory.messages],
            "patch": None if patch is None else shortened(patch, longest),
            "facts": {
                "source": trajectory.source,
                "cluster": trajectory.cluster,
                "exit": trajectory.exit_status,
                "label by": trajectory.label_source or "",
                "part": trajectory.split or "",
            },
            "turns": [[end, _rounded(score)] for end, score in self.turns.get(trajectory_id, ())],
        }


def most_wrong_first(
    scores: Scores, trajectories: Sequence[Trajectory], turns: TurnScores | None = None, notes: Sequence[str] = ()
) -> ScoredAttempts:
    """Orders scored attempts by |score - label|, largest first, then by task; unscored and unlabelled ones stand last.

    scores: with the trajectory_id of one of the trajectories in every row, as `rmlab.scores.joining.join` makes it.
    """
    error_N = np.abs(scores.score - scores.resolved)
    order = np.lexsort((scores.trajectory_id, scores.task_id, -np.where(np.isnan(error_N), -1.0, error_N)))
    return ScoredAttempts(scores.select(order), {t.trajectory_id: t for t in trajectories}, turns or {}, notes)


def shortened(content: str, longest: int | None) -> str:
    """At most about `longest` characters, the middle left out and its size said."""
    if longest is None or len(content) <= longest:
        return content
    half = longest // 2
    return f"{content[:half]}\n[{len(content) - 2 * half:,} characters are left out here]\n{content[len(content) - half :]}"


def _rounded(score: float | None) -> float | None:
    return None if score is None or np.isnan(score) else float(f"{score:.6g}")


EMBEDDED = 200  # attempts, the most confident mistakes first
LARGEST = 10_000_000  # bytes of the file
LONGEST = 20_000  # characters of a message in a file, where the whole does not fit


def write_browse_page(path: Path, title: str, attempts: ScoredAttempts) -> None:
    """Writes the page whole or not at all."""
    write_text(path, browse_page(title, attempts))


def browse_page(title: str, attempts: ScoredAttempts) -> str:
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


def _embedded(attempts: ScoredAttempts, room: int) -> list[Details]:
    """Details of the first attempts, as many as fit into `room` bytes; long messages are cut where the whole does not fit."""
    names = attempts.scores.trajectory_id.tolist()[:EMBEDDED]
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


def _markup(title: str, attempts: ScoredAttempts, data: dict[str, Any], *, served: bool) -> str:
    about = {"served": served, "count": len(attempts), "columns": attempts.telling_columns()}
    held = len(data.get("data-details", ()))
    notes = [f"{len(attempts):,} attempts, {attempts.mistakes:,} of them with the likelier answer wrong"]
    notes += attempts.notes
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


HOST = "127.0.0.1"
CHUNK = 4000  # rows an answer


def browse_server(title: str, attempts: ScoredAttempts, port: int = 0) -> ThreadingHTTPServer:
    """A server that is bound and not yet running; port 0 takes a free one (`server.server_port`).

    Raises RmlabError where the port is taken, UsageError where it is no port.
    """
    if not 0 <= port < 65536:
        raise UsageError(f"--port {port}: must be a number from 1 to 65535")
    html = _markup(title, attempts, {}, served=True).encode()  # it asks for rows and turns
    csp = (
        policy(asset("browse.css"), asset("highlight.js") + asset("browse.js"), connect=True)
        + "; frame-ancestors 'none'"
    )

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 60

        def do_GET(self) -> None:
            if self.headers.get("Host") not in {f"{name}:{server.server_port}" for name in (HOST, "localhost")}:
                self._answer(
                    HTTPStatus.FORBIDDEN, b"this reader answers on this machine only", "text/plain; charset=utf-8"
                )
                return
            try:
                asked = urlsplit(self.path)
            except ValueError:  # no address at all
                self._answer(HTTPStatus.BAD_REQUEST, b"this is no address", "text/plain; charset=utf-8")
                return
            query = {name: values[0] for name, values in parse_qs(asked.query).items()}
            if asked.path == "/":
                self._answer(HTTPStatus.OK, html, "text/html; charset=utf-8")
            elif asked.path == "/rows" and query.get("from", "").isdecimal() and len(query["from"]) < 12:
                self._json(attempts.columns(min(int(query["from"]), len(attempts)), CHUNK))
            elif asked.path == "/attempt" and (details := attempts.details(query.get("id", ""))) is not None:
                self._json(details)
            else:
                self._answer(HTTPStatus.NOT_FOUND, b"there is nothing here", "text/plain; charset=utf-8")

        def log_message(self, format: str, *args: Any) -> None:
            """Requests are not logged: the address is all that a terminal needs."""

        def _json(self, value: Any) -> None:
            content = json.dumps(value, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")
            self._answer(HTTPStatus.OK, content, "application/json")

        def _answer(self, status: HTTPStatus, content: bytes, kind: str) -> None:
            self.send_response(status)
            for name, value in (
                ("Content-Type", kind),
                ("Content-Length", str(len(content))),
                ("Content-Security-Policy", csp),
                ("X-Content-Type-Options", "nosniff"),
                ("Referrer-Policy", "no-referrer"),
                ("Cache-Control", "no-store"),
                ("Cross-Origin-Resource-Policy", "same-origin"),
            ):
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: Any, client_address: Any) -> None:
            """A reader who goes away in the middle of an answer is no error; anything else is shown."""
            if not isinstance(sys.exc_info()[1], ConnectionError | TimeoutError):
                super().handle_error(request, client_address)

    try:
        server = Server((HOST, port), Handler)
    except OSError as error:
        raise RmlabError(
            f"port {port} of {HOST} cannot be used: {error.strerror or error}. Leave --port out for a free one."
        ) from error
    return server
