"""Send one HTTP request to Coolify, through the gate and within its deadline."""

from __future__ import annotations

import json
import os
import random
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

import requests
import urllib3
from requests.auth import AuthBase

from coolify.client.calls import Call, Gate, OpenGate, Outcome
from coolify.client.errors import CoolifyError, MalformedAnswer, Unavailable, Unreachable
from coolify.client.parsing import time_from_now
from coolify.client.replies import Reply, fault_of, not_json, unreachable
from core.correlation import correlation_header

DEFAULT_TIMEOUT = 30.0
CONNECT_TIMEOUT = 5.0
# One quick retry, for reads only: more would spend the budget on an outage.
READ_ATTEMPTS = 2
PAUSE_BEFORE_RETRY = (0.1, 0.4)
# Enough for thousands of applications, but not for an endless answer.
MAX_ANSWER_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True)
class Answer:
    data: Any
    # How far Coolify's clock is ahead of ours, from the Date header, to about a second.
    clock_offset: timedelta = field(default_factory=timedelta)


class BearerAuth(AuthBase):
    """An auth object, because requests prefers a .netrc entry to a plain header."""

    def __init__(self, token: str) -> None:
        self._token = token

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        request.headers["Authorization"] = f"Bearer {self._token}"
        return request


class Transport:
    def __init__(self, base_url: str, token: str, *, gate: Gate | None, timeout: float) -> None:
        parts = urlsplit(base_url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ValueError(f"{base_url!r} is not an address of the form https://host/api/v1")
        self.base_url = base_url.rstrip("/")
        self._auth = BearerAuth(token)
        self._gate: Gate = gate or OpenGate()
        self._timeout = timeout
        self._local = threading.local()

    def send(
        self,
        call: Call,
        *,
        query: Mapping[str, Any] | None = None,
        body: Mapping[str, Any] | None = None,
        timeout: float | None = None,
        as_text: bool = False,
    ) -> Answer:
        attempts = READ_ATTEMPTS if call.only_reads else 1
        deadline = time.monotonic() + (timeout or self._timeout)
        while True:
            attempts -= 1
            try:
                return self._send_once(
                    call, query=query, body=body, deadline=deadline, as_text=as_text
                )
            except (Unreachable, Unavailable):
                pause = random.uniform(*PAUSE_BEFORE_RETRY)  # noqa: S311 - spreads load only
                if not attempts or time.monotonic() + pause >= deadline:
                    raise
                time.sleep(pause)

    def _send_once(
        self,
        call: Call,
        *,
        query: Mapping[str, Any] | None,
        body: Mapping[str, Any] | None,
        deadline: float,
        as_text: bool,
    ) -> Answer:
        permit = self._gate.before(call)
        began = time.monotonic()
        reply: Reply | None = None
        error: CoolifyError | None = None
        try:
            reply = self._exchange(call, query=query, body=body, deadline=deadline)
            return _answer(call, reply, as_text=as_text)
        except CoolifyError as caught:
            error = caught
            raise
        finally:
            outcome = _outcome(reply, error, seconds=time.monotonic() - began)
            self._gate.after(call, outcome, permit)

    def _exchange(
        self,
        call: Call,
        *,
        query: Mapping[str, Any] | None,
        body: Mapping[str, Any] | None,
        deadline: float,
    ) -> Reply:
        left = max(deadline - time.monotonic(), 0.05)
        try:
            with self._session().request(
                call.method,
                self.base_url + call.path,
                params=query,
                json=body,
                auth=self._auth,
                headers={"Accept": "application/json", **correlation_header()},
                timeout=(min(CONNECT_TIMEOUT, left), left),
                # A redirect would turn a POST into a GET, and carry the token elsewhere.
                allow_redirects=False,
                stream=True,
            ) as response:
                content = _read(call, response, deadline=deadline)
                return Reply(response.status_code, response.headers, content)
        except (requests.RequestException, urllib3.exceptions.HTTPError) as error:
            raise unreachable(call, error, base_url=self.base_url) from error

    def _session(self) -> requests.Session:
        # A session is not safe across threads, nor across a fork.
        if getattr(self._local, "pid", None) != os.getpid():
            self._local.session = requests.Session()
            self._local.pid = os.getpid()
        session: requests.Session = self._local.session
        return session


def _read(call: Call, response: requests.Response, *, deadline: float) -> bytes:
    """Read the whole body within the deadline: the timeout of requests restarts at each byte."""
    chunks: list[bytes] = []
    size = 0
    while chunk := response.raw.read1(65536, decode_content=True):
        chunks.append(chunk)
        size += len(chunk)
        if size > MAX_ANSWER_BYTES:
            raise MalformedAnswer(
                f"Coolify's answer to the call to {call.purpose} is larger than "
                f"{MAX_ANSWER_BYTES} bytes.",
                maybe_done=not call.only_reads,
            )
        if time.monotonic() > deadline:
            raise urllib3.exceptions.TimeoutError("the answer was too slow")
    return b"".join(chunks)


def _answer(call: Call, reply: Reply, *, as_text: bool) -> Answer:
    fault = fault_of(call, reply)
    if fault is not None:
        raise fault
    if as_text:
        return Answer(reply.content.decode(errors="replace"), _clock_offset(reply))
    try:
        return Answer(json.loads(reply.content), _clock_offset(reply))
    except (ValueError, RecursionError) as error:
        raise not_json(call, reply) from error


def _outcome(reply: Reply | None, error: CoolifyError | None, *, seconds: float) -> Outcome:
    if reply is None:
        return Outcome(seconds=seconds, error=error)
    return Outcome(
        seconds=seconds,
        status=reply.status,
        error=error,
        limit=reply.number("X-RateLimit-Limit"),
        remaining=reply.number("X-RateLimit-Remaining"),
    )


def _clock_offset(reply: Reply) -> timedelta:
    return time_from_now(reply.headers.get("Date", "")) or timedelta()
