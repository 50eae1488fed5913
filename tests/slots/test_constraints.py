"""The database refuses invalid states."""

import pytest
from django.db import IntegrityError, connection, transaction
from django.db.utils import DatabaseError

from bots.models import Bot, BotEvent
from bots.status import MOVES as BOT_MOVES
from bots.status import BotStatus, Platform
from queues.models import QueueEntry
from slots.deployment import Deployment
from slots.models import Slot, SlotTransition
from slots.status import MOVES as SLOT_MOVES
from slots.status import SlotStatus
from tests.factories import BotFactory, QueueEntryFactory, SlotFactory

pytestmark = pytest.mark.django_db


def refused(rule, write):
    with pytest.raises(IntegrityError, match=rule), transaction.atomic():
        write()


def test_two_slots_of_one_name():
    SlotFactory(number=1, name="same")
    refused("slot_name_is_unique", lambda: SlotFactory(number=2, name="same"))


def test_two_slots_of_one_number_in_a_platform():
    SlotFactory(number=1, name="a")
    refused("slot_number_is_unique", lambda: SlotFactory(number=1, name="b", coolify_uuid="x"))


def test_two_slots_with_one_application():
    SlotFactory(coolify_uuid="app")
    refused("slot_owns_its_application", lambda: SlotFactory(coolify_uuid="app"))


def test_many_slots_without_an_application_are_fine():
    SlotFactory(coolify_uuid="")
    SlotFactory(coolify_uuid="")


def test_one_bot_in_two_slots():
    bot = BotFactory()
    SlotFactory(status="deploying", assigned_bot=bot)
    refused("assigned_bot_id", lambda: SlotFactory(status="deploying", assigned_bot=bot))


@pytest.mark.parametrize("status", ["deploying", "busy"])
def test_a_held_slot_without_a_bot(status):
    slot = SlotFactory()
    held = Slot.objects.filter(pk=slot.pk)
    refused("slot_", lambda: held.update(status=status, previous_status="deploying"))


@pytest.mark.parametrize("status", ["idle", "stopping", "error"])
def test_a_bot_in_a_slot_that_is_not_held(status):
    slot = SlotFactory(status="deploying", assigned_bot=BotFactory())
    moved = Slot.objects.filter(pk=slot.pk)
    refused("slot_", lambda: moved.update(status=status, previous_status="deploying", error="x"))


def test_a_bot_of_another_platform():
    zoom = BotFactory(platform=Platform.ZOOM)
    refused(
        "slot_holds_a_bot_of_its_own_platform",
        lambda: SlotFactory(status="deploying", assigned_bot=zoom),
    )


def test_a_slot_in_error_without_a_reason():
    slot = SlotFactory()
    moved = Slot.objects.filter(pk=slot.pk)
    refused("slot_in_error_says_why", lambda: moved.update(status="error", previous_status="idle"))


def test_every_slot_move_that_is_not_in_the_table():
    for before in SlotStatus:
        for after in set(SlotStatus) - set(SLOT_MOVES[before]):
            refused("slot_", lambda b=before, a=after: _slot_that_moved(b, a))


def test_every_slot_move_in_the_table_is_possible():
    for before, afters in SLOT_MOVES.items():
        for after in afters:
            _slot_that_moved(before, after)


def _slot_that_moved(before, after):
    held = after in ("deploying", "busy")
    SlotFactory(
        status=after,
        previous_status=before,
        assigned_bot=BotFactory() if held else None,
        error="why" if after == "error" else "",
    )


def test_every_bot_move_that_is_not_in_the_table():
    for before in BotStatus:
        for after in set(BotStatus) - set(BOT_MOVES[before]):
            refused("bot_move_is_allowed", lambda b=before, a=after: _bot_that_moved(b, a))


def test_every_bot_move_in_the_table_is_possible():
    for before, afters in BOT_MOVES.items():
        for after in afters:
            _bot_that_moved(before, after)


def _bot_that_moved(before, after):
    ended = after in ("DONE", "FAILED", "CANCELLED")
    failed = after == "FAILED"
    BotFactory(
        status=after,
        previous_status=before,
        ended_at="2026-01-01T00:00Z" if ended else None,
        failure_kind="meeting" if failed else "",
        failure_cause="reported_by_bot" if failed else "",
        failure_reason="why" if failed else "",
    )


def test_a_bot_that_failed_for_no_reason():
    bot = Bot.objects.filter(pk=BotFactory().pk)
    end = {"previous_status": "PENDING", "status": "FAILED", "ended_at": "2026-01-01T00:00Z"}
    refused("bot_failed_if_and_only_if_it_says_why", lambda: bot.update(**end))


def test_two_queue_entries_of_one_bot():
    entry = QueueEntryFactory()
    refused("bot_id", lambda: QueueEntryFactory(bot=entry.bot))


def test_two_active_deployments_of_one_slot():
    slot = SlotFactory()
    deployment(slot)
    refused("one_active_deployment_per_slot", lambda: deployment(slot))


def test_two_pullers_of_one_image_on_a_server():
    deployment(SlotFactory(), pulling=True)
    refused("one_puller_per_image_and_server", lambda: deployment(SlotFactory(), pulling=True))


def test_pullers_of_one_image_on_two_servers_are_fine():
    deployment(SlotFactory(), pulling=True)
    deployment(SlotFactory(), pulling=True, server_uuid="other")


def deployment(slot, **fields):
    about = {"image": "bot:1", "server_uuid": "server-1", **fields}
    return Deployment.objects.create(slot=slot, bot=BotFactory(), epoch=1, **about)


@pytest.mark.parametrize("history", [BotEvent, SlotTransition])
def test_history_is_never_changed(history):
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_trigger WHERE tgname = %s",
            [f"{history._meta.db_table}_is_append_only"],
        )
        assert cursor.fetchone()[0] == 1
    bot = BotFactory()
    if history is BotEvent:
        row = bot.events.create(to_status="PENDING", reason="r", actor="a", correlation_id="c")
    else:
        row = SlotFactory().transitions.create(to_status="idle", reason="r", actor="a", epoch=0)
    with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
        history.objects.filter(pk=row.pk).update(reason="another")


def test_a_bot_that_holds_a_slot_cannot_be_deleted():
    bot = BotFactory()
    SlotFactory(status="deploying", assigned_bot=bot)
    with pytest.raises(IntegrityError), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("DELETE FROM bots_bot WHERE id = %s", [bot.pk])
    assert QueueEntry.objects.count() == 0
