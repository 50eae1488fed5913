"""The logs of failed bots and starts: read before the stop, and never in the way of one."""

from datetime import timedelta

import pytest
from django.db.models.functions import Now

from bots.moves import Outcome
from bots.status import BotStatus, FailureCause
from coolify.client.errors import (
    BudgetExhausted,
    NotFound,
    NotRunning,
    Refused,
    Unavailable,
    Unreachable,
)
from core.clock import database_now
from pool.assign import assign_bot_to_slot
from pool.controller.logs import keep
from pool.controller.logs.keep import MOST_AT_ONCE, sweep_logs
from pool.lifecycle import (
    confirm_slot_stopped,
    get_slot_for_bot,
    handle_slot_error,
    mark_slot_running,
    release_bot_from_slot,
)
from slots.deployment import Deployment
from slots.logs import KeptLog, LogSource, LogStatus, NotKept
from slots.models import Slot
from slots.status import SlotStatus
from tests.controller import advance_one
from tests.factories import BotFactory, KeptLogFactory, SlotFactory

pytestmark = pytest.mark.django_db(transaction=True)


class Coolify:
    """Records the calls, and answers with a text or an error."""

    def __init__(self):
        self.asked = []
        self.log = "2026-11-16T09:30:59.120456789Z joined"
        self.build = "2026-11-16T09:30:01.000000Z pulled"

    def logs(self, uuid, **options):
        return self._answer("logs", uuid, self.log)

    def deployment_log(self, uuid, **options):
        return self._answer("deployment_log", uuid, self.build)

    def stop(self, uuid):
        self.asked.append(("stop", uuid))

    def cancel_deployment(self, uuid):
        self.asked.append(("cancel", uuid))
        return type("Cancelled", (), {"status": "cancelled-by-user"})

    def _answer(self, call, uuid, answer):
        self.asked.append((call, uuid))
        if isinstance(answer, Exception):
            raise answer
        return answer

    @property
    def calls(self):
        return [call for call, _ in self.asked]


@pytest.fixture
def coolify(monkeypatch):
    coolify = Coolify()
    monkeypatch.setattr("pool.controller.advance.shared_coolify", lambda: coolify)
    monkeypatch.setattr("pool.controller.advance.describe", lambda context: None)
    monkeypatch.setattr(keep, "RESTART", 0.0)
    return coolify


def started(**bot) -> Slot:
    """A slot whose start was sent for a new bot."""
    SlotFactory()
    slot = assign_bot_to_slot(BotFactory(**bot), reason="Bot requested", actor="test")
    Deployment.objects.filter(slot=slot).update(start_asked_at=Now(), deployment_uuid="build-1")
    return Slot.objects.get(pk=slot.pk)


def running(**bot) -> Slot:
    slot = started(**bot)
    mark_slot_running(slot, reason="The container is running", actor="test")
    Slot.objects.filter(pk=slot.pk).update(container_status="RUNNING")
    return Slot.objects.get(pk=slot.pk)


def fail(slot: Slot) -> Slot:
    outcome = Outcome(BotStatus.FAILED, "Declined", "bot", FailureCause.REPORTED_BY_BOT)
    assert release_bot_from_slot(slot, outcome)
    return Slot.objects.get(pk=slot.pk)


def kept(source: LogSource = LogSource.CONTAINER) -> KeptLog:
    return KeptLog.objects.get(source=source)


# --- What is wanted ---------------------------------------------------------------------------


def test_the_log_of_a_failed_bot_is_read_before_its_container_is_stopped(coolify):
    advance_one(fail(running()))
    assert coolify.calls[:2] == ["logs", "stop"]
    assert kept().text == "2026-11-16T09:30:59.120Z joined"
    assert kept().status == LogStatus.KEPT


def test_the_log_of_the_deployment_is_kept_after_the_stop(coolify):
    advance_one(fail(running()))
    assert coolify.asked[2] == ("deployment_log", "build-1")
    assert kept(LogSource.DEPLOYMENT).text.endswith("pulled")


@pytest.mark.parametrize("status", [BotStatus.DONE, BotStatus.CANCELLED])
def test_no_log_is_kept_of_a_bot_that_did_not_fail(coolify, status):
    slot = running()
    release_bot_from_slot(slot, Outcome(status, "Over", "test"))
    advance_one(slot)
    assert coolify.calls == ["stop"]


def test_nothing_is_wanted_of_a_start_that_was_not_sent(coolify):
    slot = started()
    Deployment.objects.update(start_asked_at=None)
    fail(slot)
    assert not KeptLog.objects.exists()


def test_a_failed_start_keeps_the_log_of_its_deployment(coolify):
    slot = started()
    handle_slot_error(slot, "Failed", cause=FailureCause.DEPLOYMENT_FAILED, actor="test")
    advance_one(slot)
    assert kept(LogSource.DEPLOYMENT).status == LogStatus.KEPT
    assert kept(LogSource.DEPLOYMENT).failure_cause == FailureCause.DEPLOYMENT_FAILED


def test_a_start_without_a_container_does_not_read_that_of_an_earlier_bot(coolify):
    slot = started()
    handle_slot_error(slot, "Failed", cause=FailureCause.DEPLOYMENT_FAILED, actor="test")
    advance_one(slot)
    assert "logs" not in coolify.calls
    assert kept().because == NotKept.NO_CONTAINER


def test_the_log_of_a_container_that_crashes_at_its_start_is_kept_while_the_slot_waits(coolify):
    slot = started()
    Deployment.objects.update(coolify_status="finished", coolify_ended_at=Now())
    handle_slot_error(slot, "Crashed", cause=FailureCause.CONTAINER_FAILED, actor="test")
    advance_one(slot)
    assert kept().status == LogStatus.KEPT
    assert Slot.objects.get(pk=slot.pk).status == SlotStatus.ERROR


# --- What cannot be had -----------------------------------------------------------------------

OBSTACLES = {
    NotKept.NOT_RUNNING: NotRunning("Application is not running.", status=400),
    NotKept.NO_BUDGET: BudgetExhausted("spent", retry_after=30, reason="limit"),
    NotKept.TOO_SLOW: Unreachable("It timed out"),
    NotKept.GONE: NotFound("No such application", thing="application"),
    NotKept.REFUSED: Refused("No", status=422),
}


@pytest.mark.parametrize("because", OBSTACLES)
def test_the_container_is_stopped_also_if_its_log_cannot_be_read(coolify, because):
    coolify.log = OBSTACLES[because]
    advance_one(fail(running()))
    assert "stop" in coolify.calls
    assert kept().because == because
    assert kept().problem.startswith("Not kept: ")


def test_a_container_that_docker_restarts_is_asked_twice(coolify):
    coolify.log = NotRunning("Application is not running.", status=400)
    advance_one(fail(running()))
    assert coolify.calls[:3] == ["logs", "logs", "stop"]


def test_a_container_that_was_observed_stopped_is_asked_once(coolify):
    coolify.log = NotRunning("Application is not running.", status=400)
    slot = running()
    Slot.objects.update(container_status="STOPPED")
    advance_one(fail(slot))
    assert coolify.calls[:2] == ["logs", "stop"]


def test_a_server_that_cannot_be_reached_is_not_asked(coolify):
    slot = running()
    Slot.objects.update(server_unreachable=True)
    advance_one(fail(slot))
    assert not {"logs", "stop"} & set(coolify.calls)  # both wait for the server
    assert kept().status == LogStatus.WANTED


def test_after_a_slow_log_the_next_stops_do_not_wait(coolify):
    coolify.log = Unavailable("500")
    advance_one(fail(running()))
    advance_one(fail(running()))
    assert coolify.calls.count("logs") == 1
    assert coolify.calls.count("stop") == 2


def test_in_a_storm_only_a_few_stops_wait_for_a_log(coolify):
    slots = [fail(running()) for _ in range(MOST_AT_ONCE + 1)]
    others = KeptLog.objects.filter(source=LogSource.CONTAINER).exclude(slot=slots[-1])
    others.update(reading_since=Now(), tries=1)
    advance_one(slots[-1])
    assert "logs" not in coolify.calls
    assert KeptLog.objects.get(slot=slots[-1], source="container").because == NotKept.TOO_MANY


def test_a_slot_in_error_waits_for_calls_instead(coolify):
    coolify.log = BudgetExhausted("spent", retry_after=30, reason="limit")
    slot = started()
    Deployment.objects.update(coolify_status="finished", coolify_ended_at=Now())
    handle_slot_error(slot, "Crashed", cause=FailureCause.CONTAINER_FAILED, actor="test")
    assert advance_one(slot) <= timedelta(seconds=30)
    assert (kept().status, kept().tries) == (LogStatus.WANTED, 0)


def test_a_token_without_the_ability_is_named(coolify):
    coolify.build = None
    advance_one(fail(running()))
    assert kept(LogSource.DEPLOYMENT).because == NotKept.NO_ABILITY
    assert "read:sensitive" in kept(LogSource.DEPLOYMENT).problem


# --- Killed workers, late logs, other bots ----------------------------------------------------


def test_a_reading_that_was_interrupted_is_tried_once_more_and_then_given_up(coolify):
    coolify.log = KeyboardInterrupt()
    slot = fail(running())
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            coolify_raises(coolify, slot)
    coolify.log = "joined"
    advance_one(slot)
    assert kept().because == NotKept.INTERRUPTED
    assert "stop" in coolify.calls


def coolify_raises(coolify, slot):
    def interrupted(uuid, **options):
        raise coolify.log

    coolify.logs, original = interrupted, coolify.logs
    try:
        advance_one(slot)
    finally:
        coolify.logs = original


def test_a_log_that_is_late_is_given_up(coolify):
    fail(running())
    KeptLog.objects.update(deadline=database_now() - timedelta(seconds=1))
    assert sweep_logs() == []
    assert set(KeptLog.objects.values_list("because", flat=True)) == {NotKept.TOO_LATE}


def test_a_slot_whose_log_is_still_wanted_is_woken(coolify):
    slot = fail(running())
    assert sweep_logs() == [slot.pk]


def test_a_log_that_is_wanted_since_before_never_gets_the_lines_of_the_next_bot(coolify):
    slot = fail(running())
    confirm_slot_stopped(slot, reason="Gone", actor="test")
    earlier = KeptLog.objects.get(source=LogSource.CONTAINER)
    bot = BotFactory()
    slot = assign_bot_to_slot(bot, reason="Bot requested", actor="test")
    Deployment.objects.filter(bot=bot).update(start_asked_at=Now(), deployment_uuid="build-2")
    mark_slot_running(slot, reason="Runs", actor="test")
    advance_one(fail(get_slot_for_bot(bot)))
    assert KeptLog.objects.get(bot=bot, source=LogSource.CONTAINER).status == LogStatus.KEPT
    earlier.refresh_from_db()
    assert (earlier.status, earlier.text) == (LogStatus.WANTED, "")


def test_a_secret_of_the_bots_configuration_is_hidden(coolify):
    coolify.log = "logging in as ada with hunter22"
    advance_one(fail(running(config={"login": {"password": "hunter22"}})))
    assert "hunter22" not in kept().text
    assert "logging in as ada" in kept().text


def test_a_log_of_another_epoch_is_a_row_of_its_own():
    log = KeptLogFactory()
    KeptLogFactory(slot=log.slot, bot=log.bot, epoch=2)
    assert KeptLog.objects.count() == 2
