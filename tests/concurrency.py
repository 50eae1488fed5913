"""Run jobs at the same moment, each on its own database connection."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Barrier, BrokenBarrierError
from typing import Any

from django.db import connection


def at_once(jobs: Iterable[Callable[[], Any]]) -> list[Any]:
    """Run all jobs in threads that start together; return their results or exceptions."""
    jobs = list(jobs)
    barrier = Barrier(len(jobs))

    def run(job: Callable[[], Any]) -> Any:
        try:
            connection.ensure_connection()
            barrier.wait(timeout=60)
            return job()
        except Exception as error:
            return error
        finally:
            connection.close()

    with ThreadPoolExecutor(max_workers=len(jobs)) as pool:
        return list(pool.map(run, jobs))


def all_at_once(jobs: Iterable[Callable[[], Any]]) -> None:
    """The same for jobs that must succeed, and whose results do not matter."""
    for result in at_once(jobs):
        if isinstance(result, Exception):
            raise result


def then_meet(function: Callable[..., Any], *, patience: float = 1.5) -> Callable[..., Any]:
    """The function, after which two callers wait for each other: each goes on with what it found
    before the other one acted. If a lock keeps the second one out, the first goes on alone."""
    together = Barrier(2)

    def wrapped(*arguments: Any, **named: Any) -> Any:
        result = function(*arguments, **named)
        with suppress(BrokenBarrierError):
            together.wait(timeout=patience)
        return result

    return wrapped
