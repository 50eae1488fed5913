"""The entry point of every request: page, control path, or API with its faults."""

import random
import re
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from coolify.simulator.http.api import PREFIX, Api
from coolify.simulator.http.control import CONTROL, Control
from coolify.simulator.http.page import overview
from coolify.simulator.http.visitors import check_visitor
from coolify.simulator.messages import Answer, ConnectionLost, Refusal, Request, html_page
from coolify.simulator.world.faults import Fault, Faults
from coolify.simulator.world.world import World

FROM_THE_PROXY = (502, 503, 504)
MESSAGES = {404: "Not found.", 429: "Too Many Attempts.", 401: "Unauthenticated."}
UUID = re.compile(r"/[a-z][a-z0-9]{23}(?=/|$)")
REQUESTS_KEPT = 20_000
Observer = Callable[[Request, Answer], None]


class Traffic:
    """The latest requests with their answers, and a count per route and status."""

    def __init__(self) -> None:
        self.recent: deque[dict[str, Any]] = deque(maxlen=REQUESTS_KEPT)
        self.counts: Counter[str] = Counter()
        self.observers: list[Observer] = []

    def note(self, request: Request, answer: Answer | None, *, at: float) -> None:
        status = answer.status if answer else None
        self.counts[f"{request.method} {route_of(request.path)} {status}"] += 1
        self.recent.append(
            {
                "at": at,
                "method": request.method,
                "path": request.path,
                "query": dict(request.query),
                "status": status,
                "correlationId": request.headers.get("x-correlation-id"),
            }
        )
        if answer is not None:
            for observer in self.observers:
                observer(request, answer)


def route_of(path: str) -> str:
    return UUID.sub("/{uuid}", path.removeprefix(PREFIX))


class Gateway:
    """Sends a request to the page, to the control path, or through the faults to the API."""

    def __init__(
        self, *, world: World, faults: Faults, api: Api, control: Control, traffic: Traffic
    ) -> None:
        self._world = world
        self._faults = faults
        self._api = api
        self._control = control
        self._traffic = traffic
        self._random = random.Random(world.settings.seed)  # noqa: S311 - a delay, not a secret

    def answer(self, request: Request) -> Answer:
        # Links to Coolify's own pages show the overview too.
        is_page = request.path == "/" or request.path.startswith("/project/")
        if not is_page and not request.path.startswith(CONTROL):
            return self._answer_as_coolify(request)
        settings = self._world.settings
        try:
            check_visitor(request, hosts=[settings.host, *settings.allowed_hosts])
        except Refusal as refused:
            return refused.answer
        with self._world.lock:
            if is_page:
                return overview(self._world, scenes=self._control.scenes.listing())
            answer = self._control.answer(request)
        return back_to_the_page() if is_from_the_page(request, answer) else answer

    def _answer_as_coolify(self, request: Request) -> Answer:
        with self._world.lock:
            faults = self._faults.for_request(request)
        time.sleep(self._latency() + sum(x.seconds for x in faults if x.kind == "latency"))
        if has(faults, "reset_before"):
            self._lose(request)
        answer = refused_by(faults) or self._outage() or self._from_api(request)
        time.sleep(answer.delay)
        if has(faults, "reset_after"):
            self._lose(request)
        for fault in faults:
            answer = distorted(answer, fault)
        answer = as_asked_for(answer, request)
        with self._world.lock:
            self._traffic.note(request, answer, at=self._world.clock.now())
        return answer

    def _latency(self) -> float:
        settings = self._world.settings
        return self._random.uniform(settings.shortest_call, settings.longest_call)

    def _from_api(self, request: Request) -> Answer:
        with self._world.lock:
            return self._api.answer(request)

    def _outage(self) -> Answer | None:
        with self._world.lock:
            down = self._world.clock.now() < self._control.down_until
        return html_page(502) if down else None

    def _lose(self, request: Request) -> None:
        with self._world.lock:
            self._traffic.note(request, None, at=self._world.clock.now())
        raise ConnectionLost


def is_from_the_page(request: Request, answer: Answer) -> bool:
    """Whether a browser's form was submitted; other clients want the answer itself."""
    return request.method == "POST" and answer.status == 200 and request.wants_html


def back_to_the_page() -> Answer:
    return Answer(303, "", headers={"Location": "/"})


def has(faults: list[Fault], kind: str) -> bool:
    return any(each.kind == kind for each in faults)


def refused_by(faults: list[Fault]) -> Answer | None:
    for fault in faults:
        if fault.kind == "error":
            headers = {"Retry-After": str(fault.retry_after)} if fault.retry_after else {}
            if fault.body is None and fault.status in FROM_THE_PROXY:
                return html_page(fault.status)
            body = {"message": MESSAGES.get(fault.status, "Server Error")}
            return Answer(fault.status, body if fault.body is None else fault.body, headers=headers)
    return None


def as_asked_for(answer: Answer, request: Request) -> Answer:
    """Answer 429 and 500 with an HTML page if the client does not accept JSON."""
    if answer.status in (429, 500) and not request.wants_json:
        return replace(html_page(answer.status), headers=answer.headers)
    return answer


def distorted(answer: Answer, fault: Fault) -> Answer:
    """Apply the fault to a successful answer; leave errors as they are."""
    if answer.status >= 400:
        return answer
    if fault.kind == "html":
        page = html_page(fault.status)
        return Answer(200, page.body, page.content_type)
    if fault.kind in ("short", "empty") and isinstance(answer.body, list | dict):
        return Answer(
            answer.status, shortened(answer.body, keep=fault.keep), headers=answer.headers
        )
    return answer


def shortened(body: Any, *, keep: int) -> Any:
    if isinstance(body, list):
        return body[:keep]
    return dict(list(body.items())[:keep])
