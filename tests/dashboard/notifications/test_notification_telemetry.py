"""Metrics, the doctor and retention of notifications."""

from datetime import timedelta

import pytest
from django.db.models.functions import Now

from botpool.telemetry.counter import TallyMark
from botpool.telemetry.doctor import _notifications
from botpool.telemetry.retention import prune
from dashboard.notifications.records import Condition, Message, Notice
from tests.dashboard.notifications.conftest import make_channel

pytestmark = pytest.mark.django_db

URL = "https://app.example/hook"


def test_old_messages_and_conditions_are_deleted_once_they_are_counted():
    channel, old = make_channel(URL), Now() - timedelta(days=31)
    message = Message.objects.create(
        channel=channel, title="x", body="x", status="sent", due_at=None, ended_at=old
    )
    times = {"first_seen_at": old, "last_seen_at": old}
    over = Condition.objects.create(code="a", words="x", link="/", resolved_at=old, **times)
    lasting = Condition.objects.create(code="b", words="x", link="/", **times)
    for condition in (over, lasting):
        Notice.objects.create(
            condition=condition, channel=channel, message=message, said="open", at=old
        )
    list(prune())
    assert Message.objects.exists()  # not counted yet
    assert Condition.objects.get() == lasting
    TallyMark.objects.create(source="notifications", counted_until=Now())
    list(prune())
    assert not Message.objects.exists()
    assert Notice.objects.get().condition == lasting


def test_the_doctor_names_a_channel_that_fails():
    assert _notifications().healthy
    make_channel(URL, failing_since=Now(), failures=1, last_error="HTTP 500")
    found = _notifications()
    assert not found.healthy
    assert "ops: HTTP 500" in repr(found)


def test_sent_and_failed_messages_are_counted(client):
    text = client.get("/metrics").text
    assert 'botpool_notifications_total{result="sent"} 0.0' in text
    assert 'botpool_notifications_total{result="failed"} 0.0' in text
