"""The two clients: they carry out the steps of each operation, one blocking, one async."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

import httpx

from botpool_client import operations, waiting
from botpool_client.operations import Pages
from botpool_client.requests import Call, Outcome, Retries, Send, Sleep, Steps, perform
from botpool_client.results import TERMINAL, Bot
from botpool_client.version import __version__

P = ParamSpec("P")
T = TypeVar("T")

API = "/api/v1"
POLL_INTERVAL = 2.0
TIMEOUT = 30.0


class _Client:
    """What both share: the address, the headers, and how requests are built."""

    def __init__(self, url: str, api_key: str, *, timeout: float, retries: Retries | None) -> None:
        """`url`: where Botpool is, such as https://botpool.example."""
        if not url.startswith(("http://", "https://")):
            raise ValueError(f"{url!r} is not an address that begins with http:// or https://")
        if not api_key or not api_key.isascii() or any(char.isspace() for char in api_key):
            raise ValueError("the API key is empty, or has characters that no key has")
        self.url = url.rstrip("/").removesuffix(API)
        self.retries = retries or Retries()
        self.timeout = timeout
        self._headers = {
            "Authorization": f"Bearer {api_key}",
            "Accept": "application/json",
            "User-Agent": f"botpool-client/{__version__}",
        }

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"

    def _request(self, http: httpx.Client | httpx.AsyncClient, step: Send) -> httpx.Request:
        call = step.call
        limit = self.timeout if step.timeout is None else min(step.timeout, self.timeout)
        return http.build_request(
            call.method,
            self.url + API + call.path,
            params=dict(call.query) or None,
            json=call.body,
            headers={**self._headers, **call.headers},
            timeout=limit,
        )

    def _wait(
        self, bot_id: int, statuses: tuple[str, ...], timeout: float, poll_interval: float
    ) -> Steps[Bot]:
        return waiting.wait_for(
            bot_id, statuses, timeout=timeout, poll_interval=poll_interval, retries=self.retries
        )


def _sync(operation: Callable[P, Call[T]]) -> Callable[Concatenate[Botpool, P], T]:
    def method(self: Botpool, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._run(perform(operation(*args, **kwargs), self.retries))

    return _named_after(operation, method)


def _async(operation: Callable[P, Call[T]]) -> Callable[Concatenate[AsyncBotpool, P], Awaitable[T]]:
    async def method(self: AsyncBotpool, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._run(perform(operation(*args, **kwargs), self.retries))

    return _named_after(operation, method)


def _sync_pages(
    operation: Callable[P, Pages[T]],
) -> Callable[Concatenate[Botpool, P], Iterator[T]]:
    def method(self: Botpool, /, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        pages, cursor = operation(*args, **kwargs), None
        while True:
            page = self._run(perform(pages.at(cursor), self.retries))
            yield from page.items
            if (cursor := page.next_cursor) is None:
                return

    return _named_after(operation, method)


def _async_pages(
    operation: Callable[P, Pages[T]],
) -> Callable[Concatenate[AsyncBotpool, P], AsyncIterator[T]]:
    async def method(self: AsyncBotpool, /, *args: P.args, **kwargs: P.kwargs) -> AsyncIterator[T]:
        pages, cursor = operation(*args, **kwargs), None
        while True:
            page = await self._run(perform(pages.at(cursor), self.retries))
            for item in page.items:
                yield item
            if (cursor := page.next_cursor) is None:
                return

    return _named_after(operation, method)


M = TypeVar("M", bound=Callable[..., Any])


def _named_after(operation: Callable[..., Any], method: M) -> M:
    """With the operation's name, text and parameters, for help() and editors."""
    named: Any = wraps(operation)(method)
    of_self = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    signature = inspect.signature(operation)
    parameters = [of_self, *signature.parameters.values()]
    named.__signature__ = signature.replace(
        parameters=parameters, return_annotation=inspect.Signature.empty
    )
    result: M = named
    return result


class Botpool(_Client):
    """The blocking client. Threads can share one. Use it with `with`, or call `close`."""

    def __init__(
        self,
        url: str,
        api_key: str,
        *,
        timeout: float = TIMEOUT,
        retries: Retries | None = None,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        super().__init__(url, api_key, timeout=timeout, retries=retries)
        self._http = httpx.Client(transport=transport)

    create_bot = _sync(operations.create_bot)
    get_bot = _sync(operations.get_bot)
    cancel_bot = _sync(operations.cancel_bot)
    list_bots = _sync(operations.list_bots)
    list_bot_events = _sync(operations.list_bot_events)
    list_bot_logs = _sync(operations.list_bot_logs)
    iter_bots = _sync_pages(operations.iter_bots)
    iter_bot_events = _sync_pages(operations.iter_bot_events)
    get_pool = _sync(operations.get_pool)
    get_pressure = _sync(operations.get_pressure)
    list_slots = _sync(operations.list_slots)
    list_queue = _sync(operations.list_queue)
    release_slot = _sync(operations.release_slot)
    list_servers = _sync(operations.list_servers)
    drain_server = _sync(operations.drain_server)
    cordon_server = _sync(operations.cordon_server)
    plan_maintenance = _sync(operations.plan_maintenance)
    warm_image = _sync(operations.warm_image)
    return_server = _sync(operations.return_server)

    def wait_for(
        self, bot_id: int, *statuses: str, timeout: float, poll_interval: float = POLL_INTERVAL
    ) -> Bot:
        """Return the bot once it has one of these statuses.

        Raises BotEnded if it ends in another one, and WaitTimeout after `timeout` seconds. A status
        can pass unseen between two polls: name those that may follow it, too."""
        return self._run(self._wait(bot_id, statuses, timeout, poll_interval))

    def wait_until_ended(
        self, bot_id: int, *, timeout: float, poll_interval: float = POLL_INTERVAL
    ) -> Bot:
        """Return the bot once it is DONE, FAILED or CANCELLED."""
        return self.wait_for(bot_id, *TERMINAL, timeout=timeout, poll_interval=poll_interval)

    def _run(self, steps: Steps[T]) -> T:
        outcome: Outcome = None
        while True:
            try:
                step = steps.send(outcome)
            except StopIteration as end:
                result: T = end.value
                return result
            outcome = self._take(step)

    def _take(self, step: Send | Sleep) -> Outcome:
        if isinstance(step, Sleep):
            time.sleep(step.seconds)
            return None
        try:
            return self._http.send(self._request(self._http, step))
        except httpx.TransportError as error:
            return error

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


class AsyncBotpool(_Client):
    """The async client, for asyncio. Use it with `async with`, or await `aclose`."""

    def __init__(
        self,
        url: str,
        api_key: str,
        *,
        timeout: float = TIMEOUT,
        retries: Retries | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        super().__init__(url, api_key, timeout=timeout, retries=retries)
        self._http = httpx.AsyncClient(transport=transport)

    create_bot = _async(operations.create_bot)
    get_bot = _async(operations.get_bot)
    cancel_bot = _async(operations.cancel_bot)
    list_bots = _async(operations.list_bots)
    list_bot_events = _async(operations.list_bot_events)
    list_bot_logs = _async(operations.list_bot_logs)
    iter_bots = _async_pages(operations.iter_bots)
    iter_bot_events = _async_pages(operations.iter_bot_events)
    get_pool = _async(operations.get_pool)
    get_pressure = _async(operations.get_pressure)
    list_slots = _async(operations.list_slots)
    list_queue = _async(operations.list_queue)
    release_slot = _async(operations.release_slot)
    list_servers = _async(operations.list_servers)
    drain_server = _async(operations.drain_server)
    cordon_server = _async(operations.cordon_server)
    plan_maintenance = _async(operations.plan_maintenance)
    warm_image = _async(operations.warm_image)
    return_server = _async(operations.return_server)

    async def wait_for(
        self, bot_id: int, *statuses: str, timeout: float, poll_interval: float = POLL_INTERVAL
    ) -> Bot:
        """As `Botpool.wait_for`."""
        return await self._run(self._wait(bot_id, statuses, timeout, poll_interval))

    async def wait_until_ended(
        self, bot_id: int, *, timeout: float, poll_interval: float = POLL_INTERVAL
    ) -> Bot:
        """As `Botpool.wait_until_ended`."""
        return await self.wait_for(bot_id, *TERMINAL, timeout=timeout, poll_interval=poll_interval)

    async def _run(self, steps: Steps[T]) -> T:
        outcome: Outcome = None
        while True:
            try:
                step = steps.send(outcome)
            except StopIteration as end:
                result: T = end.value
                return result
            outcome = await self._take(step)

    async def _take(self, step: Send | Sleep) -> Outcome:
        if isinstance(step, Sleep):
            await asyncio.sleep(step.seconds)
            return None
        try:
            return await self._http.send(self._request(self._http, step))
        except httpx.TransportError as error:
            return error

    async def aclose(self) -> None:
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()
