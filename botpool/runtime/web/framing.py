"""Follows one request through the bytes that a client sends.

gunicorn gets the request once it is complete, with a body of known length: chunks are decoded here,
because gunicorn copies all that follows for each of them.
"""

from http import HTTPStatus

from botpool.runtime.web.bodies import ChunkedBody, MeasuredBody
from botpool.runtime.web.head import Head
from botpool.runtime.web.limits import LARGEST_HEAD, LONGEST_REQUEST_LINE
from botpool.runtime.web.refusal import Refused


class Framing:
    def __init__(self) -> None:
        self.refusal: Refused | None = None
        self.wants_continue = False
        self._head: Head | None = None
        self._body: MeasuredBody | ChunkedBody = MeasuredBody(0)
        self._searched = 0

    @property
    def held(self) -> int:
        """Bytes taken so far."""
        return (self._head.size if self._head else 0) + len(self._body.content)

    def is_complete(self, data: bytearray) -> bool:
        """Move the request's bytes out of `data`; whether it is complete or refused."""
        try:
            return self._take_head(data) and self._body.take(data)
        except Refused as refusal:
            # Its traceback would keep the bytes of this turn until the next garbage collection.
            self.refusal = refusal.with_traceback(None)
            return True

    def _take_head(self, data: bytearray) -> bool:
        if self._head:
            return True
        end = data.find(b"\r\n\r\n", self._searched)
        if (end if end >= 0 else len(data)) > LARGEST_HEAD:
            raise _too_long(data)
        if end < 0:
            self._searched = max(0, len(data) - 3)
            return False
        self._head = Head(bytes(data[:end]))
        del data[: end + 4]
        self._read_head(self._head)
        return True

    def _read_head(self, head: Head) -> None:
        head.check_version()
        length = head.body_length()
        head.check_host()
        self._body = ChunkedBody() if length is None else MeasuredBody(length)
        self.wants_continue = head.wants_continue

    @property
    def path(self) -> bytes:
        return self._head.path if self._head else b""

    @property
    def body_length(self) -> int:
        return len(self._body.content)

    def request(self) -> list[bytes | bytearray]:
        """The complete request: its head, and its body without chunks."""
        assert self._head
        return [self._head.with_length(self.body_length), self._body.content]


def _too_long(data: bytearray) -> Refused:
    begin = 2 if data.startswith(b"\r\n") else 0  # an empty line before the request is ignored
    if 0 <= data.find(b"\r\n", begin) <= begin + LONGEST_REQUEST_LINE:
        detail = f"The headers are larger than {LARGEST_HEAD} bytes."
        return Refused(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, detail)
    return Refused(HTTPStatus.REQUEST_URI_TOO_LONG, "The request line is too long.")
