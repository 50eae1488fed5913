"""Silence counts only while Botpool could hear its bots."""

import json
import threading
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from django.conf import settings
from django.utils import timezone

from api.keys import create_api_key
from bots.models import ApiKey, Bot
from bots.moves import Outcome, move_bot
from bots.status import BotStatus
from coolify.client.errors import NotFound
from coolify.client.resources import Application, ApplicationStatus
from dashboard.overview.attention import what_needs_attention
from pool.assign import assign_bot_to_slot
from pool.controller.observe import Snapshot
from pool.lifecycle import mark_slot_running
from pool.reconciler import hearing as uptime
from pool.reconciler import heartbeats
from pool.reconciler.container_checks import wrong_containers
from pool.reconciler.hearing import hearing_since, web_answers
from pool.reconciler.reconcile import reconcile
from pool.reports import record_heartbeat
from slots.models import Finding, Slot, Uptime
from slots.tokens import Assignment
from tests.factories import BotFactory, SlotFactory

pytestmark = pytest.mark.django_db


def ago(**how_long):
    return timezone.now() - timedelta(**how_long)


@pytest.fixture
def web_is_up(monkeypatch):
    """The web server seems to answer; none runs in most of these tests."""
    monkeypatch.setattr(uptime, "web_answers", lambda: True)


@pytest.fixture
def web_is_down(monkeypatch):
    monkeypatch.setattr(uptime, "web_answers", lambda: False)


def up_since(**how_long):
    Uptime.objects.create(since=ago(**how_long), until=timezone.now())


def silent_bot(*, status=BotStatus.IN_CALL, **how_long):
    SlotFactory()
    slot = assign_bot_to_slot(BotFactory(), reason="Bot requested", actor="test")
    mark_slot_running(slot, reason="Container runs", actor="test")
    if status != BotStatus.JOINING_CALL:
        move_bot(slot.assigned_bot_id, Outcome(status, "Reported by the bot", "test"))
    heard = ago(**how_long)
    Slot.objects.filter(pk=slot.pk).update(status_since=heard)
    Bot.objects.filter(pk=slot.assigned_bot_id).update(
        last_heartbeat_at=heard, status_since=heard, started_at=heard
    )
    return Bot.objects.get(pk=slot.assigned_bot_id)


def status_after_a_pass(bot):
    reconcile()
    bot.refresh_from_db()
    return bot.status


def test_a_silent_bot_fails_and_its_slot_is_released(web_is_up):
    up_since(hours=1)
    bot = silent_bot(minutes=6)

    assert status_after_a_pass(bot) == "FAILED"

    assert bot.failure_kind == "infrastructure"
    assert f"last heartbeat {bot.last_heartbeat_at:%Y-%m-%dT%H:%M:%SZ}" in bot.failure_reason
    assert "limit 300 s" in bot.failure_reason
    assert Slot.objects.get().status == "stopping"
    assert Finding.objects.get(kind="heartbeat_lost").evidence["botStatus"] == "IN_CALL"


@pytest.mark.parametrize(
    "status", [BotStatus.JOINING_CALL, BotStatus.IN_WAITING_ROOM, BotStatus.IN_CALL]
)
def test_a_bot_that_was_heard_lives_wherever_it_is(web_is_up, status):
    up_since(hours=1)
    bot = silent_bot(status=status, minutes=4)

    assert status_after_a_pass(bot) == status


def test_a_change_of_status_is_a_sign_of_life(web_is_up):
    up_since(hours=1)
    bot = silent_bot(minutes=6)
    Bot.objects.filter(pk=bot.pk).update(status_since=ago(minutes=1))

    assert status_after_a_pass(bot) == "IN_CALL"


def test_after_an_outage_every_clock_starts_afresh(web_is_up):
    """Botpool was down for six minutes; its first pass fails no bot."""
    Uptime.objects.create(since=ago(hours=2), until=ago(minutes=6))
    bot = silent_bot(minutes=6)

    assert status_after_a_pass(bot) == "IN_CALL"


def test_a_bot_that_stays_silent_after_an_outage_fails_in_the_end(web_is_up):
    Uptime.objects.create(since=ago(hours=2), until=ago(minutes=20))
    up_since(minutes=6)
    bot = silent_bot(minutes=20)

    assert status_after_a_pass(bot) == "FAILED"


def test_while_the_web_does_not_answer_no_bot_is_judged(web_is_down):
    up_since(hours=1)
    Uptime.objects.update(until=ago(minutes=6))
    bot = silent_bot(minutes=6)

    assert status_after_a_pass(bot) == "IN_CALL"


def test_workers_alone_do_not_prove_that_bots_can_be_heard(web_is_down):
    bot = silent_bot(minutes=6)

    assert [status_after_a_pass(bot) for _ in range(3)] == ["IN_CALL"] * 3

    assert not Uptime.objects.exists()


def test_the_heartbeat_of_another_bot_proves_that_the_web_hears(web_is_down):
    up_since(hours=1)
    silent, heard = silent_bot(minutes=6), silent_bot(seconds=1)

    assert status_after_a_pass(silent) == "FAILED"

    heard.refresh_from_db()
    assert heard.status == "IN_CALL"


def test_a_clients_call_does_not_prove_that_bots_are_heard(web_is_down):
    """It may have taken a different route than the public address, which is down."""
    up_since(hours=1)
    create_api_key(name="client", role=ApiKey.Role.CLIENT)
    ApiKey.objects.update(last_used_at=timezone.now())
    Uptime.objects.update(until=ago(minutes=6))

    assert status_after_a_pass(silent_bot(minutes=6)) == "IN_CALL"


@pytest.mark.parametrize(("limit", "interval", "outage"), [(60, 30, 80), (300, 120, 350)])
def test_an_outage_too_short_to_be_noticed_fails_no_bot(
    web_is_up, settings, limit, interval, outage
):
    settings.HEARTBEAT_TIMEOUT = timedelta(seconds=limit)
    settings.RECONCILE_INTERVAL = timedelta(seconds=interval)
    Uptime.objects.create(since=ago(hours=1), until=ago(seconds=outage))

    assert status_after_a_pass(silent_bot(seconds=outage)) == "IN_CALL"


def test_evidence_against_a_container_outlasts_what_an_outage_of_ours_explains(settings):
    settings.CONTAINER_EVIDENCE = timedelta(seconds=75)
    settings.RECONCILE_INTERVAL = timedelta(seconds=30)
    settings.HEARING_GAP = timedelta(seconds=90)
    slot = Slot.objects.get(assigned_bot=silent_bot(minutes=1))
    snapshot = Snapshot(timezone.now(), {}, {}, {})

    [seen] = wrong_containers(snapshot, NoSuchApplication(), hearing_since=ago(hours=1))

    assert seen.proof.lasting == timedelta(seconds=120)
    assert seen.slot == slot


class NoSuchApplication:
    def application(self, uuid, *, timeout=None):
        raise NotFound("No such application.", thing="application")

    def applications(self):
        return []

    def environments(self, project):
        return []


def test_proofs_without_a_break_make_one_period(web_is_up):
    since = hearing_since()

    assert hearing_since() == since
    assert Uptime.objects.count() == 1


def test_a_heartbeat_that_comes_in_at_the_last_moment_saves_the_bot(web_is_up, monkeypatch):
    """It comes between the check of the rows and the lease of the slot."""

    up_since(hours=1)
    bot = silent_bot(minutes=6)
    slot = bot.slot
    see = heartbeats.silent_bots

    def seen_and_then_heard(**when):
        sightings = list(see(**when))
        record_heartbeat(Assignment(bot_id=bot.pk, slot_id=slot.pk, epoch=slot.epoch))
        return sightings

    monkeypatch.setattr(heartbeats, "silent_bots", seen_and_then_heard)
    report = reconcile()

    assert [line.outcome for line in report.lines] == ["No longer so, nothing changed"]
    bot.refresh_from_db()
    assert bot.status == "IN_CALL"


def test_silence_of_many_at_once_is_taken_for_a_fault_of_the_network(web_is_up):
    up_since(hours=1)
    bots = [silent_bot(minutes=6) for _ in range(4)]

    assert "4 of 4 busy Google Meet slots" in reconcile().stopped

    assert not Bot.objects.exclude(status="IN_CALL").exists()
    assert len(bots) == 4


# --- A request of our own ---


@pytest.fixture
def patient(monkeypatch):
    monkeypatch.setattr(uptime, "PROBE_TIMEOUT", 60.0)


@pytest.mark.django_db(transaction=True)
def test_botpool_answers_at_its_own_address(live_server, settings, patient):
    settings.PUBLIC_URL = live_server.url
    assert web_answers()


@pytest.mark.parametrize(("part", "hears"), [("database", False), ("worker", True)])
def test_a_web_server_without_its_database_hears_no_bot(settings, patient, part, hears):
    class NotReady(BaseHTTPRequestHandler):
        def do_GET(self):
            body = json.dumps({"ready": False, "reasons": {part: "It is away"}}).encode()
            self.send_response(503)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    with HTTPServer(("127.0.0.1", 0), NotReady) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        settings.PUBLIC_URL = f"http://127.0.0.1:{server.server_port}"
        assert web_answers() == hears


@pytest.mark.django_db(transaction=True)
def test_something_else_at_that_address_is_no_answer(live_server, settings):
    settings.PUBLIC_URL = f"{live_server.url}/no-such-page"
    assert not web_answers()


def test_nothing_at_that_address_is_no_answer(settings):
    settings.PUBLIC_URL = "http://127.0.0.1:9"
    assert not web_answers()


# --- A container that has exited ---


class ShowsItExited:
    """A Coolify that shows every application of ours as exited."""

    def application(self, uuid, *, timeout=None):
        return Application(uuid=uuid, name="a", status=ApplicationStatus.parse("exited:unhealthy"))


@pytest.fixture
def container_exited(monkeypatch):
    def observe(coolify):
        shown = {slot.coolify_uuid: coolify.application(slot.coolify_uuid) for slot in all_slots()}
        return Snapshot(timezone.now(), shown, {}, {})

    all_slots = Slot.objects.all
    monkeypatch.setattr("pool.reconciler.reconcile.observe", observe)
    monkeypatch.setattr("pool.reconciler.reconcile.shared_coolify", ShowsItExited)


def seen_for(**how_long):
    Finding.objects.filter(kind="container_gone").update(first_seen_at=ago(**how_long))


def test_an_exited_container_is_enough_where_workers_cannot_reach_our_address(
    web_is_down, container_exited
):
    """Hairpin NAT or a private CA: our own request fails, and this bot is the only one."""
    bot = silent_bot(minutes=10)
    status_after_a_pass(bot)
    seen_for(minutes=4)
    assert status_after_a_pass(bot) == "IN_CALL"
    seen_for(minutes=5, seconds=1)
    assert status_after_a_pass(bot) == "FAILED"
    assert bot.failure_cause == "container_gone"


def test_an_exited_container_needs_less_time_where_bots_can_be_heard(web_is_up, container_exited):
    up_since(hours=1)
    bot = silent_bot(minutes=4)
    status_after_a_pass(bot)
    seen_for(minutes=2, seconds=1)
    assert status_after_a_pass(bot) == "FAILED"


def test_the_time_in_which_no_bot_was_heard_does_not_count_as_silence(web_is_up, container_exited):
    up_since(minutes=1)
    bot = silent_bot(minutes=4)
    status_after_a_pass(bot)
    seen_for(minutes=4)
    assert status_after_a_pass(bot) == "IN_CALL"


def test_a_call_of_the_bot_starts_the_time_of_its_container_afresh(web_is_up, container_exited):
    up_since(hours=1)
    bot = silent_bot(minutes=1)
    status_after_a_pass(bot)
    seen_for(minutes=10)
    assert status_after_a_pass(bot) == "IN_CALL"


def test_an_address_that_answers_only_now_and_then_does_not_save_a_dead_bot(
    container_exited, monkeypatch
):
    answers = True
    monkeypatch.setattr(uptime, "web_answers", lambda: answers)
    bot = silent_bot(minutes=10)
    status_after_a_pass(bot)
    seen_for(minutes=5, seconds=1)
    assert status_after_a_pass(bot) == "FAILED"


def test_it_says_that_no_bot_can_be_heard(web_is_down, web_error):
    bot = silent_bot(minutes=10)
    reconcile()
    finding = Finding.objects.get(kind="unheard", ended_at=None)
    assert "workers cannot reach" in finding.reason
    assert finding.evidence == {"url": settings.PUBLIC_URL, "error": "certificate verify failed"}
    assert [each for each in attention() if "workers cannot reach" in each]

    Bot.objects.filter(pk=bot.pk).update(last_heartbeat_at=timezone.now())
    reconcile()
    assert not Finding.objects.filter(kind="unheard", ended_at=None).exists()
    assert not [each for each in attention() if "workers cannot reach" in each]


@pytest.fixture
def web_error(monkeypatch):
    monkeypatch.setattr(uptime, "probe", lambda: "certificate verify failed")


def attention():
    return [each.words for each in what_needs_attention(cards=[], health=[])]
