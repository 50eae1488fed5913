"""gunicorn's reading of a complete request, and the causes of its refusals in words."""

from http import HTTPStatus
from typing import Any

from gunicorn.http import errors
from gunicorn.http.parser import RequestParser

from botpool.runtime.web.framing import Framing
from botpool.runtime.web.refusal import Refused, malformed

_CAUSES = {
    errors.LimitRequestLine: (HTTPStatus.REQUEST_URI_TOO_LONG, "The request line is too long."),
    errors.LimitRequestHeaders: (
        HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
        "There are too many headers, or one is too long.",
    ),
    errors.UnsupportedTransferCoding: (
        HTTPStatus.NOT_IMPLEMENTED,
        "The only Transfer-Encoding that is supported is chunked.",
    ),
    errors.ExpectationFailed: (
        HTTPStatus.EXPECTATION_FAILED,
        "The only Expect header that is supported is 100-continue.",
    ),
    errors.InvalidRequestLine: (HTTPStatus.BAD_REQUEST, "The request line is malformed."),
    errors.InvalidRequestMethod: (HTTPStatus.BAD_REQUEST, "The method is malformed."),
    errors.InvalidHTTPVersion: (HTTPStatus.BAD_REQUEST, "The HTTP version is not supported."),
    errors.InvalidHeaderName: (HTTPStatus.BAD_REQUEST, "The name of a header is malformed."),
    errors.ObsoleteFolding: (HTTPStatus.BAD_REQUEST, "A header is spread over several lines."),
    errors.InvalidSchemeHeaders: (
        HTTPStatus.BAD_REQUEST,
        "The headers that tell http from https contradict each other.",
    ),
}
_SINGLE = {"HOST": "Host", "CONTENT-TYPE": "Content-Type"}


def parsed(cfg: Any, framing: Framing, client: Any) -> Any:
    """gunicorn's request. Its body has exactly the bytes that the framing found."""
    parser = RequestParser(cfg, framing.request(), client)
    try:
        request = next(parser)
    except errors.ParseException as error:
        raise _refusal(error) from error
    # Never so far. It would let a client hide one request in another.
    if parser.unreader.take_buffered() or _length(request) != framing.body_length:
        raise malformed("The end of the request is ambiguous.")
    return request


def _length(request: Any) -> int | None:
    headers = dict(request.headers)
    return None if "TRANSFER-ENCODING" in headers else int(headers.get("CONTENT-LENGTH", 0))


def _refusal(error: errors.ParseException) -> Refused:
    if isinstance(error, errors.InvalidHeader):
        name = _SINGLE.get(error.hdr)
        return malformed(
            f"{f'The {name} header' if name else 'A header'} is malformed or repeated."
        )
    return Refused(*_CAUSES.get(type(error), (HTTPStatus.BAD_REQUEST, "The request is malformed.")))
