import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path
from urllib.parse import quote

import psutil
import pytest
from django.conf import settings
from django.db import connection
from django.db.models.functions import Now
from django_q.models import OrmQ

from botpool.schedule import WORKS
from core.jobs.periodic import WORKER_HEARTBEAT, PeriodicWork
from core.jobs.ticker import Ticker, TickerLease, hold_lease, wake_ticker
from tests.processes import Program, environment, wait_until


def leader() -> str:
    lease = TickerLease.objects.filter(seen_at__gt=Now() - timedelta(seconds=3)).first()
    return lease.holder if lease else ""


# --- The lease ---


@pytest.mark.django_db
def test_one_ticker_leads_and_others_wait():
    assert hold_lease("first")
    assert not hold_lease("second")
    assert hold_lease("first")


@pytest.mark.django_db
def test_a_leader_not_seen_for_three_seconds_is_overtaken_and_stands_down():
    hold_lease("first")
    TickerLease.objects.update(seen_at=Now() - timedelta(seconds=4))

    assert hold_lease("second")
    assert not hold_lease("first")


@pytest.mark.django_db
def test_a_ticker_that_does_not_lead_asks_for_nothing():
    hold_lease("another")

    assert Ticker().tick() == set()
    assert not OrmQ.objects.exists()


@pytest.mark.django_db
def test_the_leader_asks_for_everything_that_is_due():
    assert Ticker().tick() == {work.name for work in WORKS}
    assert OrmQ.objects.count() == len(WORKS)


@pytest.mark.django_db
def test_tickers_that_lead_in_turn_ask_once():
    Ticker().tick()
    TickerLease.objects.update(seen_at=None)

    assert Ticker().tick() == set()
    assert OrmQ.objects.count() == len(WORKS)


# --- Real ones ---


@contextmanager
def tickers(count: int, data_dir: Path) -> Iterator[list[Program]]:
    """Tickers as processes of their own, on the database of the tests."""
    database = settings.DATABASES["default"]
    url = f"postgres://{database['USER']}@{quote(database['HOST'], safe='')}:5432/"
    env = environment(data_dir, DATABASE_URL=url + connection.settings_dict["NAME"])
    programs = [Program("ticker", env=env) for _ in range(count)]
    with ExitStack() as stack:
        for program in programs:
            stack.callback(_end, program)
        who_leads()
        yield programs


def _end(program: Program) -> None:
    if not program.has_ended():
        program.process.send_signal(signal.SIGCONT)
        program.process.kill()
    program.wait()


def who_leads(*, instead_of: str = "") -> str:
    """Waits until somebody leads, who is not this one."""
    seen = [""]

    def looked() -> bool:
        seen.append(leader())
        return seen[-1] not in ("", instead_of)

    wait_until(looked, what="a ticker leads")
    return seen[-1]


def pid_of(holder: str) -> int:
    return int(holder.split(":")[1])


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_another_takes_over_when_the_leader_is_killed(data_dir):
    with tickers(2, data_dir):
        first = who_leads()
        os.kill(pid_of(first), signal.SIGKILL)
        who_leads(instead_of=first)


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_a_frozen_leader_is_overtaken_and_does_not_lead_when_it_wakes(data_dir):
    with tickers(2, data_dir):
        first = who_leads()
        os.kill(pid_of(first), signal.SIGSTOP)
        second = who_leads(instead_of=first)
        os.kill(pid_of(first), signal.SIGCONT)
        watch_for(2.0, lambda: leader() in (second, ""))
        assert OrmQ.objects.count() == len(WORKS)


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_the_next_one_leads_at_once_when_the_leader_is_told_to_stop(data_dir):
    with tickers(2, data_dir) as programs:
        first = who_leads()
        os.kill(pid_of(first), signal.SIGTERM)
        who_leads(instead_of=first)
        stopped = next(p for p in programs if p.process.pid == pid_of(first))
        assert stopped.wait() == 0


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_it_outlives_its_connection_and_hears_a_call(data_dir):
    with tickers(1, data_dir) as [program]:
        _cut_all_other_connections()
        wait_until(lambda: "lost the database" in program.output, what="it notices")
        who_leads()
        PeriodicWork.objects.update(asked_at=None)
        OrmQ.objects.all().delete()

        def called() -> bool:
            wake_ticker(WORKER_HEARTBEAT)
            return PeriodicWork.objects.get(name=WORKER_HEARTBEAT).asked_at is not None

        wait_until(called, what="it asks for what was called for")
        assert psutil.pid_exists(program.process.pid)


def _cut_all_other_connections() -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )


def watch_for(seconds: float, holds: Callable[[], object]) -> None:
    """For so long it must hold at every look."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        assert holds()
        time.sleep(0.05)
