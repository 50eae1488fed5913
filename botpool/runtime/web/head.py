"""What the head of a request says about the length of its body.

gunicorn reads the head too, and refuses what is malformed in other ways.
"""

from http import HTTPStatus

from botpool.runtime.web.limits import LARGEST_BODY, MOST_FIELDS
from botpool.runtime.web.refusal import Refused, malformed, too_large

_CODING = b"transfer-encoding"
_VERSIONS = (b"HTTP/1.0", b"HTTP/1.1")


class Head:
    def __init__(self, text: bytes) -> None:
        """`text` ends before the empty line."""
        lines = text.split(b"\r\n")
        # RFC 9112, section 2.2: one empty line before the request is ignored.
        self._request_line, *self._fields = lines if lines[0] else lines[1:] or [b""]
        self._version = self._request_line.rpartition(b" ")[2]
        self.size = len(text)
        # Before more is kept of them: an object for each costs much more than its bytes.
        if len(self._fields) > MOST_FIELDS:
            detail = f"There are more than {MOST_FIELDS} headers."
            raise Refused(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, detail)

    def _values(self, name: bytes) -> list[bytes]:
        fields = (line.partition(b":") for line in self._fields)
        return [value.strip(b" \t").lower() for key, _, value in fields if key.lower() == name]

    @property
    def path(self) -> bytes:
        """Empty if the request line has none."""
        _, _, target = self._request_line.partition(b" ")
        return target.partition(b" ")[0].partition(b"?")[0]

    @property
    def wants_continue(self) -> bool:
        """Whether the client waits before it sends the body."""
        return self._version != b"HTTP/1.0" and self._values(b"expect") == [b"100-continue"]

    def check_version(self) -> None:
        """gunicorn would answer with any version 1.x that the client names."""
        if self._version.startswith(b"HTTP/") and self._version not in _VERSIONS:
            detail = "The only versions that are supported are HTTP/1.0 and HTTP/1.1."
            raise Refused(HTTPStatus.HTTP_VERSION_NOT_SUPPORTED, detail)

    def check_host(self) -> None:
        if self._version == b"HTTP/1.1" and not self._values(b"host"):
            raise malformed("The request has no Host header, which HTTP/1.1 requires.")

    def body_length(self) -> int | None:
        """None if the body comes in chunks."""
        lengths, codings = self._values(b"content-length"), self._values(_CODING)
        if lengths and codings:
            raise malformed("The request has both Content-Length and Transfer-Encoding.")
        if codings:
            self._check_codings(b",".join(codings))
            return None
        return _length(lengths) if lengths else 0

    def _check_codings(self, codings: bytes) -> None:
        names = [name.strip(b" \t") for name in codings.split(b",")]
        if names[-1] != b"chunked" or b"chunked" in names[:-1]:
            raise malformed("The last Transfer-Encoding must be chunked, and no other one.")
        if len(names) > 1:
            detail = "The only Transfer-Encoding that is supported is chunked."
            raise Refused(HTTPStatus.NOT_IMPLEMENTED, detail)
        if self._version == b"HTTP/1.0":
            raise malformed("Transfer-Encoding needs HTTP/1.1.")

    def with_length(self, length: int) -> bytes:
        """The head with the length of the decoded body in place of the coding."""
        stated = b"Content-Length: %d" % length
        fields = [
            stated if field.partition(b":")[0].lower() == _CODING else field
            for field in self._fields
        ]
        return b"\r\n".join([self._request_line, *fields, b"", b""])


def _length(values: list[bytes]) -> int:
    if len(values) > 1:
        raise malformed("The request has more than one Content-Length.")
    (text,) = values
    if not text.isdigit():
        raise malformed("Content-Length is not a number.")
    if len(text) > 18 or int(text) > LARGEST_BODY:
        raise too_large(f"The body is larger than {LARGEST_BODY} bytes.")
    return int(text)
