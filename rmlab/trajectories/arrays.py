"""The elements of a JSON array, one at a time: a data set that is one array need not fit into memory."""

import codecs
import json
from collections.abc import Iterator
from typing import IO, Any

from rmlab.trajectories.entries import Refused
from rmlab.trajectories.reading import Unreadable

CHUNK = 1 << 22  # bytes read at a time
_BLANK = " \t\r\n"


def elements(stream: IO[bytes], largest: int) -> Iterator[Any]:
    """The elements of the array that the stream holds. largest: characters of one element.

    Raises Unreadable with the element's number where the text is no JSON array, Refused over the limit.
    """
    text = _Text(stream)
    if text.next_sign() != "[":
        raise Unreadable("not a JSON array")
    text.at += 1
    number = 0
    if text.next_sign() == "]":
        return
    while True:
        number += 1
        text.next_sign()
        yield _element(text, number, largest)
        sign = text.next_sign()
        text.at += 1
        if sign == "]":
            if text.next_sign():
                raise Unreadable(f"not JSON (more text behind the array of {number} elements)")
            return
        if sign != ",":
            raise Unreadable(f"not JSON (element {number}: no comma or bracket behind it)")


def _element(text: "_Text", number: int, largest: int) -> Any:
    """The element that begins here. What is read more each time doubles, so that a long one is not scanned over and over."""
    decoder = json.JSONDecoder()
    while True:
        try:
            value, end = decoder.raw_decode(text.held, text.at)
        except json.JSONDecodeError as error:
            if len(text.held) - text.at > largest:
                raise Refused(f"over the limit of {largest >> 20} MB for one element of an array") from error
            if not text.more(len(text.held) - text.at):
                raise Unreadable(f"not JSON (element {number}: {error.msg})") from error
        except (ValueError, RecursionError) as error:  # a number of thousands of digits; thousands of brackets
            raise Unreadable(f"not readable JSON (element {number}: {str(error).split(';')[0]})") from error
        else:
            # A number may go on behind what was read ("1", "1.", "1e+"): three signs behind it, or one that can stand there, end it.
            behind = text.held[end : end + 3]
            if len(behind) == 3 or (behind and behind[0] in _BLANK + ",]") or not text.more(CHUNK):
                text.at = end
                return value


class _Text:
    """A window on the text of a stream. held: what was read and is still needed. at: how much of it is done with."""

    def __init__(self, stream: IO[bytes]):
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")()
        self._ended = False
        self.held, self.at = "", 0

    def more(self, size: int) -> bool:
        """Reads at least so much, and forgets what is done with. False at the stream's end."""
        if self._ended:
            return False
        data = self._stream.read(max(size, CHUNK))
        self._ended = not data
        try:
            self.held, self.at = self.held[self.at :] + self._decoder.decode(data, final=self._ended), 0
        except UnicodeDecodeError as error:
            raise Unreadable(f"not UTF-8 (byte {error.start})") from error
        return True

    def next_sign(self) -> str:
        """The next character that is not blank, which is not yet done with; "" at the end."""
        while True:
            while self.at < len(self.held) and self.held[self.at] in _BLANK:
                self.at += 1
            if self.at < len(self.held):
                return self.held[self.at]
            if not self.more(CHUNK):
                return ""
