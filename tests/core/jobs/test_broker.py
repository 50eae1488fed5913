"""The task queue in PostgreSQL: each task to one worker, whatever the clocks of the hosts say."""

from datetime import timedelta

import pytest
from django.db.models.functions import Now
from django.utils import timezone
from django_q.brokers import get_broker
from django_q.conf import Conf
from django_q.models import OrmQ

from core.jobs.broker import DatabaseBroker
from tests.concurrency import at_once

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def broker(monkeypatch):
    monkeypatch.setattr(Conf, "POLL", 0)
    return get_broker()


def test_it_is_the_broker_of_the_tasks(broker):
    assert isinstance(broker, DatabaseBroker)


def test_a_task_is_taken_once_and_gone_when_it_is_acknowledged(broker):
    number = broker.enqueue("a task")
    assert broker.dequeue() == [(number, "a task")]
    assert broker.dequeue() is None
    broker.acknowledge(number)
    assert not OrmQ.objects.exists()


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
