"""The two lanes of the task queue, with PostgreSQL and with Redis as the broker."""

from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.db import connection, transaction
from django.db.models.functions import Now
from django_q.brokers import get_broker
from django_q.conf import Conf
from django_q.models import OrmQ
from django_q.signing import SignedPackage

from core.jobs import jobs
from core.jobs.broker import calls_in_flight
from core.jobs.jobs import Work, ask
from core.leases import HeldLease, Lease, acquire_lease
from tests.concurrency import at_once
from tests.ops.neighbours import redis

pytestmark = pytest.mark.django_db(transaction=True)

NAME, SLOTS = "test work", [f"slot:{number}" for number in range(1, 6)]
LONG = timedelta(minutes=1)


def do_nothing(*arguments: object) -> None:
    pass


def fail(number: int, lease: HeldLease) -> None:
    raise ValueError("no such luck")


@pytest.fixture(scope="module")
def redis_url() -> Iterator[str]:
    with redis() as url:
        yield url


@pytest.fixture(autouse=True)
def known(monkeypatch, settings) -> None:
    work = Work(name=NAME, function=f"{__name__}.do_nothing", interval="POLL_INTERVAL")
    monkeypatch.setattr("botpool.schedule.WORKS", (work,))
    settings.JOB_HANDLERS = {"slot": f"{__name__}.do_nothing"}
    settings.COOLIFY_CONCURRENCY, settings.WORKERS = 2, 10


@pytest.fixture(params=["PostgreSQL", "Redis"])
def broker(request, monkeypatch, settings):
    """The broker that a node takes its tasks from."""
    monkeypatch.setattr(Conf, "POLL", 0.01)
    monkeypatch.setattr("core.jobs.broker.PAUSE_WITHOUT_DATABASE", 0.0)
    if request.param == "Redis":
        settings.REDIS_URL = request.getfixturevalue("redis_url")
        monkeypatch.setattr(Conf, "REDIS", settings.REDIS_URL)
        monkeypatch.setattr(Conf, "BROKER_CLASS", "core.jobs.redis.RedisBroker")
        monkeypatch.setattr("core.jobs.redis.POLL", 0.01)
    broker = get_broker()
    if request.param == "Redis":
        broker.connection.flushall()
    return broker


def take(broker) -> str | None:
    """The key of the next task. The first call may only begin to listen."""
    for _ in range(2):
        if tasks := broker.dequeue():
            [(_, task)] = tasks
            return str(SignedPackage.loads(task)["args"][0])
    return None


def take_all(broker) -> list[str]:
    return list(iter(lambda: take(broker), None))


# --- Which task is next ---


def test_tasks_are_taken_in_the_order_in_which_they_were_asked_for(broker, settings):
    settings.COOLIFY_CONCURRENCY = 5
    for key in SLOTS:
        ask([key])
    assert take_all(broker) == SLOTS


def test_periodic_work_is_taken_before_slots(broker):
    ask(["slot:1"])
    ask([NAME])
    assert take_all(broker) == [NAME, "slot:1"]


def test_it_counts_the_waiting_tasks_of_both_lanes(broker):
    ask([NAME, *SLOTS])
    assert broker.queue_size() == 6
    take(broker)
    assert broker.queue_size() == 5


def test_a_task_is_taken_only_after_the_transaction_that_asks_for_it(broker):
    with transaction.atomic():
        ask(["slot:1"])
        assert at_once([lambda: take(broker)]) == [None]
    assert take(broker) == "slot:1"


def test_a_task_whose_transaction_is_rolled_back_is_never_taken(broker):
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        ask(["slot:1"])
        raise ZeroDivisionError
    assert take(broker) is None


# --- The limit ---


def test_a_node_takes_no_more_slots_than_it_may_work_on_at_once(broker):
    ask(SLOTS)
    assert take_all(broker) == SLOTS[:2]


def test_periodic_work_is_served_while_the_lane_of_the_slots_is_full(broker):
    ask(SLOTS)
    take_all(broker)
    ask([NAME])
    assert take(broker) == NAME


def test_slots_that_are_worked_on_keep_their_places(broker):
    ask(SLOTS)
    for key in take_all(broker):
        acquire_lease(key, ttl=LONG, if_asked=True)
    assert take(broker) is None


def test_a_slot_that_is_done_makes_room(broker):
    ask(SLOTS)
    take_all(broker)
    assert jobs.run("slot:1")
    assert take_all(broker) == ["slot:3"]


def test_a_slot_that_failed_makes_room(broker, settings):
    settings.JOB_HANDLERS = {"slot": f"{__name__}.fail"}
    ask(SLOTS)
    take_all(broker)
    with pytest.raises(ValueError, match="no such luck"):
        jobs.run("slot:1")
    assert take_all(broker) == ["slot:3"]


def test_a_slot_that_is_done_and_asked_for_again_makes_room(broker):
    ask(SLOTS)
    take_all(broker)
    jobs.run("slot:1")
    ask(["slot:1"])
    assert take_all(broker) == ["slot:3"]


def test_a_slot_whose_worker_was_killed_makes_room_once_its_lease_expires(broker):
    ask(SLOTS)
    take_all(broker)
    acquire_lease("slot:1", ttl=LONG, if_asked=True)
    Lease.objects.filter(key="slot:1").update(expires_at=Now())
    assert take_all(broker) == ["slot:3"]


def test_each_node_has_its_own_limit(broker):
    ask(SLOTS)
    take_all(broker)
    assert take_all(get_broker()) == SLOTS[2:4]


@pytest.mark.parametrize(
    ("concurrency", "workers", "expected"),
    [(8, 10, 8), (8, 8, 7), (8, 4, 3), (1, 66, 1), (8, 2, 1), (8, 1, 1)],
)
def test_calls_in_flight_leave_one_worker_to_periodic_work(
    settings, concurrency, workers, expected
):
    settings.COOLIFY_CONCURRENCY, settings.WORKERS = concurrency, workers
    assert calls_in_flight() == expected


# --- Lost tasks ---


@pytest.mark.parametrize("key", [NAME, "slot:1"])
def test_a_task_that_was_taken_and_lost_is_queued_again(broker, key):
    ask([key])
    assert take(broker) == key
    Lease.objects.update(due_at=Now())
    assert ask([key]) == {key}
    assert take_all(broker) == [key]


@pytest.mark.parametrize("key", [NAME, "slot:1"])
def test_a_task_that_still_waits_is_not_queued_again(broker, key):
    ask([key])
    Lease.objects.update(due_at=Now())
    assert ask([key]) == set()
    assert broker.queue_size() == 1


@pytest.mark.parametrize("key", [NAME, "slot:1"])
def test_the_task_of_a_run_that_died_is_withdrawn(broker, key):
    ask([key])
    acquire_lease(key, ttl=LONG, if_asked=True)
    Lease.objects.update(expires_at=Now())
    assert ask([key]) == {key}
    assert broker.queue_size() == 1


# --- Without the database ---


def cut_this_connection() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        [pid] = cursor.fetchone()

    def cut() -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_terminate_backend(%s)", [pid])

    assert at_once([cut]) == [None]


def test_a_node_outlives_a_lost_connection_to_the_database(broker):
    ask(SLOTS)
    take_all(broker)  # the lane is now full, so the leases are read
    cut_this_connection()
    assert broker.dequeue() is None
    ask([NAME])
    assert take(broker) == NAME


def test_a_node_waits_while_the_database_is_away(broker, monkeypatch):
    ask(SLOTS)
    taken = take_all(broker)
    connection.close()
    with monkeypatch.context() as away:
        away.setitem(connection.settings_dict, "PORT", "1")
        assert broker.dequeue() is None
    jobs.run(taken[0])
    assert take(broker) == "slot:3"


def test_with_redis_no_task_is_in_the_database(broker, settings):
    ask([NAME, "slot:1"])
    assert OrmQ.objects.count() == (0 if settings.REDIS_URL else 2)
