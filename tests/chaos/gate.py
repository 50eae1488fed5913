"""A network link that can be broken: a TCP proxy to one of several addresses.

It runs as its own process, and signals break it. SIGSTOP freezes it: packets vanish silently.
SIGKILL resets every connection. SIGUSR1 makes it slow. After SIGHUP it refuses the workers' own
requests to the web, and passes those of bots on. SIGUSR2 ends both. With `--patience` it is a load
balancer: a server that does not answer in time is skipped for a while.
"""

import argparse
import asyncio
import signal
import time
from contextlib import suppress
from dataclasses import dataclass

PIECE = 65536
PASSED_OVER_FOR = 2.0
SLOW_BY = 0.25  # seconds per piece, in each direction
OF_WORKERS = b"GET /readyz "  # they check whether bots can be heard
Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass
class Target:
    address: str
    usable_at: float = 0.0

    async def connect(self) -> Stream:
        if self.address.startswith("/"):
            return await asyncio.open_unix_connection(self.address)
        host, port = self.address.rsplit(":", 1)
        return await asyncio.open_connection(host, int(port))

    def pass_over(self) -> None:
        self.usable_at = time.monotonic() + PASSED_OVER_FOR


class Gate:
    def __init__(self, addresses: list[str], *, patience: float | None) -> None:
        self.targets = [Target(address) for address in addresses]
        self.patience = patience
        self.turn = 0
        self.delay = 0.0
        self.refuses_workers = False

    def be_good(self) -> None:
        self.delay, self.refuses_workers = 0.0, False

    async def serve(self, host: str, port: int) -> None:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGUSR1, lambda: setattr(self, "delay", SLOW_BY))
        loop.add_signal_handler(signal.SIGHUP, lambda: setattr(self, "refuses_workers", True))
        loop.add_signal_handler(signal.SIGUSR2, self.be_good)
        server = await asyncio.start_server(self.pass_on, host, port)
        async with server:
            await server.serve_forever()

    async def pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        target, stream = await self._connect()
        if stream is None:
            writer.transport.abort()
            return
        there = asyncio.create_task(self._copy(reader, stream[1]))
        back = asyncio.create_task(self._copy_answers(stream[0], writer, target=target))
        await asyncio.wait((there, back), return_when=asyncio.FIRST_COMPLETED)
        for task in (there, back):
            task.cancel()
        for end in (writer, stream[1]):
            end.transport.abort()

    async def _connect(self) -> tuple[Target, Stream | None]:
        self.turn += 1
        start = self.turn % len(self.targets)
        in_turn = self.targets[start:] + self.targets[:start]
        for target in sorted(in_turn, key=lambda each: each.usable_at > time.monotonic()):
            try:
                return target, await asyncio.wait_for(target.connect(), self.patience)
            except (OSError, TimeoutError):
                target.pass_over()
        return in_turn[0], None

    async def _copy_answers(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, target: Target
    ) -> None:
        try:
            first = await asyncio.wait_for(reader.read(PIECE), self.patience)
        except TimeoutError:
            target.pass_over()
            return
        except OSError:
            return
        writer.write(first)
        await self._copy(reader, writer)

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while piece := await reader.read(PIECE):
                if self.refuses_workers and piece.startswith(OF_WORKERS):
                    return
                if self.delay:
                    await asyncio.sleep(self.delay)
                writer.write(piece)
                await writer.drain()


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
