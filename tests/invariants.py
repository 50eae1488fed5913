"""The rules of the pool as queries, each of which finds the rows that break it."""

from itertools import pairwise

from django.conf import settings
from django.db import connection, transaction
from django.db.models import Count, F, Q

from bots.models import Bot, BotEvent
from bots.status import HOLDS_SLOT, RUNNING, TERMINAL, BotStatus
from queues.models import QueueEntry
from slots.models import Slot, SlotTransition
from slots.status import HELD, SlotStatus


def broken_rules() -> list[str]:
    """Check all rules in one database snapshot: bots may change meanwhile."""
    with transaction.atomic():
        if len(connection.atomic_blocks) == 1:
            with connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        return [*_bots(), *_slots(), *_queue(), *_slot_history(), *_bot_history()]


def _say(rule, rows):
    return [f"{rule}: {row}" for row in rows]


def _bots():
    yield from _say(
        "a bot that ended holds a slot", Bot.objects.filter(status__in=TERMINAL, slot__isnull=False)
    )
    yield from _say(
        "a bot that should hold a slot has none",
        Bot.objects.filter(status__in=HOLDS_SLOT, slot__isnull=True),
    )
    yield from _say(
        "a bot that waits holds a slot",
        Bot.objects.filter(status__in=(BotStatus.PENDING, BotStatus.QUEUED), slot__isnull=False),
    )


def _slots():
    yield from _say(
        "a slot is deploying although its bot runs or has ended",
        Slot.objects.filter(status=SlotStatus.DEPLOYING).exclude(
            assigned_bot__status=BotStatus.DEPLOYING
        ),
    )
    yield from _say(
        "a slot is busy although its bot does not run",
        Slot.objects.filter(status=SlotStatus.BUSY).exclude(assigned_bot__status__in=RUNNING),
    )
    yield from _say(
        "a slot holds a bot of a different platform",
        Slot.objects.filter(status__in=HELD).exclude(assigned_bot__platform=F("platform")),
    )
    for row in Slot.objects.values("platform").annotate(slots=Count("id")):
        if row["slots"] > settings.MAX_POOL_SIZES[row["platform"]]:
            yield f"a pool is larger than its maximum: {row}"


def _queue():
    yield from _say(
        "a bot is in the queue and not QUEUED",
        QueueEntry.objects.exclude(bot__status=BotStatus.QUEUED),
    )
    yield from _say(
        "a bot is QUEUED and not in the queue",
        Bot.objects.filter(status=BotStatus.QUEUED, queue_entry__isnull=True),
    )


def _slot_history():
    for slot in Slot.objects.prefetch_related("transitions"):
        history = sorted(slot.transitions.all(), key=lambda t: t.pk)
        if not history:
            if slot.epoch:
                yield f"a slot changed and has no history: {slot}"
            continue
        last = history[-1]
        if last.to_status != slot.status or last.epoch != slot.epoch:
            yield f"a slot's history does not end in its status: {slot} {slot.status} {last}"
        for before, after in pairwise(history):
            if before.to_status != after.from_status:
                yield f"a slot's history has a gap: {before} then {after}"
            if after.epoch < before.epoch:
                yield f"an epoch decreased: {before.epoch} then {after.epoch} in {slot}"
    yield from _say(
        "two bots in one epoch of a slot",
        SlotTransition.objects.filter(to_status__in=HELD)
        .values("slot_id", "epoch")
        .annotate(bots=Count("bot_id", distinct=True))
        .filter(bots__gt=1),
    )


def _bot_history():
    for bot in Bot.objects.exclude(events=None).prefetch_related("events"):
        history = sorted(bot.events.all(), key=lambda e: e.pk)
        if history[-1].to_status != bot.status:
            yield f"a bot's history does not end in its status: {bot} {bot.status} {history[-1]}"
        for before, after in pairwise(history):
            if before.to_status != after.from_status:
                yield f"a bot's history has a gap: {before} then {after}"
    yield from _say(
        "a bot ended more than once",
        BotEvent.objects.values("bot_id")
        .annotate(ends=Count("id", filter=Q(to_status__in=TERMINAL)))
        .filter(ends__gt=1),
    )
