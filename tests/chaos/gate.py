"""A network link that can be broken: a TCP proxy to one of several addresses.

It runs as its own process, and signals break it. SIGSTOP freezes it: packets vanish silently.
SIGKILL resets every connection. BE_SLOW makes it slow. After REFUSE_WORKERS it refuses the workers'
own requests to the web, and passes those of bots on. BE_GOOD ends both. With `--patience` it is a
load balancer: a server that does not answer in time is skipped for a while.
"""

import argparse
import asyncio
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

# Signals that come while it is frozen are handled in the order of their numbers, the highest first.
# BE_GOOD has the lowest: a gate that stayed slow would be slow for the rest of the run.
BE_GOOD, BE_SLOW, REFUSE_WORKERS = signal.SIGUSR1, signal.SIGUSR2, signal.SIGWINCH

PASSED_OVER_FOR = 2.0
SLOW_BY = 0.25  # seconds per piece, in each direction
OF_WORKERS = b"GET /readyz "  # they check whether bots can be heard


@dataclass
class Target:
    address: str
    usable_at: float = 0.0

    async def connect(self, end: "End") -> None:
        loop = asyncio.get_running_loop()
        if self.address.startswith("/"):
            await loop.create_unix_connection(lambda: end, self.address)
        else:
            host, port = self.address.rsplit(":", 1)
            await loop.create_connection(lambda: end, host, int(port))

    def pass_over(self) -> None:
        self.usable_at = time.monotonic() + PASSED_OVER_FOR


class End(asyncio.Protocol):
    """One end of a connection through the gate; what arrives here leaves at the other one."""

    def __init__(self, gate: "Gate", *, ready: Callable[["End"], None] | None = None) -> None:
        self.gate, self.ready = gate, ready
        self.transport: asyncio.Transport | None = None
        self.other: End | None = None
        self.has_heard = self.holds_back = self.is_closed = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        if self.ready is not None:
            self.transport.pause_reading()  # until the other end is there
            self.ready(self)
        elif self.is_closed:
            self.transport.close()

    def data_received(self, data: bytes) -> None:
        self.has_heard = True
        if self.gate.refuses_workers and data.startswith(OF_WORKERS):
            self.close()
        elif self.gate.delay:
            self.holds_back = True
            self.pause()
            asyncio.get_running_loop().call_later(self.gate.delay, self._pass_on_late, data)
        else:
            self._pass_on(data)

    def _pass_on_late(self, data: bytes) -> None:
        self.holds_back = False
        self._pass_on(data)
        self.resume()

    def _pass_on(self, data: bytes) -> None:
        if self.other is not None and self.other.transport is not None and not self.is_closed:
            self.other.transport.write(data)

    def pause(self) -> None:
        if self.transport is not None:
            self.transport.pause_reading()

    def resume(self) -> None:
        if self.transport is not None and not self.holds_back:
            self.transport.resume_reading()

    def pause_writing(self) -> None:
        if self.other is not None:
            self.other.pause()

    def resume_writing(self) -> None:
        if self.other is not None:
            self.other.resume()

    def connection_lost(self, error: Exception | None) -> None:
        self.close()

    def close(self) -> None:
        """Both ends, once they have sent what has arrived."""
        for end in (self, self.other):
            if end is not None and not end.is_closed:
                end.is_closed = True
                if end.transport is not None:
                    end.transport.close()


class Gate:
    def __init__(self, addresses: list[str], *, patience: float | None) -> None:
        self.targets = [Target(address) for address in addresses]
        self.patience = patience
        self.turn = 0
        self.delay = 0.0
        self.refuses_workers = False
        self.tasks: set[asyncio.Task[None]] = set()

    def be_good(self) -> None:
        self.delay, self.refuses_workers = 0.0, False

    async def serve(self, host: str, port: int) -> None:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(BE_SLOW, lambda: setattr(self, "delay", SLOW_BY))
        loop.add_signal_handler(REFUSE_WORKERS, lambda: setattr(self, "refuses_workers", True))
        loop.add_signal_handler(BE_GOOD, self.be_good)
        server = await loop.create_server(lambda: End(self, ready=self._accepted), host, port)
        async with server:
            await server.serve_forever()

    def _accepted(self, client: End) -> None:
        task = asyncio.get_running_loop().create_task(self._pass_on(client))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def _pass_on(self, client: End) -> None:
        there = End(self)
        client.other, there.other = there, client
        target = await self._connect(there)
        if target is None:
            client.close()
            return
        client.resume()
        if self.patience is not None:
            await asyncio.sleep(self.patience)
            if not there.has_heard and not there.is_closed:
                target.pass_over()
                there.close()

    async def _connect(self, there: End) -> Target | None:
        self.turn += 1
        start = self.turn % len(self.targets)
        in_turn = self.targets[start:] + self.targets[:start]
        for target in sorted(in_turn, key=lambda each: each.usable_at > time.monotonic()):
            try:
                await asyncio.wait_for(target.connect(there), self.patience)
            except (OSError, TimeoutError):
                target.pass_over()
            else:
                return target
        return None


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--to", action="append", required=True, help="host:port or a socket path")
    parser.add_argument("--patience", type=float, help="seconds to wait for the first answer")
    options = parser.parse_args()
    asyncio.run(Gate(options.to, patience=options.patience).serve(options.host, options.port))


if __name__ == "__main__":
    main()
