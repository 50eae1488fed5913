"""Where a request ends in the bytes that a client has sent so far.

This decides only when a request is handed to gunicorn, which reads exactly these bytes. If gunicorn
understands them differently, it refuses them: nothing is left over for a second request.
"""

import re

LARGEST_BODY = 1_000_000  # as DATA_UPLOAD_MAX_MEMORY_SIZE
LARGEST_HEAD = 65_536
_LONGEST_CHUNK_LINE = 1_000


class Framing:
    """Follows one request. `end` is set once it is complete or cannot become a good one."""

    def __init__(self) -> None:
        self.head = 0  # where the headers end
        self.end: int | None = None
        self.is_refused = False  # do not serve another request after this one
        self.is_too_big = False
        self.wants_continue = False
        self._searched = 0
        self._length: int | None = None  # None: chunked
        self._chunk = 0  # where the next chunk begins
        self._body = 0

    def is_complete(self, data: bytearray) -> bool:
        if not self.head:
            self._find_head(data)
        if self.head and self.end is None:
            self._find_end(data)
        return self.end is not None

    def _refuse(self, end: int, *, too_big: bool = False) -> None:
        self.end, self.is_refused, self.is_too_big = end, True, too_big

    def _find_head(self, data: bytearray) -> None:
        found = data.find(b"\r\n\r\n", self._searched)
        self._searched = max(0, len(data) - 3)
        if found >= 0:
            self.head = self._chunk = found + 4
            self._read_head(bytes(data[:found]).lower())
        elif len(data) > LARGEST_HEAD:
            self._refuse(len(data))

    def _read_head(self, head: bytes) -> None:
        lines = [line.partition(b":") for line in head.split(b"\r\n")[1:]]
        lengths = [value.strip() for name, _, value in lines if name == b"content-length"]
        codings = [value.strip() for name, _, value in lines if name == b"transfer-encoding"]
        self.wants_continue = b"\r\nexpect: 100-continue" in head
        if codings:
            if lengths or codings != [b"chunked"]:
                self._refuse(self.head)
            return
        text = lengths[0] if lengths else b"0"
        if len(lengths) > 1 or not text.isdigit():
            self._refuse(self.head)
        elif len(text) > 18 or int(text) > LARGEST_BODY:
            self._refuse(self.head, too_big=True)
        else:
            self._length = int(text)

    def _find_end(self, data: bytearray) -> None:
        if self._length is None:
            self._follow_chunks(data)
        elif len(data) >= self.head + self._length:
            self.end = self.head + self._length

    def _follow_chunks(self, data: bytearray) -> None:
        while self.end is None:
            line = data.find(b"\r\n", self._chunk)
            if line < 0:
                if len(data) - self._chunk > _LONGEST_CHUNK_LINE:
                    self._refuse(len(data))
                return
            size = _chunk_size(bytes(data[self._chunk : line]))
            self._body += size or 0
            if size is None or self._body > LARGEST_BODY:
                self._refuse(len(data), too_big=size is not None)
            elif size == 0:
                self._find_trailers(data, after=line)
                return
            elif len(data) < line + 2 + size + 2:
                self._body -= size  # the same chunk is looked at again
                return
            else:
                self._chunk = line + 2 + size + 2

    def _find_trailers(self, data: bytearray, *, after: int) -> None:
        """They end with an empty line, and there are usually none."""
        found = data.find(b"\r\n\r\n", after)
        if found >= 0:
            self.end = found + 4
        elif len(data) - after > LARGEST_HEAD:
            self._refuse(len(data))


def _chunk_size(line: bytes) -> int | None:
    digits = re.match(rb"[0-9a-fA-F]{1,8}(?=[ \t]*(;|$))", line)
    return int(digits[0], 16) if digits else None
