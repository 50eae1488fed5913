"""Take the body of a request out of the bytes that arrive.

Each byte is taken once, so the work grows with the size of the body, however small the pieces in
which it arrives. It also grows with the number of chunks, which is limited by their overhead.
"""

import re
from collections.abc import Callable

from botpool.runtime.web.limits import (
    CONTENT_PER_OVERHEAD,
    LARGEST_BODY,
    LARGEST_OVERHEAD,
    LONGEST_CHUNK_LINE,
)
from botpool.runtime.web.refusal import malformed, too_large

_TOKEN = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
_QUOTED = rb'"(?:[\t !#-\[\]-~\x80-\xff]|\\[\t -~\x80-\xff])*"'
_EXTENSION = rb"[ \t]*;[ \t]*%b(?:[ \t]*=[ \t]*(?:%b|%b))?" % (_TOKEN, _TOKEN, _QUOTED)
_SIZE_LINE = re.compile(rb"([0-9A-Fa-f]{1,8})(?:%b)*" % _EXTENSION)
_PLAIN_SIZE = re.compile(rb"([0-9A-Fa-f]{1,8})\r\n")
_TRAILER = re.compile(rb"(%b):[^\x00-\x08\x0a-\x1f\x7f]*" % _TOKEN)
# RFC 9110, section 6.5.1: they would change the meaning of the request.
_NO_TRAILERS = {
    b"authorization", b"content-length", b"host", b"te", b"trailer", b"transfer-encoding",
}  # fmt: skip


class MeasuredBody:
    """A body whose length the head states."""

    def __init__(self, length: int) -> None:
        self.content = bytearray()
        self._length = length

    def take(self, data: bytearray) -> bool:
        """Move what belongs to the body out of `data`; whether that was all of it."""
        missing = self._length - len(self.content)
        self.content += data[:missing]
        del data[:missing]
        return len(self.content) == self._length


class ChunkedBody:
    """A body in chunks (RFC 9112, section 7.1). Trailers are checked and dropped."""

    def __init__(self) -> None:
        self.content = bytearray()
        self._missing = 0  # of the current chunk
        self._overhead = 0
        self._is_complete = False
        # A plain function: a bound method would be a cycle, which keeps the content until the next
        # garbage collection.
        self._step: Step = ChunkedBody._take_size

    def take(self, data: bytearray) -> bool:
        """Move what belongs to the body out of `data`; whether that was all of it."""
        piece, position = bytes(data), 0
        while not self._is_complete:
            after = self._step(self, piece, position)
            if after == position:
                break
            position = after
        del data[:position]
        return self._is_complete

    def _take_size(self, piece: bytes, start: int) -> int:
        start = self._take_plain_chunks(piece, start)
        line = self._line(piece, start)
        if line is None:
            return start
        size = _chunk_size(line)
        if len(self.content) + size > LARGEST_BODY:
            raise too_large(f"The body is larger than {LARGEST_BODY} bytes.")
        self._missing = size
        self._step = ChunkedBody._take_content if size else ChunkedBody._take_trailer
        return start + len(line) + 2

    def _take_plain_chunks(self, piece: bytes, start: int) -> int:
        """Those that are here as a whole and have no extensions. In one go: clients may send
        thousands of small ones."""
        while found := _PLAIN_SIZE.match(piece, start):
            begin = found.end()
            size = int(found[1], 16)
            end = begin + size
            is_plain = 0 < size <= LARGEST_BODY - len(self.content)
            if not is_plain or piece[end : end + 2] != b"\r\n":
                break
            self.content += piece[begin:end]
            self._count(begin - start + 2)
            start = end + 2
        return start

    def _take_content(self, piece: bytes, start: int) -> int:
        content = piece[start : start + self._missing]
        self.content += content
        self._missing -= len(content)
        if not self._missing:
            self._step = ChunkedBody._take_end
        return start + len(content)

    def _take_end(self, piece: bytes, start: int) -> int:
        found = piece[start : start + 2]
        if not b"\r\n".startswith(found):
            raise malformed("A chunk is longer than its size.")
        if len(found) < 2:
            return start
        self._count(2)
        self._step = ChunkedBody._take_size
        return start + 2

    def _take_trailer(self, piece: bytes, start: int) -> int:
        line = self._line(piece, start)
        if line is None:
            return start
        if line:
            _check_trailer(line)
        self._is_complete = not line
        return start + len(line) + 2

    def _line(self, piece: bytes, start: int) -> bytes | None:
        """The next line, None if it has not arrived as a whole."""
        end = piece.find(b"\r\n", start)
        length = (end if end >= 0 else len(piece)) - start
        if length > LONGEST_CHUNK_LINE:
            detail = f"A line between the chunks is longer than {LONGEST_CHUNK_LINE} bytes."
            raise malformed(detail)
        if end < 0:
            return None
        self._count(length + 2)
        return piece[start:end]

    def _count(self, overhead: int) -> None:
        self._overhead += overhead
        if self._overhead > LARGEST_OVERHEAD + len(self.content) // CONTENT_PER_OVERHEAD:
            detail = (
                "The chunks are too small: their sizes, extensions and trailers exceed "
                f"{LARGEST_OVERHEAD} bytes and 1/{CONTENT_PER_OVERHEAD} of the content."
            )
            raise too_large(detail)


# Takes bytes from a position and returns the next one: the same if it needs more.
Step = Callable[[ChunkedBody, bytes, int], int]


def _chunk_size(line: bytes) -> int:
    found = _SIZE_LINE.fullmatch(line)
    if not found:
        raise malformed("The size of a chunk is not a hexadecimal number of at most 8 digits.")
    return int(found[1], 16)


def _check_trailer(line: bytes) -> None:
    found = _TRAILER.fullmatch(line)
    if not found or found[1].lower() in _NO_TRAILERS:
        raise malformed("A trailer is malformed or not allowed.")
