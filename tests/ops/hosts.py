"""Simulated hosts on this machine: network namespaces, each with a cable that can be pulled."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from tests.processes import ROOT, wait_until

GATE = ROOT / "tests" / "chaos" / "gate.py"


@dataclass(frozen=True)
class Host:
    name: str
    cable: str
    address: str
    neighbour: str  # this machine, as the host sees it

    @property
    def prefix(self) -> tuple[str, ...]:
        return (_ip(), "netns", "exec", self.name)

    def pull_the_cable(self) -> None:
        """Cut the network silently: connections stay open at both ends."""
        ip("link", "set", self.cable, "down")

    def plug_it_in(self) -> None:
        ip("link", "set", self.cable, "up")


@contextmanager
def host(number: int) -> Iterator[Host]:
    # Tests may run in parallel, so each test process has its own addresses.
    place = f"10.{100 + os.getpid() % 100}.{os.getpid() // 100 % 250}"
    made = Host(
        name=f"botpool-{os.getpid()}-{number}",
        cable=f"bp{os.getpid()}-{number}",
        address=f"{place}.{4 * number + 2}",
        neighbour=f"{place}.{4 * number + 1}",
    )
    _skip_where_impossible()
    ip("netns", "add", made.name)
    try:
        ip("link", "add", made.cable, "type", "veth", "peer", "name", "eth0", "netns", made.name)
        ip("address", "add", f"{made.neighbour}/30", "dev", made.cable)
        ip("link", "set", made.cable, "up")
        for words in (
            ("address", "add", f"{made.address}/30", "dev", "eth0"),
            ("link", "set", "eth0", "up"),
            ("link", "set", "lo", "up"),
        ):
            ip("-n", made.name, *words)
        yield made
    finally:
        ip("netns", "delete", made.name)
        subprocess.run([_ip(), "link", "delete", made.cable], capture_output=True, check=False)


@contextmanager
def gate(port: int, *to: str, patience: float | None = None) -> Iterator[None]:
    """Forward connections to this port, from any host."""
    words = [word for address in to for word in ("--to", address)]
    words += ["--patience", str(patience)] if patience else []
    command = [sys.executable, "-P", str(GATE), "--host", "0.0.0.0", "--port", str(port), *words]
    with subprocess.Popen(command) as process:
        try:
            listens = psutil.Process(process.pid).net_connections
            wait_until(lambda: listens("tcp"), what="the gate is open")
            yield
        finally:
            process.kill()


def ip(*words: str) -> None:
    done = subprocess.run([_ip(), *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"ip {' '.join(words)}: {done.stderr}"


def _ip() -> str:
    return shutil.which("ip") or "/usr/sbin/ip"


def _skip_where_impossible() -> None:
    if not Path(_ip()).exists():
        pytest.skip("ip is not installed (apt-get install iproute2)")
    name = f"botpool-{os.getpid()}-trial"
    trial = subprocess.run([_ip(), "netns", "add", name], capture_output=True, check=False)
    if trial.returncode != 0:
        pytest.skip("network namespaces require root")
    ip("netns", "delete", name)
