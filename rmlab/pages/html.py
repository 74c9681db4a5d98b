"""A page that stands alone and can do no harm: it loads nothing, and nothing in its data can become markup or code.

All text is escaped. Data travels as JSON in a block that no character of it can close. A content security policy lets the
page's own style sheet and code run, known by their hashes, and forbids everything else: a script or an address that slipped
into the text of a trajectory would be dead all the same.
"""

import base64
import hashlib
import html
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ASSETS = Path(__file__).with_name("assets")

_IN_JSON = {ord("<"): "\\u003c", ord(">"): "\\u003e", ord("&"): "\\u0026", 0x2028: "\\u2028", 0x2029: "\\u2029"}


def text(value: object) -> str:
    """A value as text of a page or of a quoted attribute."""
    return html.escape(str(value), quote=True).replace("\0", "\ufffd")


def embedded_json(value: Any) -> str:
    """JSON that may stand in a <script> block: it holds no <, > or &."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).translate(_IN_JSON)


def policy(style: str, script: str | None, *, connect: bool = False) -> str:
    """The content security policy of a page with this style sheet and code. connect: it may ask its own server."""
    parts = [
        "default-src 'none'",
        "img-src data:",
        f"style-src {_hash(style)}",
        "base-uri 'none'",
        "form-action 'none'",
    ]
    if script is not None:
        parts.append(f"script-src {_hash(script)}")
    if connect:
        parts.append("connect-src 'self'")
    return "; ".join(parts)


def page(
    title: str,
    body: str,
    style: str,
    script: str | None = None,
    data: dict[str, Any] | None = None,
    *,
    connect: bool = False,
) -> str:
    """A whole page. body: markup. data: JSON blocks by the id that the code finds them under."""
    blocks = "".join(
        f'<script type="application/json" id="{text(name)}">{embedded_json(value)}</script>\n'
        for name, value in (data or {}).items()
    )
    code = "" if script is None else f"<script>{script}</script>\n"
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{text(policy(style, script, connect=connect))}">\n'
        '<meta name="referrer" content="no-referrer">\n<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<link rel="icon" href="data:,">\n'
        f"<title>{text(title)}</title>\n<style>{style}</style>\n</head>\n<body>\n{body}\n{blocks}{code}</body>\n</html>\n"
    )


def asset(name: str) -> str:
    """A style sheet or code of `assets/`."""
    return (ASSETS / name).read_text(encoding="utf-8")


def table(
    header: Sequence[str], rows: Sequence[Sequence[str]], *, text_columns: Sequence[int] = (0,), caption: str = ""
) -> str:
    """A table whose cells are escaped here. text_columns: those set flush left; the others hold numbers."""

    def cells(row: Sequence[str], tag: str) -> str:
        return "".join(
            f"<{tag}{'' if i in text_columns else ' class=number'}>{text(cell)}</{tag}>" for i, cell in enumerate(row)
        )

    top = f"<caption>{text(caption)}</caption>" if caption else ""
    body = "".join(f"<tr>{cells(row, 'td')}</tr>" for row in rows)
    return (
        f'<div class=wide tabindex=0 role=region aria-label="{text(caption or "table")}"><table>{top}'
        f"<thead><tr>{cells(header, 'th')}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _hash(source: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()}'"
