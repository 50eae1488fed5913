"""Work done at the same moment on real connections of its own."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

from django.db import connection


def at_once(jobs: Iterable[Callable[[], Any]]) -> list[Any]:
    """Run all jobs in threads that start together; answers with results or exceptions."""
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
