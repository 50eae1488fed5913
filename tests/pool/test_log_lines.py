"""The log lines about a slot's life: each with what an operator needs to follow it."""

import logging

import pytest

from bots.moves import Outcome, move_bot
from bots.status import BotStatus, FailureCause
from core.leases import acquire_lease, extend_lease, release_lease
from pool.assign import assign_bot_to_slot
from pool.controller.applications import _remember, forget_application
from pool.controller.context import SlotContext
from pool.controller.places import line_up
from pool.controller.start import _accept
from pool.lifecycle import end_bot, handle_slot_error, mark_slot_running, release_bot_from_slot
from slots.deployment import Deployment
from slots.locks import with_status_lock
from slots.models import Slot
from tests.factories import BotFactory, SlotFactory
from tests.log_lines import log_lines

pytestmark = pytest.mark.django_db(transaction=True)


def assigned() -> Slot:
    SlotFactory()
    slot = assign_bot_to_slot(BotFactory(), reason="Bot requested", actor="test")
    return Slot.objects.get(pk=slot.pk)


def running() -> Slot:
    slot = assigned()
    mark_slot_running(slot, reason="Container runs", actor="test")
    return Slot.objects.get(pk=slot.pk)


def about(lines, words):
    [found] = [line for line in lines if words in line["message"]]
    return found


def test_a_release_names_the_final_status_and_how_long_the_bot_had_the_slot():
    slot = running()
    with log_lines() as lines:
        release_bot_from_slot(slot, Outcome(BotStatus.DONE, "Meeting over", "bot"))
    line = about(lines, "Released bot")
    assert (line["slot"], line["bot"]) == (slot.name, slot.assigned_bot_id)
    assert (line["botStatus"], line["coolify"]) == ("DONE", slot.coolify_uuid)
    assert 0 <= line["heldSeconds"] < 600
    assert f"from slot {slot.name}: DONE after" in line["message"]


def test_a_release_of_a_bot_that_had_ended_names_the_status_it_had():
    slot = running()
    move_bot(slot.assigned_bot_id, Outcome(BotStatus.DONE, "Meeting over", "bot"))
    with log_lines() as lines:
        cause = FailureCause.INCONSISTENT
        release_bot_from_slot(slot, Outcome(BotStatus.FAILED, "Left over", "reconciler", cause))
    assert about(lines, "Released bot")["botStatus"] == "DONE"


def test_a_cancelled_bot_is_released_with_its_status():
    slot = assigned()
    with log_lines() as lines:
        end_bot(slot.assigned_bot, Outcome(BotStatus.CANCELLED, "Not needed", "key:app"))
    assert about(lines, "Released bot")["botStatus"] == "CANCELLED"


def test_a_bot_that_is_placed_again_is_released_as_queued():
    slot = assigned()
    with log_lines() as lines:
        handle_slot_error(slot, "Crashed", cause=FailureCause.CONTAINER_FAILED, actor="test")
    assert about(lines, "Released bot")["botStatus"] == "QUEUED"


def test_a_late_release_logs_none():
    slot = running()
    release_bot_from_slot(slot, Outcome(BotStatus.DONE, "Meeting over", "bot"))
    with log_lines() as lines:
        release_bot_from_slot(slot, Outcome(BotStatus.DONE, "Again", "bot"))
    assert not [line for line in lines if "Released bot" in line["message"]]


def test_a_recreation_names_both_applications_and_the_attempt():
    slot = SlotFactory(recovery_attempts=2)
    old = slot.coolify_uuid
    with with_status_lock(slot) as lease, log_lines() as lines:
        context = SlotContext(slot, lease, coolify=None)
        forget_application(context, reason="Application deleted")
        _remember(context, "app-new", image="bot:1", description="")
    line = about(lines, "application recreated")
    assert f"{old} → app-new | recovery attempt 2" in line["message"]
    assert (line["oldCoolify"], line["coolify"]) == (old, "app-new")


def test_a_first_application_is_no_recreation():
    slot = SlotFactory(coolify_uuid="")
    with with_status_lock(slot) as lease, log_lines() as lines:
        context = SlotContext(slot, lease, coolify=None)
        _remember(context, "app-new", image="bot:1", description="")
    assert not [line for line in lines if "recreated" in line["message"]]


def test_each_change_of_a_deployment_is_logged_with_its_slot_and_uuid():
    with log_lines() as lines:
        slot = assigned()
        line_up()
        _accept(Deployment.objects.get(), "deployment-1")
        mark_slot_running(slot, reason="Container runs", actor="test")
    changes = [line for line in lines if line["message"].find("Deployment ") > 0]
    assert [(line["from"], line["to"], line.get("deployment")) for line in changes] == [
        ("waiting_for_image", "waiting_for_place", None),
        ("waiting_for_place", "starting", None),
        ("starting", "in_progress", "deployment-1"),
        ("in_progress", "finished", "deployment-1"),
    ]
    assert {line["slot"] for line in changes} == {slot.name}


def test_a_lease_logs_when_it_is_acquired_extended_and_released(caplog, settings):
    logger = logging.getLogger("core")
    logger.addHandler(caplog.handler)
    level = logger.level
    logger.setLevel(logging.DEBUG)
    try:
        lease = acquire_lease("slot:7", ttl=settings.LOCK_TTL)
        extend_lease(lease)
        release_lease(lease)
    finally:
        logger.setLevel(level)
        logger.removeHandler(caplog.handler)
    assert [record.getMessage() for record in caplog.records if record.name == "core.leases"] == [
        "Acquired lease slot:7 (fence 1)",
        "Extended lease slot:7 for 10000 ms (fence 1)",
        "Released lease slot:7 (fence 1)",
    ]
