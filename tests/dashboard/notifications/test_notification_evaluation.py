"""From rows to messages: conditions, grouping and limits."""

from datetime import UTC, datetime, timedelta
from importlib import import_module

import pytest
from django.apps import apps
from django.db.models.functions import Now

from bots.moves import Outcome
from bots.status import BotStatus, FailureCause, Platform
from core.clock import database_now
from dashboard.notifications.conditions import Seen, conditions_now, note_conditions
from dashboard.notifications.evaluation import evaluate, run_notifications
from dashboard.notifications.records import Condition, Message, Notice, NotificationRule
from dashboard.overview.codes import AttentionCode, severity_of
from pool.lifecycle import end_bot
from slots.models import Finding, Pool
from tests.dashboard.notifications.conftest import make_channel, make_rule
from tests.factories import BotFactory, QueueEntryFactory, SlotFactory

pytestmark = pytest.mark.django_db

URL = "https://app.example/hook"
HELD_BACK = {"kind": "too_many", "subject": "batch:zoom", "reason": "3 of 8"}


def seen(code="lease_held", *, subject="a", words="words"):
    return Seen(code=code, platform="", subject=subject, words=words, link="/")


def a_while_ago(minutes=10):
    """Move all that happened back in time."""
    ago = timedelta(minutes=minutes)
    for condition in Condition.objects.all():
        Condition.objects.filter(pk=condition.pk).update(
            first_seen_at=condition.first_seen_at - ago, last_seen_at=condition.last_seen_at - ago
        )
    for message in Message.objects.all():
        Message.objects.filter(pk=message.pk).update(created_at=message.created_at - ago)


def all_sent():
    Message.objects.update(status="sent", due_at=None, ended_at=Now())


def messages():
    return list(Message.objects.order_by("pk").values_list("title", flat=True))


# --- Conditions ---


def test_every_entry_of_the_overview_is_a_condition_with_a_code(settings):
    settings.MAX_POOL_SIZES = dict.fromkeys(Platform, 2)
    SlotFactory(platform=Platform.TEAMS, cordoned=True, quarantined=True)
    Finding.objects.create(**HELD_BACK)
    Pool.objects.create(platform="zoom", paused_at=Now(), paused_by="ada", pause_reason="test")
    evaluate()
    found = {(each.code, each.platform) for each in Condition.objects.all()}
    assert ("slot_quarantined", "teams") in found
    assert ("repairs_held_back", "") in found
    assert ("platform_paused", "zoom") in found
    assert {code for code, _ in found} <= set(AttentionCode.values)


def test_a_platform_whose_bots_fail_is_a_condition():
    end_bots(6, BotStatus.CANCELLED)  # they say nothing
    end_bots(2, BotStatus.FAILED)
    assert "bots_failing" not in codes()
    end_bots(1, BotStatus.FAILED)
    assert "bots_failing" in codes()


def end_bots(number, status):
    for bot in BotFactory.create_batch(number, platform=Platform.ZOOM):
        cause = FailureCause.UNKNOWN if status == BotStatus.FAILED else None
        end_bot(bot, Outcome(status, "test", "test", cause))


def test_a_bot_that_waits_for_long_is_a_condition(settings):
    entry = QueueEntryFactory(bot__platform=Platform.ZOOM)
    settings.NOTIFY_QUEUE_WAIT = timedelta(hours=1)
    assert "queue_slow" not in codes()
    settings.NOTIFY_QUEUE_WAIT = timedelta(0)
    entry.bot.refresh_from_db()
    assert "queue_slow" in codes()


def codes():
    return {each.code for each in conditions_now(now=database_now())}


def test_a_condition_is_the_same_while_its_words_change():
    note_conditions([seen(words="1 slot")], now=moment(0))
    note_conditions([seen(words="2 slots")], now=moment(1))
    [row] = Condition.objects.all()
    assert (row.words, row.first_seen_at) == ("2 slots", moment(0))


def test_a_condition_that_flickers_is_one_condition():
    note_conditions([seen()], now=moment(0))
    note_conditions([], now=moment(0.5))
    assert Condition.objects.get().resolved_at is None
    note_conditions([seen()], now=moment(1))
    note_conditions([], now=moment(2))
    assert Condition.objects.get().resolved_at == moment(2)


def test_a_condition_that_comes_back_is_a_new_one():
    note_conditions([seen()], now=moment(0))
    note_conditions([], now=moment(5))
    note_conditions([seen()], now=moment(6))
    assert Condition.objects.count() == 2


def moment(minutes):
    return datetime(2026, 6, 1, 12, tzinfo=UTC) + timedelta(minutes=minutes)


# --- Messages ---


def test_nothing_is_written_without_a_channel():
    Finding.objects.create(**HELD_BACK)
    make_rule()
    evaluate()
    assert messages() == []
    assert Condition.objects.exists()


def test_the_default_rules_need_only_a_channel():
    NotificationRule.objects.all().delete()
    import_module("botpool.migrations.0008_default_notification_rules").make_default_rules(
        apps, None
    )
    make_channel(URL)
    Finding.objects.create(**HELD_BACK)
    evaluate()
    assert messages() == []
    a_while_ago()
    evaluate()
    assert "Repairs are held back" in Message.objects.get().body


def test_what_comes_together_is_one_message_for_each_channel():
    make_rule(codes=["slot_quarantined"])
    make_channel(URL, name="one")
    make_channel(URL, name="two")
    SlotFactory.create_batch(7, platform=Platform.TEAMS, cordoned=True, quarantined=True)
    evaluate()
    assert messages() == ["Botpool: 7 things need attention"] * 2


def test_a_storm_is_one_message_a_minute_and_loses_nothing():
    make_rule(codes=["slot_quarantined"])
    make_channel(URL)
    for _ in range(5):
        SlotFactory(platform=Platform.TEAMS, cordoned=True, quarantined=True)
        evaluate()
        all_sent()
    assert len(messages()) == 1
    a_while_ago(minutes=2)
    evaluate()
    assert messages()[1] == "Botpool: 4 things need attention"
    assert Notice.objects.count() == 5


def test_no_second_message_is_written_while_one_is_on_its_way():
    make_rule()
    make_channel(URL)
    Finding.objects.create(**HELD_BACK)
    evaluate()
    a_while_ago()
    SlotFactory(platform=Platform.TEAMS, cordoned=True, quarantined=True)
    evaluate()
    assert len(messages()) == 1


def test_a_channel_that_fails_rests_before_its_next_message():
    make_rule()
    channel = make_channel(URL, failures=5, failing_since=Now())
    Message.objects.create(
        channel=channel, title="before", body="", status="failed", due_at=None, ended_at=Now()
    )
    a_while_ago()
    Finding.objects.create(**HELD_BACK)
    evaluate()
    assert messages() == ["before"]
    Message.objects.update(ended_at=Now() - timedelta(hours=1))
    evaluate()
    assert len(messages()) == 2


def test_its_end_is_told(receiver):
    make_rule(codes=["repairs_held_back"])
    make_channel(receiver.url)
    finding = Finding.objects.create(**HELD_BACK)
    run_notifications()
    Finding.objects.filter(pk=finding.pk).update(ended_at=Now())
    a_while_ago(minutes=2)
    run_notifications()
    assert [each["items"][0]["news"] for each in receiver.messages] == ["new", "resolved"]
    a_while_ago(minutes=2)
    run_notifications()
    assert len(receiver.got) == 2


def test_a_channel_that_fails_is_told_through_the_others():
    make_rule(codes=["channel_failing"])
    make_channel(URL, name="broken", failing_since=Now(), failures=1, last_error="HTTP 500")
    make_channel(URL, name="works")
    evaluate()
    told = Message.objects.get(channel__name="works")
    assert told.title == "Botpool, Notifications to broken fail: HTTP 500"


def test_urgent_is_what_stops_bots():
    assert severity_of("coolify_away") == "urgent"
    assert severity_of("slots_in_error") == "warning"
    assert severity_of("platform_paused") == "info"
