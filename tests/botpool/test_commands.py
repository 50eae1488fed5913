"""Operators' commands: what they print and what they do."""

import json
import os
from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone
from django.utils.dateparse import parse_datetime

from bots.moves import Outcome, move_bot
from bots.status import BotStatus, FailureCause
from core.leases import acquire_lease
from pool.assign import assign_bot_to_slot
from pool.lifecycle import handle_slot_error, mark_slot_running
from pool.steering import pause_platform
from slots.models import Finding, Lease, Pool, Slot
from tests.factories import BotFactory, QueueEntryFactory, SlotFactory

pytestmark = pytest.mark.django_db


def run(*words):
    out = StringIO()
    call_command(*words, stdout=out)
    return out.getvalue()


def running():
    SlotFactory()
    slot = assign_bot_to_slot(BotFactory(), reason="Bot requested", actor="test")
    mark_slot_running(slot, reason="Container runs", actor="test")
    return Slot.objects.get(pk=slot.pk)


# --- release_slot ---


def test_release_slot_fails_the_bot_and_frees_the_slot():
    slot = running()
    bot = slot.assigned_bot

    output = run("release_slot", slot.name, "--reason", "Stuck in the lobby")

    assert f"{slot.name} was busy with Bot #{bot.pk}" in output
    slot.refresh_from_db()
    bot.refresh_from_db()
    assert slot.status == "stopping"
    assert (bot.status, bot.failure_kind) == ("FAILED", "infrastructure")
    assert bot.failure_reason == "Released by operator: Stuck in the lobby"
    assert slot.transitions.latest("id").actor.startswith("command:")


def test_a_user_without_a_name_is_shown_by_its_number(monkeypatch):
    """As in a container that runs as any user."""
    slot = running()
    for variable in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr("pwd.getpwuid", {}.__getitem__)
    run("release_slot", slot.name, "--reason", "Stuck")
    assert slot.transitions.latest("id").actor == f"command:{os.getuid()}"


def test_release_slot_recovers_a_slot_in_error():
    slot = running()
    handle_slot_error(slot, "It does not start", cause=FailureCause.CONTAINER_FAILED, actor="test")

    output = run("release_slot", slot.name, "--reason", "The disk is free again")

    assert "It does not start" in output
    slot.refresh_from_db()
    assert slot.status == "stopping"


def test_release_slot_leaves_an_idle_slot_alone():
    slot = SlotFactory()
    assert "nothing to release" in run("release_slot", slot.name, "--reason", "To be sure")
    slot.refresh_from_db()
    assert (slot.status, slot.epoch) == ("idle", 0)


def test_release_slot_suggests_similar_names():
    SlotFactory(number=12)
    with pytest.raises(CommandError, match=r"Did you mean pool-google-meet-012\?") as error:
        run("release_slot", "pool-google-meet-12", "--reason", "Stuck")
    assert error.value.returncode == 1


@pytest.mark.parametrize("words", [[], ["--reason", " "]])
def test_release_slot_requires_a_reason(words):
    slot = running()
    with pytest.raises(CommandError, match="reason"):
        run("release_slot", slot.name, *words)
    slot.refresh_from_db()
    assert slot.status == "busy"


# --- reconcile ---


def test_reconcile_prints_what_it_found_why_and_what_it_did():
    slot = running()
    bot = slot.assigned_bot
    move_bot(bot.pk, Outcome(BotStatus.DONE, "Meeting over", "test"))

    output = run("reconcile")

    assert f"Found    A bot that has ended holds its slot: {slot.name}" in output
    assert f"why    Bot #{bot.pk} is DONE but still holds" in output
    assert "did    Bot ended, slot released" in output
    assert "Done     1 finding\n" in output


def test_reconcile_says_when_coolify_could_not_be_observed():
    assert "Checked  Coolify could not be observed" in run("reconcile")


def test_reconcile_dry_run_changes_nothing():
    slot = running()
    move_bot(slot.assigned_bot_id, Outcome(BotStatus.DONE, "Meeting over", "test"))

    output = run("reconcile", "--dry-run")

    assert "Would be done now" in output
    assert "(dry run)" in output
    slot.refresh_from_db()
    assert slot.status == "busy"


def test_reconcile_says_when_another_pass_is_running():
    acquire_lease("reconciler", ttl=timedelta(minutes=1))
    assert "Another pass is running" in run("reconcile")


# --- Other commands ---


def test_cleanup_slots_says_why_it_does_nothing_without_coolify():
    assert "Stopped  Coolify's list could not be read" in run("cleanup_slots", "--dry-run")


def test_sync_descriptions_lists_what_is_left_when_coolify_is_away():
    slot = running()
    output = run("sync_descriptions")
    assert "Found    1 slot whose description differs" in output
    assert f"Left     {slot.name}" in output


def test_pool_status_shows_slots_queue_deployments_leases_and_findings():
    slot = running()
    SlotFactory.create_batch(2)
    QueueEntryFactory(bot__platform="zoom")
    assign_bot_to_slot(BotFactory(), reason="Bot requested", actor="test")
    acquire_lease(f"slot:{slot.pk}", ttl=timedelta(minutes=1))
    Finding.objects.create(kind="slot_in_error", subject="slot:1", reason="It does not start")

    lines = run("pool_status").splitlines()

    columns = ["idle", "deploying", "busy", "stopping", "error", "maximum", "waiting"]
    assert lines[0].split() == columns
    assert lines[1].split() == ["google-meet", "1", "1", "1", "0", "0", "100", "0"]
    assert lines[3].split() == ["zoom", "0", "0", "0", "0", "0", "100", "1"]
    text = "\n".join(lines)
    assert "Deployments: 1" in text
    assert f"slot:{slot.pk}" in text
    assert "It does not start" in text


def test_pool_status_shows_how_long_the_oldest_bot_has_waited():
    entry = QueueEntryFactory(bot__platform="zoom", queued_at=timezone.now() - timedelta(hours=1))
    status = json.loads(run("pool_status", "--json"))
    since = parse_datetime(status["queue"]["zoom"]["oldestSince"])
    entry.bot.refresh_from_db()
    assert abs(since - entry.bot.status_since) < timedelta(seconds=1)


def test_pool_status_prints_json():
    running()
    status = json.loads(run("pool_status", "--json"))
    assert status["slots"]["google-meet"]["busy"] == 1
    assert status["queue"]["zoom"] == {"waiting": 0, "oldestSince": None}
    assert status["leases"] == []
    assert set(status) == {
        "slots",
        "pools",
        "queue",
        "deployments",
        "leases",
        "contention",
        "findings",
        "coolify",
    }
    assert status["contention"]["refusals"] == 0


def test_pool_status_hides_expired_leases():
    lease = acquire_lease("slot:1", ttl=timedelta(minutes=1))
    Lease.objects.filter(key=lease.key).update(expires_at=timezone.now() - timedelta(seconds=1))
    assert json.loads(run("pool_status", "--json"))["leases"] == []


def test_pool_status_shows_pauses_and_cordoned_slots():
    SlotFactory(cordoned=True)
    Pool.objects.create(platform="google-meet", max_size=7)
    pause_platform("google-meet", reason="Maintenance", actor="operator:ada")
    [line] = [each for each in run("pool_status").splitlines() if each.startswith("google-meet")]
    assert "paused: Maintenance" in line
    assert "1 cordoned" in line
    assert "7" in line.split()
