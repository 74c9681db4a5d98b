"""The reader of scored trajectories over HTTP, on this machine only: tables of any size, every turn of every attempt.

The page asks for rows in chunks and for one attempt at a time. Only requests that name this machine as their host are
answered, so that a page elsewhere cannot read trajectories through a name that it points here.
"""

import json
import sys
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from rmlab.errors import RmlabError, UsageError
from rmlab.pages.browse_page import ScoredAttempts, served_page
from rmlab.pages.html import asset, policy

HOST = "127.0.0.1"
CHUNK = 4000  # rows an answer


def browse_server(title: str, attempts: ScoredAttempts, port: int = 0) -> ThreadingHTTPServer:
    """A server that is bound and not yet running; port 0 takes a free one (`server.server_port`).

    Raises RmlabError where the port is taken, UsageError where it is no port.
    """
    if not 0 <= port < 65536:
        raise UsageError(f"--port {port}: a port is a number from 1 to 65535")
    html = served_page(title, attempts).encode()
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
