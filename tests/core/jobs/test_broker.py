"""The task queue in PostgreSQL: one worker takes each task, whatever the hosts' clocks say."""

import threading
import time
from datetime import timedelta

import pytest
from django.db import connection
from django.db.models.functions import Now
from django.utils import timezone
from django_q.brokers import get_broker
from django_q.conf import Conf
from django_q.models import OrmQ

from core.jobs.broker import CHANNEL, DatabaseBroker, announce_tasks
from core.jobs.jobs import ask
from tests.concurrency import all_at_once, at_once
from tests.log_lines import log_lines
from tests.notices import listening

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def broker(monkeypatch):
    monkeypatch.setattr(Conf, "POLL", 0)
    broker = get_broker()
    broker.dequeue()  # begins to listen
    return broker


def test_it_is_the_broker_of_the_tasks(broker):
    assert isinstance(broker, DatabaseBroker)


def test_a_task_is_taken_once_and_gone_when_it_is_acknowledged(broker):
    number = broker.enqueue("a task")
    assert broker.dequeue() == [(number, "a task")]
    assert broker.dequeue() is None
    broker.acknowledge(number)
    assert not OrmQ.objects.exists()


def test_a_task_that_cannot_be_acknowledged_is_only_noted(broker):
    """django-q2's monitor would die of an error, and so would the next one."""
    number = broker.enqueue("a task")
    with connection.cursor() as cursor:
        cursor.execute("SET default_transaction_read_only = on")
    with log_lines() as lines:
        broker.acknowledge(number)
    [line] = lines
    assert line["message"].startswith("Cannot remove a finished task without the database: ")
    assert OrmQ.objects.exists()


def test_tasks_are_taken_in_the_order_in_which_they_came(broker):
    numbers = [broker.enqueue(f"task {n}") for n in range(3)]
    assert [broker.dequeue()[0][0] for _ in numbers] == numbers


@pytest.mark.parametrize("skew", [timedelta(hours=1), timedelta(hours=-1)])
def test_the_clock_of_a_host_does_not_matter(broker, monkeypatch, skew):
    """Sent from a host whose clock is right, taken by one whose clock is wrong, and vice versa."""
    real_now = timezone.now
    sent_rightly = broker.enqueue("sent rightly")
    monkeypatch.setattr(timezone, "now", lambda: real_now() + skew)
    assert broker.dequeue() == [(sent_rightly, "sent rightly")]
    assert broker.queue_size() == 0
    assert broker.lock_size() == 1
    sent_wrongly = broker.enqueue("sent wrongly")
    monkeypatch.setattr(timezone, "now", real_now)
    assert broker.dequeue() == [(sent_wrongly, "sent wrongly")]


def test_a_task_whose_worker_died_is_taken_again_after_a_while(broker):
    number = broker.enqueue("a task")
    broker.dequeue()
    OrmQ.objects.update(lock=Now() - timedelta(seconds=1))
    assert broker.dequeue() == [(number, "a task")]


def test_many_at_once_never_take_the_same_task(broker):
    numbers = [broker.enqueue(f"task {n}") for n in range(40)]

    def take() -> list[int]:
        return [task[0] for _ in range(10) for task in broker.dequeue() or []]

    taken = [number for each in at_once([take] * 8) for number in each]
    assert sorted(taken) == numbers


# --- Waiting for a task ---


def later(job) -> threading.Timer:
    """Call it on another connection while this thread waits."""
    timer = threading.Timer(0.3, lambda: (job(), connection.close()))
    timer.start()
    return timer


def test_an_idle_worker_is_woken_when_a_task_is_announced(broker, monkeypatch):
    monkeypatch.setattr(Conf, "POLL", 100)
    begin = time.monotonic()
    later(announce_tasks)
    assert broker.dequeue() is None
    assert time.monotonic() - begin < 50


def test_an_announcement_that_comes_during_a_poll_is_not_missed(broker, monkeypatch):
    monkeypatch.setattr(Conf, "POLL", 100)
    begin = time.monotonic()
    all_at_once([announce_tasks])
    assert broker.dequeue() is None
    assert time.monotonic() - begin < 50


def test_it_listens_again_on_a_new_connection(broker, monkeypatch):
    monkeypatch.setattr(Conf, "POLL", 100)
    connection.close()
    begin = time.monotonic()
    assert broker.dequeue() is None
    all_at_once([announce_tasks])
    assert broker.dequeue() is None
    assert time.monotonic() - begin < 50


def test_without_an_announcement_it_polls(broker, monkeypatch):
    monkeypatch.setattr(Conf, "POLL", 0.1)
    later(lambda: broker.enqueue("a task"))
    deadline = time.monotonic() + 60
    while not (tasks := broker.dequeue()):
        assert time.monotonic() < deadline
    assert tasks[0][1] == "a task"


def test_all_tasks_that_are_asked_for_together_are_announced_once(broker):
    with listening(CHANNEL) as notices:
        ask(["slot:1", "slot:2"])
        assert notices() == [""]
        ask(["slot:1"])
        assert notices() == []
