"""Many clients at once, each a process with its own connection."""

import multiprocessing
import time
from collections.abc import Callable
from queue import Queue

from django.db import connection, connections

from bench.pgbench import Speed, share_of

_fork = multiprocessing.get_context("fork")


def measure(cycle: Callable[[int, int], None], *, clients: int, seconds: float) -> Speed:
    """Call `cycle(client, number)` repeatedly in each client, after a short warm-up."""
    connections.close_all()
    barrier, results = _fork.Barrier(clients), _fork.Queue()
    arguments = (cycle, seconds, barrier, results)
    processes = [_fork.Process(target=_client, args=(c, *arguments)) for c in range(clients)]
    for process in processes:
        process.start()
    times = [t for _ in processes for t in results.get(timeout=seconds * 10 + 60)]
    for process in processes:
        process.join()
    times.sort()
    return Speed(len(times) / seconds, share_of(times, 0.5) * 1000, share_of(times, 0.99) * 1000)


def _client(
    client: int,
    cycle: Callable[[int, int], None],
    seconds: float,
    barrier: "multiprocessing.synchronize.Barrier",
    results: "Queue[list[float]]",
) -> None:
    for number in range(3):
        cycle(client, number)
    barrier.wait()
    times, number, end = [], 3, time.monotonic() + seconds
    while (begin := time.monotonic()) < end:
        cycle(client, number)
        times.append(time.monotonic() - begin)
        number += 1
    connection.close()
    results.put(times)
