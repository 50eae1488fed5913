"""Two passes at once, on two connections."""

import threading

import pytest

from dashboard.notifications import evaluation, sending
from dashboard.notifications.evaluation import run_notifications
from dashboard.notifications.records import Message, Notice
from slots.models import Finding
from tests.concurrency import all_at_once, at_once
from tests.dashboard.notifications.conftest import make_channel, make_rule

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def one_thing(receiver):
    make_rule(codes=["repairs_held_back"])
    make_channel(receiver.url)
    Finding.objects.create(kind="too_many", subject="batch:zoom", reason="3 of 8")
    return receiver


def test_passes_at_once_send_once(one_thing):
    results = at_once([run_notifications] * 4)
    assert sorted(results) == [0, 0, 0, 1]
    assert len(one_thing.got) == Message.objects.count() == Notice.objects.count() == 1


def test_without_the_lock_passes_at_once_collide(one_thing, monkeypatch):
    """Proves that the race happens: the constraints of the tables stop what the lock would."""
    both_decided = threading.Barrier(2, timeout=30)
    monkeypatch.setattr(evaluation, "advisory_lock", lambda _: None)
    decide = evaluation.conditions_now

    def decide_together(**given):
        found = decide(**given)
        both_decided.wait()
        return found

    monkeypatch.setattr(evaluation, "conditions_now", decide_together)
    results = at_once([evaluation.evaluate] * 2)
    assert [type(each).__name__ for each in results].count("IntegrityError") == 1


def test_without_the_claim_passes_at_once_send_twice(one_thing, monkeypatch):
    evaluation.evaluate()
    both_have_it = threading.Barrier(2, timeout=30)

    def take_without_a_claim():
        found = list(Message.objects.select_related("channel"))
        both_have_it.wait()
        return found

    monkeypatch.setattr(sending, "_claim", take_without_a_claim)
    all_at_once([sending.send_due] * 2)
    assert len(one_thing.got) == 2
