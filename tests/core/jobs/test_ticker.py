import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path
from urllib.parse import quote

import psutil
import pytest
from django.conf import settings
from django.db import OperationalError, connection
from django.db.models.functions import Now
from django_q.models import OrmQ

from botpool.schedule import WORKS
from core.jobs.jobs import WORKER_HEARTBEAT, wake
from core.jobs.ticker import LEASE, Ticker
from core.leases import IS_HELD, WAKE_CHANNEL, Lease
from slots.models import Slot
from tests.concurrency import all_at_once
from tests.factories import SlotFactory
from tests.processes import Program, environment, wait_until

NAMES = {work.name for work in WORKS}


def leader() -> str:
    lease = Lease.objects.filter(IS_HELD, key=LEASE).first()
    return lease.holder if lease else ""


def the_lease_expires() -> None:
    Lease.objects.filter(key=LEASE).update(expires_at=Now() - timedelta(seconds=1))


class StopsAtOnce(threading.Event):
    def wait(self, timeout: float | None = None) -> bool:
        self.set()
        return True


@pytest.mark.django_db(transaction=True)
def test_it_goes_on_beside_a_read_only_database(caplog):
    ticker = Ticker()
    ticker.stopping = StopsAtOnce()
    with connection.cursor() as cursor:
        cursor.execute("SET default_transaction_read_only = on")
    ticker.run()
    assert "The ticker lost the database: cannot execute" in caplog.text


@pytest.mark.django_db(transaction=True)
def test_after_a_long_pass_it_pauses_for_as_long(monkeypatch):
    class Stopping(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            pauses.append(timeout)
            self.set()
            return True

    ticker, pauses = Ticker(), []
    ticker.stopping = Stopping()
    monkeypatch.setattr(ticker, "tick", lambda: time.sleep(0.2))
    ticker.run()
    assert 0.2 <= pauses[0] < 2


@pytest.mark.django_db(transaction=True)
def test_thousands_of_jobs_are_asked_for_in_several_passes():
    """A statement cannot hold the values of so many rows, and a pass would outlast the lease."""
    keys = {f"slot:{number}" for number in range(1, 4_501)}
    ticker = Ticker()
    ticker.woken = set(keys)
    passes = []
    while not passes or ticker.woken:
        passes.append(ticker.tick() & keys)
        assert (ticker.pause == timedelta()) == bool(ticker.woken)
    assert [len(asked) for asked in passes] == [1_000, 1_000, 1_000, 1_000, 500]
    assert set.union(*passes) == keys


@pytest.mark.django_db(transaction=True)
def test_thousands_of_due_jobs_are_asked_for_in_several_passes_the_oldest_first():
    Lease.objects.bulk_create(
        [
            Lease(key=f"slot:{number}", due_at=Now() - timedelta(days=1, seconds=-number))
            for number in range(1, 1_501)
        ]
    )
    ticker = Ticker()
    passes = [{key for key in ticker.tick() if key.startswith("slot:")} for _ in range(2)]
    assert [len(asked) for asked in passes] == [1_000, 500]
    assert passes[0] == {f"slot:{number}" for number in range(1, 1_001)}


# --- The lease ---


@pytest.mark.django_db
def test_one_ticker_leads_and_others_wait():
    first, second = Ticker(), Ticker()
    assert first.tick() == NAMES
    assert second.tick() == set()
    assert (first.lease is not None, second.lease is not None) == (True, False)


@pytest.mark.django_db
def test_a_leader_leads_on():
    ticker = Ticker()
    ticker.tick()
    lease = ticker.lease
    ticker.tick()
    assert ticker.lease is lease


@pytest.mark.django_db
def test_a_leader_not_seen_for_three_seconds_is_overtaken_and_stands_down():
    first, second = Ticker(), Ticker()
    first.tick()
    lease = Lease.objects.get(key=LEASE)
    assert lease.expires_at - lease.acquired_at < timedelta(seconds=3.1)
    the_lease_expires()

    second.tick()
    assert second.lease is not None
    first.tick()
    assert first.lease is None


@pytest.mark.django_db
def test_a_ticker_that_does_not_lead_asks_for_nothing():
    Lease.objects.create(key=LEASE, holder="another", expires_at=Now() + timedelta(minutes=1))

    assert Ticker().tick() == set()
    assert not OrmQ.objects.exists()


@pytest.mark.django_db
def test_the_leader_asks_for_everything_that_is_due():
    assert Ticker().tick() == NAMES
    assert OrmQ.objects.count() == len(WORKS)


@pytest.mark.django_db
def test_tickers_that_lead_in_turn_ask_once():
    Ticker().tick()
    the_lease_expires()

    assert Ticker().tick() == set()
    assert OrmQ.objects.count() == len(WORKS)


# --- A pass that fails ---


@pytest.fixture
def failing(monkeypatch) -> None:
    def lose_the_database(**arguments: object) -> None:
        raise OperationalError("the connection was lost")

    monkeypatch.setattr("core.jobs.ticker.ask_for_due_jobs", lose_the_database)


@pytest.mark.django_db
def test_a_ticker_whose_first_pass_is_rolled_back_does_not_lead(failing):
    """The next leader gets the same fence, and only one of them may lead."""
    ticker = Ticker()
    with pytest.raises(OperationalError):
        ticker.tick()

    assert ticker.lease is None
    assert not Lease.objects.exists()


@pytest.mark.django_db
def test_a_leader_whose_pass_is_rolled_back_leads_on(monkeypatch, request):
    ticker = Ticker()
    ticker.tick()
    lease = ticker.lease
    request.getfixturevalue("failing")
    with pytest.raises(OperationalError):
        ticker.tick()

    assert lease is not None and ticker.lease is lease


@pytest.mark.django_db
def test_a_pass_that_fails_forgets_no_wake(failing):
    ticker = Ticker()
    ticker.woken = {"slot:7"}
    with pytest.raises(OperationalError):
        ticker.tick()

    assert ticker.woken == {"slot:7"}


# --- Wakes ---


@pytest.fixture
def ticker() -> Ticker:
    """A ticker that leads, listens and would wait for a long time."""
    ticker = Ticker()
    with connection.cursor() as cursor:
        cursor.execute(f"LISTEN {WAKE_CHANNEL}")
    ticker.tick()
    ticker.pause = timedelta(seconds=100)
    return ticker


@pytest.mark.django_db(transaction=True)
def test_a_wake_ends_the_pause_and_is_asked_for(ticker):
    begin = time.monotonic()
    all_at_once([lambda: wake(["slot:7"])])
    ticker._wait_for_notice()

    assert time.monotonic() - begin < 50
    assert ticker.tick() == {"slot:7"}


@pytest.mark.django_db(transaction=True)
def test_wakes_that_come_together_are_asked_for_together(ticker):
    all_at_once([lambda: wake(["slot:7", "slot:8"]), lambda: wake([WORKER_HEARTBEAT, "slot:8"])])
    ticker._wait_for_notice()

    assert ticker.woken == {"slot:7", "slot:8", WORKER_HEARTBEAT}


@pytest.mark.django_db(transaction=True)
def test_a_wake_that_comes_during_a_pass_is_not_missed(ticker):
    all_at_once([lambda: wake(["slot:7"])])
    assert ticker.tick() == set()
    ticker.pause = timedelta(seconds=100)
    ticker._wait_for_notice()

    assert ticker.tick() == {"slot:7"}


@pytest.mark.django_db(transaction=True)
def test_a_slot_whose_status_changes_wakes_the_ticker(ticker):
    slot = SlotFactory()
    _move(slot)
    ticker._wait_for_notice()

    assert ticker.tick() == {f"slot:{slot.pk}"}


def _move(slot: Slot) -> None:
    Slot.objects.filter(pk=slot.pk).update(
        status="stopping", previous_status="busy", status_reason="test"
    )


@pytest.mark.django_db(transaction=True)
def test_a_wake_for_an_unknown_key_is_ignored(ticker):
    all_at_once([lambda: wake(["nonsense", "", "slot:x"])])
    ticker._wait_for_notice()

    assert ticker.tick() == set()


# --- Real processes ---


@contextmanager
def tickers(count: int, data_dir: Path) -> Iterator[list[Program]]:
    """Tickers as separate processes, on the test database."""
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
    """Wait until a ticker leads, other than `instead_of`."""
    seen = [""]

    def one_leads() -> bool:
        seen.append(leader())
        return seen[-1] not in ("", instead_of)

    wait_until(one_leads, what="a ticker leads")
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
def test_it_outlives_its_connection_and_hears_a_wake(data_dir):
    with tickers(1, data_dir) as [program]:
        _cut_all_other_connections()
        wait_until(lambda: "lost the database" in program.output, what="it notices")
        who_leads()

        def is_asked_for() -> bool:
            wake(["slot:7"])
            return Lease.objects.filter(key="slot:7", asked_at__isnull=False).exists()

        wait_until(is_asked_for, what="it asks for what was woken")
        assert psutil.pid_exists(program.process.pid)


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_a_slot_that_moves_is_asked_for_sooner_than_the_next_poll(data_dir):
    """Nothing is due for a long time: without its wake, the slot would never be asked for."""
    with tickers(1, data_dir):
        wait_until(lambda: OrmQ.objects.count() == len(WORKS), what="it has begun")
        taken = sorted(_seconds_until_asked_for(slot) for slot in SlotFactory.create_batch(11))
        assert taken[len(taken) // 2] < 0.25, taken


def _seconds_until_asked_for(slot: Slot) -> float:
    begin = time.monotonic()
    _move(slot)
    asked_for = Lease.objects.filter(key=f"slot:{slot.pk}", asked_at__isnull=False)
    while not asked_for.exists():
        assert time.monotonic() - begin < 60
        time.sleep(0.005)
    return time.monotonic() - begin


def _cut_all_other_connections() -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )


def watch_for(seconds: float, holds: Callable[[], object]) -> None:
    """Check again and again that it holds."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        assert holds()
        time.sleep(0.05)
