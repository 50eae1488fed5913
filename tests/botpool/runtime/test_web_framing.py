"""Where a request ends, what of it gunicorn gets, and what is refused before."""

import gc
import time
import weakref

import pytest
from gunicorn.config import Config
from gunicorn.http.errors import NoMoreData, ParseException
from gunicorn.http.parser import RequestParser
from hypothesis import given
from hypothesis import settings as chosen
from hypothesis import strategies as st

from botpool.runtime.web.connection import RECEIVED_AT_ONCE
from botpool.runtime.web.framing import Framing
from botpool.runtime.web.limits import (
    LARGEST_BODY,
    LARGEST_HEAD,
    LARGEST_OVERHEAD,
    LONGEST_CHUNK_LINE,
    MOST_FIELDS,
)
from botpool.runtime.web.parsing import parsed
from botpool.runtime.web.refusal import Refused

CLIENT = ("192.0.2.1", 5)
GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nHost: x\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"
REQUESTS = {
    "no body": (GET, b""),
    "body": (POST + b"Content-Length: 5\r\n\r\nhello", b"hello"),
    "odd spelling": (POST + b"CONTENT-length:5\r\n\r\nhello", b"hello"),
    "chunks": (CHUNKED + b"5\r\nhello\r\nA;x=y\r\n0123456789\r\n0\r\n\r\n", b"hello0123456789"),
    "extensions": (CHUNKED + b'1 ;a;b = "c;\\""\r\nx\r\n00;d\r\n\r\n', b"x"),
    "trailers": (CHUNKED + b"5\r\nhello\r\n0\r\nX: y\r\nZ:\r\n\r\n", b"hello"),
    "no chunks": (CHUNKED + b"0\r\n\r\n", b""),
    "line breaks in a chunk": (CHUNKED + b"4\r\n\r\n\r\n\r\n0\r\n\r\n", b"\r\n\r\n"),
    "oddly spelled chunks": (
        POST + b"TRANSFER-encoding:\t ChunKed \r\nX: y\r\n\r\n1\r\nx\r\n0\r\n\r\n",
        b"x",
    ),
    "empty line before": (b"\r\n" + CHUNKED + b"1\r\nx\r\n0\r\n\r\n", b"x"),
    "no host in HTTP/1.0": (b"GET / HTTP/1.0\r\n\r\n", b""),
}
parametrize = pytest.mark.parametrize


@parametrize(("request_bytes", "body"), REQUESTS.values(), ids=REQUESTS)
def test_a_request_is_complete_with_its_last_byte(request_bytes, body):
    framing, data = Framing(), bytearray()
    for byte in request_bytes[:-1]:
        data.append(byte)
        assert not framing.is_complete(data)
    data += request_bytes[-1:] + GET
    assert framing.is_complete(data)
    assert data == GET
    assert not framing.refusal
    assert framing.request()[1] == body


@parametrize(("request_bytes", "body"), REQUESTS.values(), ids=REQUESTS)
def test_gunicorn_gets_a_length_and_no_chunks(request_bytes, body):
    framing = Framing()
    assert framing.is_complete(bytearray(request_bytes))
    request = parsed(Config(), framing, CLIENT)
    assert request.body.read() == body
    headers = dict(request.headers)
    assert "TRANSFER-ENCODING" not in headers
    assert int(headers.get("CONTENT-LENGTH", 0)) == len(body)


def test_the_other_headers_stay_as_they_are():
    framing = Framing()
    head = POST + b"A: b\r\nTransfer-Encoding: chunked\r\nC:  d\r\nTransfer-Encodings: e\r\n\r\n"
    assert framing.is_complete(bytearray(head + b"2\r\n{}\r\n0\r\nHosts: z\r\n\r\n"))
    assert framing.request() == [
        POST + b"A: b\r\nContent-Length: 2\r\nC:  d\r\nTransfer-Encodings: e\r\n\r\n",
        b"{}",
    ]


# --- Work ------------------------------------------------------------------------------------


@parametrize("size", [1, 7, 1_000])
def test_no_byte_of_a_chunked_body_waits_to_be_looked_at_again(size):
    raw = CHUNKED + b"1\r\nx\r\n" * 2_000
    framing, data = Framing(), bytearray()
    for start in range(0, len(raw), size):
        data += raw[start : start + size]
        assert not framing.is_complete(data)
        assert len(data) < 3 or start < len(CHUNKED)
    assert framing.body_length == 2_000


@parametrize("size", [1, 16, 170, 4_096])
def test_chunks_cost_no_more_than_some_measured_bodies(size):
    """However small they are. They are decoded in the loop that serves all clients: 150,000 of one
    byte cost 500 times as much as a measured body."""
    chunk = b"%x\r\n%b\r\n" % (size, b"x" * size)
    chunked = CHUNKED + chunk * (LARGEST_BODY // len(chunk)) + b"0\r\n\r\n"
    measured = POST + b"Content-Length: %d\r\n\r\n" % LARGEST_BODY + b"x" * LARGEST_BODY
    assert _seconds_for(chunked) < 200 * _seconds_for(measured)


def _seconds_for(raw: bytes) -> float:
    """The least of several tries, of CPU time: others may use the machine."""
    return min(_one_try(raw) for _ in range(5))


def _one_try(raw: bytes) -> float:
    before = time.process_time()
    _taken(raw)
    return time.process_time() - before


def _taken(raw: bytes, *, at_once: int = RECEIVED_AT_ONCE) -> tuple[Framing, int]:
    """What became of it, and after how many bytes."""
    framing, data = Framing(), bytearray()
    for start in range(0, len(raw), at_once):
        data += raw[start : start + at_once]
        if framing.is_complete(data):
            return framing, min(start + at_once, len(raw))
    return framing, len(raw)


@parametrize("rest", [b"0\r\n\r\n", b"wrong\r\n", b"1"], ids=["complete", "refused", "unfinished"])
def test_the_memory_of_a_request_is_free_at_once(rest):
    """Not at the next garbage collection: meanwhile, many could be waiting for it."""
    framing = Framing()
    framing.is_complete(bytearray(CHUNKED + b"1\r\nx\r\n" + rest))
    body = weakref.ref(framing._body)
    gc.disable()
    try:
        del framing
        assert body() is None
    finally:
        gc.enable()


# --- Refusals --------------------------------------------------------------------------------

LINE = b"GET / HTTP/1.1\r\n"
BOTH = b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"
REFUSED = {
    "two lengths": (POST + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\n", 400, "more than one"),
    "no number": (POST + b"Content-Length: five\r\n\r\n", 400, "not a number"),
    "negative": (POST + b"Content-Length: -1\r\n\r\n", 400, "not a number"),
    "vertical tab": (POST + b"Content-Length: 1\x0b\r\n\r\n", 400, "not a number"),
    "length and chunks": (POST + BOTH, 400, "both Content-Length and Transfer-Encoding"),
    "compressed": (POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n", 501, "chunked"),
    "chunked twice": (POST + b"Transfer-Encoding: chunked, chunked\r\n\r\n", 400, "last"),
    "chunked first": (POST + b"Transfer-Encoding: chunked, gzip\r\n\r\n", 400, "last"),
    "not chunked": (POST + b"Transfer-Encoding: \x0bchunked\r\n\r\n", 400, "last"),
    "chunks in HTTP/1.0": (CHUNKED.replace(b"1.1", b"1.0", 1), 400, "HTTP/1.1"),
    "no host": (LINE + b"\r\n", 400, "no Host header"),
    "HTTP/1.9": (GET.replace(b"1.1", b"1.9"), 505, "HTTP/1.0 and HTTP/1.1"),
    "HTTP/2": (b"PRI * HTTP/2.0\r\n\r\n", 505, "HTTP/1.0 and HTTP/1.1"),
    "size of a chunk": (CHUNKED + b"0x5\r\nhello\r\n", 400, "hexadecimal"),
    "negative chunk": (CHUNKED + b"-5\r\nhello\r\n", 400, "hexadecimal"),
    "underscore": (CHUNKED + b"1_0\r\n", 400, "hexadecimal"),
    "space after the size": (CHUNKED + b"5 \r\nhello\r\n", 400, "hexadecimal"),
    "line feed in the size": (CHUNKED + b"5\n\r\nhello\r\n", 400, "hexadecimal"),
    "empty size": (CHUNKED + b"\r\n", 400, "hexadecimal"),
    "huge chunk": (CHUNKED + b"FFFFFFFFFFFFFFFFF\r\n", 400, "at most 8 digits"),
    "bad extension": (CHUNKED + b"5;a\rb\r\nhello\r\n", 400, "hexadecimal"),
    "longer chunk": (CHUNKED + b"5\r\nhello!", 400, "longer than its size"),
    "trailer without a name": (CHUNKED + b"0\r\nGET / HTTP/1.1\r\n", 400, "trailer"),
    "host as trailer": (CHUNKED + b"0\r\nHost: y\r\n", 400, "trailer"),
    "long head": (LINE + b"X: " + b"y" * LARGEST_HEAD, 431, "headers"),
    "complete long head": (LINE + b"X: " + b"y" * LARGEST_HEAD + b"\r\n\r\n", 431, "headers"),
    "many headers": (POST + b"X: y\r\n" * MOST_FIELDS + b"\r\n", 431, "more than 50"),
    "long address": (b"GET /" + b"y" * LARGEST_HEAD, 414, "request line"),
    "complete long address": (
        b"\r\nGET /%b HTTP/1.1\r\nHost: x\r\n\r\n" % (b"y" * LARGEST_HEAD),
        414,
        "request line",
    ),
    "long line of a chunk": (CHUNKED + b"5;" + b"x" * LONGEST_CHUNK_LINE, 400, "line"),
    "complete long line": (CHUNKED + b"5;" + b"x" * LONGEST_CHUNK_LINE + b"\r\n", 400, "line"),
    "long trailer": (CHUNKED + b"0\r\nX: " + b"y" * LONGEST_CHUNK_LINE, 400, "line"),
    "many trailers": (CHUNKED + b"0\r\n" + b"X: y\r\n" * 200_000, 413, "trailers"),
    "large body": (POST + b"Content-Length: %d\r\n\r\n" % (LARGEST_BODY + 1), 413, "larger"),
    "huge body": (POST + b"Content-Length: " + b"9" * 40 + b"\r\n\r\n", 413, "larger"),
    "large chunk": (CHUNKED + b"%x\r\n" % (LARGEST_BODY + 1), 413, "larger"),
    "large chunks": (CHUNKED + b"80000\r\n" + b"x" * 0x80000 + b"\r\n80000\r\n", 413, "larger"),
}


@parametrize(("request_bytes", "status", "words"), REFUSED.values(), ids=REFUSED)
def test_an_ambiguous_or_oversized_request_is_refused_as_soon_as_it_is_seen(
    request_bytes, status, words
):
    framing = Framing()
    assert framing.is_complete(bytearray(request_bytes))
    assert framing.refusal
    assert framing.refusal.status == status
    assert words in framing.refusal.detail


def test_the_extensions_of_chunks_count_while_they_arrive():
    framing, data, sent = Framing(), bytearray(CHUNKED), 0
    chunk = b"1;" + b"x" * 900 + b"\r\nx\r\n"
    while not framing.is_complete(data):
        assert framing.held + len(data) < 10_000
        data += chunk
        sent += len(chunk)
    assert framing.refusal
    assert framing.refusal.status == 413
    assert sent < LARGEST_OVERHEAD + 10_000


def test_tiny_chunks_are_refused_early():
    framing, taken = _taken(CHUNKED + b"1\r\nx\r\n" * 150_000, at_once=1_000)
    assert framing.refusal
    assert framing.refusal.status == 413
    assert taken < 30_000


@parametrize("size", [500, 1_400, 4_096])
def test_chunks_as_clients_and_proxies_send_them_may_fill_the_limit(size):
    chunk = b"%x\r\n%b\r\n" % (size, b"x" * size)
    framing, _ = _taken(CHUNKED + chunk * (LARGEST_BODY // size) + b"0\r\n\r\n")
    assert not framing.refusal
    assert framing.body_length == LARGEST_BODY // size * size


def test_a_small_document_may_come_in_tiny_chunks():
    """As from a client that sends each token of its JSON as soon as it has it."""
    framing, _ = _taken(CHUNKED + b"5\r\ntoken\r\n" * 3_000 + b"0\r\n\r\n")
    assert framing.body_length == 15_000
    assert not framing.refusal


@parametrize("is_chunked", [False, True])
def test_a_body_of_the_limit_is_accepted(settings, is_chunked):
    assert LARGEST_BODY == settings.DATA_UPLOAD_MAX_MEMORY_SIZE
    head = CHUNKED if is_chunked else POST + b"Content-Length: %d\r\n\r\n" % LARGEST_BODY
    body = b"x" * LARGEST_BODY
    data = b"%x\r\n%b\r\n0\r\n\r\n" % (LARGEST_BODY, body) if is_chunked else body
    framing = Framing()
    assert framing.is_complete(bytearray(head + data))
    assert not framing.refusal


CAUSES = {
    "request line": (b"GET /\r\nHost: x\r\n\r\n", 400, "The request line is malformed."),
    "method": (b"get / HTTP/1.1\r\nHost: x\r\n\r\n", 400, "The method is malformed."),
    "version": (b"GET / HTCPCP/1.0\r\n\r\n", 400, "The HTTP version is not supported."),
    "name": (POST + b"X y: z\r\n\r\n", 400, "The name of a header is malformed."),
    "header": (POST + b"X\r\n\r\n", 400, "A header is malformed or repeated."),
    "two hosts": (POST + b"Host: y\r\n\r\n", 400, "The Host header is malformed or repeated."),
    "folded": (POST + b"X: y\r\n z\r\n\r\n", 400, "A header is spread over several lines."),
    "folded coding": (
        CHUNKED[:-2] + b" , gzip\r\n\r\n0\r\n\r\n",
        400,
        "A header is spread over several lines.",
    ),
    "expectation": (
        POST + b"Expect: money\r\n\r\n",
        417,
        "The only Expect header that is supported is 100-continue.",
    ),
    "long line": (b"GET /%b HTTP/1.1\r\nHost: x\r\n\r\n" % (b"x" * 9_000), 414, "The request line"),
    "long header": (POST + b"X: %b\r\n\r\n" % (b"y" * 9_000), 431, "There are too many headers"),
}


@parametrize(("request_bytes", "status", "detail"), CAUSES.values(), ids=CAUSES)
def test_what_gunicorn_refuses_has_its_cause(request_bytes, status, detail):
    framing = Framing()
    assert framing.is_complete(bytearray(request_bytes))
    assert not framing.refusal
    with pytest.raises(Refused) as caught:
        parsed(Config(), framing, CLIENT)
    assert caught.value.status == status
    assert caught.value.detail.startswith(detail)


# --- Agreement with gunicorn -----------------------------------------------------------------

PIECES = [
    *(b"0", b"1", b"2", b"a", b"5", b"\r\n", b"\r\n", b"\r\n", b"x", b"xx", b";", b"a=b", b" "),
    *(b"\r", b"\n", b'"', b"X: y", b"Host: y", b":", b"+", b"_", b"0\r\n\r\n", b"1\r\nx\r\n"),
]
HEADERS = [
    *(b"Transfer-Encoding: chunked", b"Transfer-Encoding:chunked", b"Transfer-Encoding : chunked"),
    *(b"Transfer-Encoding: identity", b" chunked", b"Transfer_Encoding: chunked", b"X: y", b"X"),
    *(b"Content-Length: 0", b"Content-Length: 5", b"Content-Length: +5", b"Content_Length: 5"),
    *(b"Transfer-Encoding: chunked\x0c", b"X: y\nTransfer-Encoding: chunked", b"\rX: y"),
]
LINES = [b"POST / HTTP/1.1", b"POST / HTTP/1.0", b"\r\nPOST / HTTP/1.1", b"POST / HTTP/1.1 "]


@chosen(deadline=None)
@given(
    st.sampled_from(LINES),
    st.lists(st.sampled_from(HEADERS), max_size=3),
    st.lists(st.sampled_from(PIECES), max_size=12).map(b"".join),
)
def test_what_is_accepted_is_what_gunicorn_would_have_read(line, headers, rest):
    _assert_agreement(b"\r\n".join([line, b"Host: x", *headers, b"", rest]))


@chosen(deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=15).map(b"".join))
def test_the_chunks_that_are_accepted_are_those_of_gunicorn(rest):
    _assert_agreement(CHUNKED + rest)


def _assert_agreement(raw: bytes) -> None:
    framing, data = Framing(), bytearray(raw)
    if not framing.is_complete(data) or framing.refusal:
        return
    try:
        body = parsed(Config(), framing, CLIENT).body.read()
    except Refused:
        return
    assert (body, bytes(data)) == _gunicorns_reading(raw)


def _gunicorns_reading(raw: bytes) -> tuple[bytes, bytes]:
    parser = RequestParser(Config(), [raw], CLIENT)
    try:
        body = next(parser).body.read()
    except (ParseException, NoMoreData) as error:
        pytest.fail(f"gunicorn refuses it: {error}")
    return body, parser.unreader.take_buffered()
