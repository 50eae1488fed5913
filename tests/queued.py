"""Helpers for tests of the queue: request bots, free slots, let time pass."""

from datetime import timedelta

from django.db import connection

from bots.models import Bot
from bots.moves import Outcome
from bots.status import BotStatus, Platform
from pool.lifecycle import confirm_slot_stopped, get_slot_for_bot, release_bot_from_slot
from pool.request import BotRequest, request_bot
from queues.models import QueueEntry
from slots.models import Slot, SlotTransition

ADDRESS = "https://meet.google.com/abc-defg-hij"


def ask(platform=Platform.GOOGLE_MEET, **changes):
    """Request a bot as a client does."""
    request = BotRequest(meeting_url=ADDRESS, platform=platform, **changes)
    return request_bot(request, actor="test")


def pool_of(settings, size, *platforms):
    """Set the size of the named pools, or of all; the other pools get size 0."""
    sizes = dict.fromkeys(platforms or Platform.values, size)
    settings.MAX_POOL_SIZES = {**dict.fromkeys(Platform.values, 0), **sizes}


def leave(bot):
    """Cancel the bot and confirm the stop of its slot."""
    give_up = Outcome(BotStatus.CANCELLED, "Not needed any more", "test")
    slot = get_slot_for_bot(bot)
    assert release_bot_from_slot(slot, give_up)
    slot.refresh_from_db()
    assert confirm_slot_stopped(slot, reason="Container gone", actor="test")


def status_of(bot):
    return Bot.objects.get(pk=bot.pk).status


def statuses(*bots):
    return [status_of(bot) for bot in bots]


def line(platform=Platform.GOOGLE_MEET):
    """The waiting bots, in order."""
    entries = QueueEntry.objects.filter(platform=platform).order_by("turn", "id")
    return [entry.bot for entry in entries.select_related("bot")]


def served_in_order():
    """The ids of all bots that got a slot, in order of assignment."""
    given = SlotTransition.objects.filter(to_status="deploying").order_by("id")
    return list(given.values_list("bot_id", flat=True))


def time_passes(bot, **how_much):
    """Move a waiting bot's times back, as if it had waited longer."""
    ago = timedelta(**how_much)
    bot.refresh_from_db()
    entry = QueueEntry.objects.get(bot=bot)
    entry.queued_at -= ago
    entry.timeout_at -= ago
    entry.save(update_fields=["queued_at", "timeout_at"])
    Bot.objects.filter(pk=bot.pk).update(
        created_at=bot.created_at - ago,
        queued_at=bot.queued_at - ago,
        status_since=bot.status_since - ago,
    )
    bot.refresh_from_db()


def free_slots():
    return Slot.objects.filter(status="idle").count()


_MANY_BOTS = """
INSERT INTO bots_bot (
    correlation_id, platform, meeting_url, display_name, config, priority, queue_timeout,
    status, previous_status, failure_reason, failure_kind,
    placements, slot_name, coolify_service_uuid, queued_at, created_at
)
SELECT
    'many', 'google-meet', %(address)s, 'Notetaker', '{}', (n * 7) %% 5, '10 min',
    'QUEUED', 'PENDING', '', '', 0, '', '', now(), now() + n * interval '1 us'
FROM generate_series(1, %(count)s) AS n
"""

_MANY_ENTRIES = """
INSERT INTO queues_queueentry (bot_id, platform, priority, queued_at, timeout_at, ageing)
SELECT id, platform, priority, created_at, now() + queue_timeout, '2 s' FROM bots_bot
WHERE correlation_id = 'many'
"""


def many_wait(count):
    """Queue many bots with two SQL statements, as that many requests would."""
    with connection.cursor() as cursor:
        cursor.execute(_MANY_BOTS, {"count": count, "address": ADDRESS})
        cursor.execute(_MANY_ENTRIES)
