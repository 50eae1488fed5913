"""Timed work for the simulator, on a few threads."""

import heapq
import itertools
import logging
import queue
import threading
import time
from collections.abc import Callable

import requests

logger = logging.getLogger(__name__)

Work = Callable[[], None]


class Scheduler:
    """Runs quick work on one timer thread and outbound HTTP calls on a few others.

    Each container costs a heap entry, not a thread.
    """

    def __init__(self, *, outbound_threads: int) -> None:
        self._heap: list[tuple[float, int, Work]] = []
        self._order = itertools.count()
        self._wake = threading.Condition()
        self._stopped = False
        self._outbound: queue.SimpleQueue[Work | None] = queue.SimpleQueue()
        self._timer = threading.Thread(target=self._run_timer, name="simulator-timer", daemon=True)
        self._callers = [
            threading.Thread(target=self._run_caller, name=f"simulator-bot-{n}", daemon=True)
            for n in range(outbound_threads)
        ]
        self._local = threading.local()

    def start(self) -> None:
        for thread in (self._timer, *self._callers):
            thread.start()

    def stop(self) -> None:
        with self._wake:
            self._stopped = True
            self._wake.notify()
        for _ in self._callers:
            self._outbound.put(None)
        deadline = time.monotonic() + 0.5
        for thread in (self._timer, *self._callers):
            if thread.is_alive():
                thread.join(max(0.0, deadline - time.monotonic()))

    @property
    def stopped(self) -> bool:
        return self._stopped

    def at(self, moment: float, work: Work) -> None:
        with self._wake:
            heapq.heappush(self._heap, (moment, next(self._order), work))
            self._wake.notify()

    def outbound_at(self, moment: float, work: Work) -> None:
        self.at(moment, lambda: self._outbound.put(work))

    def outbound(self, work: Work) -> None:
        self._outbound.put(work)

    def session(self) -> requests.Session:
        """The calling thread's HTTP session. Only outbound threads have one."""
        session: requests.Session = self._local.session
        return session

    def _run_timer(self) -> None:
        while (work := self._next_due()) is not None:
            run_logged(work)

    def _next_due(self) -> Work | None:
        with self._wake:
            while not self._stopped:
                wait = self._heap[0][0] - time.time() if self._heap else None
                if wait is not None and wait <= 0:
                    return heapq.heappop(self._heap)[2]
                self._wake.wait(wait)
        return None

    def _run_caller(self) -> None:
        with requests.Session() as session:
            session.trust_env = False
            self._local.session = session
            while (work := self._outbound.get()) is not None and not self._stopped:
                run_logged(work)


def run_logged(work: Work) -> None:
    """Run the work and log any exception: an exception must not end a shared thread."""
    try:
        work()
    except Exception:
        logger.exception("Scheduled work of the simulator failed")
