"""What the reconciler finds by comparing rows with the simulated Coolify."""

import threading
import time
from contextlib import contextmanager
from datetime import timedelta

import pytest
from django.db import connection
from django.utils import timezone

from bots.models import Bot
from bots.status import BotStatus, FailureCause
from coolify.client.resources import Application
from coolify.shared import shared_coolify
from pool.controller.observe import Snapshot
from pool.lifecycle import handle_slot_error
from pool.reconciler import container_checks
from pool.reconciler import hearing as uptime
from pool.reconciler.reconcile import reconcile
from slots.deployment import Deployment
from slots.models import Finding, Slot, SlotTransition
from tests.controller import advance_one
from tests.factories import BotFactory, SlotFactory

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]

EVIDENCE = timedelta(milliseconds=600)


@pytest.fixture(autouse=True)
def short_windows(settings):
    settings.CONTAINER_EVIDENCE = EVIDENCE
    settings.RECONCILE_INTERVAL = timedelta(seconds=5)
    settings.RECOVERY_PAUSE = timedelta(milliseconds=300)
    settings.MAX_CONTAINER_RESTARTS = 10_000  # restarts take no time here; one test lowers it


@pytest.fixture(autouse=True)
def no_gap_of_ours(monkeypatch):
    """Passes follow each other without a gap here; test_heartbeats.py tests gaps."""
    monkeypatch.setattr("pool.reconciler.container_checks.explicable_silence", timedelta)
    monkeypatch.setattr("pool.reconciler.heartbeats.explicable_silence", timedelta)


def busy_slot(pool, **simulate):
    bot = pool.request(**simulate)
    pool.until(lambda: pool.all_run([bot]) and Slot.objects.filter(status="busy").exists())
    return Slot.objects.get(assigned_bot=bot)


def busy_slots(pool, count):
    bots = [pool.request() for _ in range(count)]
    pool.until(lambda: pool.all_run(bots))
    pool.control.report_statuses()
    return bots


def reconcile_until(pool, happened, *, seconds=60.0):
    def pass_and_look():
        reconcile()
        return happened()

    return pool.until(pass_and_look, seconds=seconds)


def passes(pool, seconds=2.0):
    """Run passes for longer than any evidence has to last."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        reconcile()
        pool.tend()
        time.sleep(0.05)


@contextmanager
def heartbeats():
    """All bots send heartbeats, often enough to count as alive."""
    over = threading.Event()

    def beat():
        while not over.wait(0.05):
            Bot.objects.update(last_heartbeat_at=timezone.now())
        connection.close()

    thread = threading.Thread(target=beat)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def no_findings():
    return not Finding.objects.filter(acted_at__isnull=False).exists()


# --- A held slot without a container ---


def test_a_bot_whose_container_is_gone_fails_and_its_slot_comes_back(pool):
    slot = busy_slot(pool)
    pool.control.lose_container(slot.coolify_uuid)
    reconcile_until(pool, lambda: pool.count([slot.assigned_bot], BotStatus.FAILED))
    bot = Bot.objects.get()
    assert bot.failure_kind == "infrastructure"
    assert "Container gone" in bot.failure_reason
    finding = Finding.objects.get(kind="container_gone", acted_at__isnull=False)
    assert finding.last_seen_at - finding.first_seen_at >= EVIDENCE
    assert finding.sightings >= 2
    assert finding.evidence["status"].startswith(("exited", "degraded"))
    reconcile_until(pool, pool.all_idle)


def test_a_heartbeat_beats_a_stale_status(pool, settings):
    """A bot in the waiting room is alive as long as it sends heartbeats, whatever Coolify shows."""
    settings.CONTAINER_EVIDENCE = timedelta(seconds=4)  # a busy machine may miss a few heartbeats
    slot = busy_slot(pool, waitingRoomSeconds=100_000)
    pool.control.add_fault("statuses_freeze")
    pool.control.set_status(slot.coolify_uuid, "exited:unhealthy")
    with heartbeats():
        passes(pool, seconds=6.0)
    assert Slot.objects.get().status == "busy"
    assert Finding.objects.filter(kind="container_gone").exists()
    assert no_findings()


def test_one_reading_of_exited_proves_nothing(pool, settings):
    settings.CONTAINER_EVIDENCE = timedelta(milliseconds=1)
    slot = busy_slot(pool)
    pool.control.add_fault("statuses_freeze")
    pool.control.set_status(slot.coolify_uuid, "exited:unhealthy")
    reconcile()
    pool.control.set_status(slot.coolify_uuid, "running:unknown")
    reconcile()
    pool.control.set_status(slot.coolify_uuid, "exited:unhealthy")
    reconcile()
    assert Slot.objects.get().status == "busy"


def test_while_bots_cannot_be_heard_an_exited_container_has_to_last_longer(pool, monkeypatch):
    monkeypatch.setattr(uptime, "web_answers", lambda: False)
    slot = busy_slot(pool, plan="silent", atSeconds=0)
    time.sleep(0.5)  # until its last call has come in
    Bot.objects.update(last_heartbeat_at=timezone.now() - timedelta(hours=1))
    pool.control.add_fault("statuses_freeze")
    pool.control.set_status(slot.coolify_uuid, "exited:unhealthy")
    passes(pool)
    assert Slot.objects.get().status == "busy"


def test_an_unreachable_server_stops_no_bot(pool):
    slot = busy_slot(pool)
    pool.control.set_status(slot.coolify_uuid, "exited:unhealthy")
    pool.control.set_reachable(False)
    passes(pool)
    assert Slot.objects.get().status == "busy"
    assert no_findings()


def test_a_status_that_has_changed_inside_the_lease_is_believed(pool, settings):
    """The container comes back between the check and the lease."""
    settings.CONTAINER_EVIDENCE = timedelta()
    slot = busy_slot(pool)
    pool.control.add_fault("statuses_freeze")
    pool.control.set_status(slot.coolify_uuid, "exited:unhealthy")
    reconcile()
    see = container_checks.wrong_containers

    def seen_and_then_back(*arguments, **more):
        sightings = list(see(*arguments, **more))
        pool.control.set_status(slot.coolify_uuid, "running:unknown")
        return sightings

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(container_checks, "wrong_containers", seen_and_then_back)
        report = reconcile()
    assert [line.outcome for line in report.lines] == ["No longer so, nothing changed"]
    assert Slot.objects.get().status == "busy"


@pytest.mark.parametrize("pool", [{"shortest_heartbeat": 0.3}], indirect=True)
def test_a_bot_that_falls_silent_in_a_running_container_fails_and_others_live_on(pool, settings):
    settings.HEARTBEAT_TIMEOUT = timedelta(seconds=8)
    waiting = pool.request(waitingRoomSeconds=100_000)
    silent = pool.request(plan="silent", atSeconds=100)
    pool.until(lambda: pool.all_run([waiting, silent]))
    reconcile_until(pool, lambda: pool.count([silent], BotStatus.FAILED))
    assert "Heartbeat lost" in Bot.objects.get(pk=silent.pk).failure_reason
    assert pool.count([waiting], BotStatus.IN_WAITING_ROOM)
    reconcile_until(pool, lambda: Slot.objects.filter(status="idle").count() == 1)
    assert len(pool.control.state()["containers"]) == 1


# --- A container in an idle slot ---


def test_a_container_found_in_an_idle_slot_is_stopped(pool):
    slot = busy_slot(pool, meetingSeconds=3000)
    pool.until(pool.all_idle)
    shared_coolify().start(slot.coolify_uuid)
    reconcile_until(pool, lambda: Finding.objects.filter(kind="container_left").exists())
    reconcile_until(
        pool,
        lambda: (
            Finding.objects.filter(kind="container_left", acted_at__isnull=False).exists()
            and pool.all_idle()
        ),
    )
    assert pool.control.state()["containers"] == []


# --- Applications that are gone ---


def test_a_slot_forgets_an_application_that_is_gone(pool):
    slot = busy_slot(pool, meetingSeconds=3000)
    pool.until(pool.all_idle)
    pool.control.delete_application(slot.coolify_uuid)
    reconcile_until(pool, lambda: not Slot.objects.get().coolify_uuid)
    assert Slot.objects.get().transitions.filter(reason__contains=slot.coolify_uuid).exists()
    second = pool.request()
    pool.until(lambda: pool.all_run([second]))


def test_a_bot_whose_application_was_deleted_fails_once_it_is_silent(pool):
    slot = busy_slot(pool)
    pool.control.delete_application(slot.coolify_uuid)
    reconcile_until(pool, lambda: pool.count([slot.assigned_bot], BotStatus.FAILED))
    assert "no such application" in Bot.objects.get().failure_reason
    reconcile_until(pool, pool.all_idle)


# --- Lists that cannot be trusted ---


BAD_LISTS = [
    {"kind": "empty", "path": "/applications$"},
    {"kind": "short", "keep": 1, "path": "/applications$"},
    {"kind": "error", "status": 500, "path": "/applications$"},
    {"kind": "error", "status": 404, "path": "/applications"},
    {"kind": "html", "path": "/applications$"},
    {"kind": "reset_before", "path": "/applications$"},
]


def test_a_list_that_fails_or_lacks_too_much_touches_nothing(pool, settings):
    settings.CONTAINER_EVIDENCE = timedelta()
    busy_slots(pool, 4)
    for fault in BAD_LISTS:
        pool.control.add_fault(**fault)
        for _ in range(3):
            reconcile()
        assert Slot.objects.filter(status="busy").exclude(coolify_uuid="").count() == 4, fault
        assert no_findings()
        pool.control.clear_faults()


def test_a_bad_snapshot_does_not_end_a_finding(pool, settings):
    settings.CONTAINER_EVIDENCE = timedelta(minutes=1)
    slot = busy_slot(pool)
    pool.control.add_fault("statuses_freeze")
    pool.control.set_status(slot.coolify_uuid, "exited:unhealthy")
    reconcile()
    first = Finding.objects.get(kind="container_gone")
    fault = pool.control.answer_with(500, path="/applications$")
    reconcile()
    pool.control.remove_fault(fault)
    reconcile()
    again = Finding.objects.get(kind="container_gone")
    assert (again.pk, again.ended_at) == (first.pk, None)


def test_a_short_list_is_reported_to_the_operator(pool):
    busy_slots(pool, 4)
    pool.control.shorten_lists(1, path="/applications$")
    report = reconcile()
    assert "lacks the applications of 3 of 4 slots" in report.observed
    assert len(Finding.objects.get(kind="short_list").evidence["missing"]) == 3


# --- Errors ---


def test_a_slot_in_error_is_recovered(pool):
    pool.control.add_fault("pull_fails", times=1)
    bot = pool.request()
    pool.until(lambda: SlotTransition.objects.filter(to_status="error").exists())
    pool.until(lambda: pool.all_run([bot]) and Slot.objects.filter(status="idle").count() == 1)
    assert SlotTransition.objects.get(from_status="error").actor == "controller"


def test_after_a_few_attempts_it_waits_for_the_operator(pool, settings):
    settings.RECOVERY_ATTEMPTS = 2
    slot = busy_slot(pool)
    Slot.objects.filter(pk=slot.pk).update(recovery_attempts=2)
    assert handle_slot_error(
        slot, "It does not start", cause=FailureCause.CONTAINER_FAILED, actor="test"
    )
    time.sleep(0.5)
    reconcile()
    assert Slot.objects.get().status == "error"
    assert Finding.objects.get(kind="slot_in_error").decision == "Wait for an operator"


def test_a_slot_that_cannot_be_stopped_goes_into_error(pool, settings):
    settings.STOP_STUCK_AFTER = timedelta(milliseconds=500)
    pool.control.add_fault("stop_ignored")
    busy_slot(pool, meetingSeconds=3000)
    reconcile_until(pool, lambda: Slot.objects.filter(status="error").exists())
    assert Bot.objects.get().status == "DONE"
    pool.control.clear_faults()
    settings.STOP_STUCK_AFTER = timedelta(minutes=5)
    reconcile_until(pool, pool.all_idle)


# --- Descriptions ---


def test_a_description_that_was_changed_in_coolify_is_written_again(pool, settings):
    settings.DESCRIPTION_SETTLED_AFTER = timedelta()
    slot = busy_slot(pool)
    advance_one(slot)
    shared_coolify().update_application(slot.coolify_uuid, description="mine!")
    reconcile()
    reconcile()
    advance_one(slot)
    shown = shared_coolify().application(slot.coolify_uuid).description
    assert shown == Slot.objects.get().description_written
    assert shown.startswith("[BUSY]")


# --- All is well ---


def test_in_a_pool_where_all_is_well_nothing_is_found(pool):
    busy_slots(pool, 2)
    done = pool.request(meetingSeconds=1)
    pool.until(lambda: pool.count([done], BotStatus.DONE))
    pool.until(lambda: Slot.objects.filter(status="idle").exists())
    passes(pool, seconds=1.0)
    assert no_findings()
    assert Slot.objects.filter(status="busy").count() == 2
    assert Deployment.objects.filter(status="finished").count() == 3


def test_a_bot_whose_container_crashes_again_and_again_fails(pool, settings):
    """It calls after each restart, so that it is neither gone nor silent."""
    settings.MAX_CONTAINER_RESTARTS = 2
    slot = busy_slot(pool, plan="crash", meetingSeconds=1)
    pool.control.report_statuses()

    def has_failed():
        pool.control.report_statuses()
        reconcile()
        return Bot.objects.get(pk=slot.last_bot_id).status == BotStatus.FAILED

    pool.until(has_failed)
    bot = Bot.objects.get(pk=slot.last_bot_id)
    assert bot.failure_cause == FailureCause.CONTAINER_FAILED
    assert "crashed" in bot.failure_reason
    assert Finding.objects.get(kind="crash_loop").evidence["restartCount"] >= 2


def test_crashes_that_were_counted_before_the_bot_came_are_not_its_own():
    bot = BotFactory(status="IN_CALL", previous_status="JOINING_CALL")
    slot = SlotFactory(status="busy", previous_status="deploying", assigned_bot=bot)
    crashed = Application.parse(
        {"uuid": slot.coolify_uuid, "name": slot.name, "status": "running", "restart_count": 10_000}
    )

    def found(began_at):
        snapshot = Snapshot(began_at, {slot.coolify_uuid: crashed}, {}, {})
        checked = container_checks.wrong_containers(snapshot, None, hearing_since=None)
        return [each.kind for each in checked]

    assert found(slot.status_since - timedelta(seconds=1)) == []
    assert found(slot.status_since + timedelta(seconds=1)) == ["crash_loop"]
