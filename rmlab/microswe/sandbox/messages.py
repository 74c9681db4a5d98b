"""Messages between the sandbox's own processes: a length of 8 digits, then JSON."""

import json
import socket
from typing import Any

LONGEST = 99_999_999


def send(channel: socket.socket, message: Any) -> None:
    """Writes one message. Raises ValueError if it is longer than 8 digits can say."""
    body = json.dumps(message).encode("ascii")
    if len(body) > LONGEST:
        raise ValueError(f"a message of {len(body):,} bytes: at most {LONGEST:,}")
    channel.sendall(b"%08d" % len(body) + body)


def receive(channel: socket.socket) -> Any:
    """Reads one message; None at the end of the stream."""
    head = _exactly(channel, 8)
    body = _exactly(channel, int(head)) if head else b""
    return json.loads(body) if body else None


def _exactly(channel: socket.socket, size: int) -> bytes:
    """`size` bytes, or none where the stream ended before."""
    pieces: list[bytes] = []
    while size:
        piece = channel.recv(min(size, 1 << 20))
        if not piece:
            return b""
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)
