"""One pass: note which conditions hold, write the messages that are due, then send them.

The decision and its record commit together, under a lock, before anything is sent: two passes at
once write one message, and a pass that is killed loses none.
"""

from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Q, QuerySet

from core.clock import database_now
from core.locks import advisory_lock
from dashboard.notifications.conditions import conditions_now, note_conditions
from dashboard.notifications.records import (
    Condition,
    Message,
    Notice,
    NotificationChannel,
    NotificationRule,
)
from dashboard.notifications.rules import Item, News, due_items
from dashboard.notifications.sending import pause_after, send_due
from dashboard.notifications.wording import body_of, facts_of, title_of

EVALUATE = "evaluate notifications"
BETWEEN_MESSAGES = timedelta(minutes=1)
# What was resolved longer ago is no news.
RESOLVED_IS_NEWS_FOR = timedelta(days=1)


def run_notifications() -> int:
    """Periodic work; returns how many messages were tried."""
    evaluate()
    return send_due()


@transaction.atomic
def evaluate() -> None:
    advisory_lock(EVALUATE)
    now = database_now()
    note_conditions(conditions_now(now=now), now=now)
    rules = list(NotificationRule.objects.filter(enabled=True))
    for channel in _free_channels(now):
        _write_message(channel, rules, now)


def _free_channels(now: datetime) -> list[NotificationChannel]:
    """Those that may get a message: at most one a minute, and none while one is on its way. What
    happens until then goes into the next one."""
    busy = Q(status=Message.Status.WAITING) | Q(created_at__gt=now - BETWEEN_MESSAGES)
    notices = Message.objects.filter(busy, kind=Message.Kind.NOTICE)
    enabled = NotificationChannel.objects.filter(enabled=True)
    free = enabled.exclude(pk__in=notices.values("channel_id")).order_by("pk")
    return [channel for channel in free if not _rests(channel, now)]


def _rests(channel: NotificationChannel, now: datetime) -> bool:
    """A channel that fails gets its next message after a pause that grows."""
    last = Message.objects.filter(channel=channel, ended_at__isnull=False).order_by("-pk").first()
    if not channel.failures or last is None or last.ended_at is None:
        return False
    return now - last.ended_at < pause_after(channel.failures)


def _write_message(
    channel: NotificationChannel, rules: list[NotificationRule], now: datetime
) -> None:
    told = {each.condition_id: each for each in _notices(channel, now)}
    known = Condition.objects.filter(Q(resolved_at=None) | Q(pk__in=list(told)))
    conditions = known.order_by("first_seen_at", "pk")
    items = list(
        due_items(conditions=conditions, told=told, rules=rules, channel_id=channel.pk, now=now)
    )
    if items:
        message = Message.objects.create(
            channel=channel, title=title_of(items), body=body_of(items), items=facts_of(items)
        )
        for item in items:
            _remember(item, message, now)


def _notices(channel: NotificationChannel, now: datetime) -> QuerySet[Notice]:
    recent = Q(condition__resolved_at=None) | Q(
        condition__resolved_at__gt=now - RESOLVED_IS_NEWS_FOR, said=Notice.Said.OPEN
    )
    return Notice.objects.filter(recent, channel=channel)


def _remember(item: Item, message: Message, now: datetime) -> None:
    said = Notice.Said.RESOLVED if item.news == News.RESOLVED else Notice.Said.OPEN
    Notice.objects.update_or_create(
        condition=item.condition,
        channel_id=message.channel_id,
        defaults={"message": message, "said": said, "at": now},
    )
