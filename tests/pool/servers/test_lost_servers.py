"""Servers that go away while bots start on them, against three simulated servers."""

from datetime import timedelta

import pytest
from django.db.models.functions import Now

from bots.models import Bot
from bots.status import BotStatus
from coolify.client.image import Image
from coolify.shared import shared_coolify
from coolify.simulator.settings import server_uuids
from pool.controller.observe import observe
from pool.controller.servers import look_after_servers
from pool.lifecycle import mark_slot_running
from pool.servers.starts import leave_lost_server
from pool.sweep import sweep_queue
from servers.models import Server
from slots.models import Deployment, Slot
from tests.factories import DeploymentFactory, SlotFactory
from tests.pool_under_test import PoolUnderTest

THREE = server_uuids(3)
FIRST, SECOND, THIRD = THREE
three_servers = pytest.mark.parametrize(
    "pool", [{"servers": THREE, "boot_seconds": 2.0}], indirect=True
)

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def short(settings):
    settings.SERVER_LOST_AFTER = timedelta(milliseconds=300)
    settings.MAX_PLACEMENTS = 1  # a start that counts as failed is the bot's end


def servers_of(bots: list[Bot]) -> set[str]:
    slots = Slot.objects.filter(assigned_bot__in=[bot.pk for bot in bots])
    return set(slots.values_list("server_uuid", flat=True))


@three_servers
def test_bots_that_start_on_a_server_that_goes_away_run_elsewhere(pool: PoolUnderTest, settings):
    settings.RECOVERY_PAUSE = timedelta(milliseconds=100)
    look_after_servers()
    meetings = [pool.request() for _ in range(3)]
    pool.until(lambda: pool.all_run(meetings))
    assert servers_of(meetings) == set(THREE)
    on_second = Slot.objects.get(server_uuid=SECOND).assigned_bot

    pool.control.change(warm_pull_seconds=3_000.0)  # three seconds of ours
    starting = [pool.request() for _ in range(6)]
    pool.until(lambda: Deployment.objects.filter(status="in_progress").count() >= 3)
    assert SECOND in servers_of(starting)
    pool.control.set_reachable(False, server=SECOND)
    pool.control.change(warm_pull_seconds=1.0)
    look_after_servers()

    # No new bot goes there once it is known …
    newcomers = [pool.request() for _ in range(3)]
    assert SECOND not in servers_of(newcomers)
    # … and the running meeting there is untouched.
    assert Bot.objects.get(pk=on_second.pk).status != BotStatus.FAILED

    def all_elsewhere() -> bool:
        look_after_servers()
        return pool.all_run([*starting, *newcomers])

    pool.until(all_elsewhere)
    assert servers_of([*starting, *newcomers]) == {FIRST, THIRD}
    assert Slot.objects.get(assigned_bot=on_second).status == "busy"
    moved = Deployment.objects.filter(failure_cause="server_lost")
    assert moved.exists() and set(moved.values_list("server_uuid", flat=True)) == {SECOND}
    assert all(bot.placements == 1 for bot in Bot.objects.filter(pk__in=[b.pk for b in starting]))

    # After its return it is used again.
    pool.control.set_reachable(True, server=SECOND)
    look_after_servers()
    more = [pool.request() for _ in range(5)]
    assert SECOND in servers_of(more)
    pool.until(lambda: pool.all_run(more))


def lost(slot: Slot, **fields) -> Deployment:
    Server.objects.update_or_create(uuid=slot.server_uuid, defaults=fields)
    return Deployment.objects.get(slot=slot)


def starting(**fields) -> Slot:
    deployment = DeploymentFactory(slot__server_uuid="a", **fields)
    Bot.objects.filter(pk=deployment.bot_id).update(
        status="DEPLOYING", previous_status="PENDING", placements=1
    )
    return Slot.objects.get(pk=deployment.slot_id)


@pytest.mark.parametrize("state", ["unreachable", "cordoned", "draining", "removed"])
def test_a_start_that_was_not_sent_moves_at_once(state):
    slot = starting()
    deployment = lost(slot, state=state)
    assert leave_lost_server(slot, deployment, actor="test") == timedelta()
    slot.refresh_from_db()
    assert (slot.status, slot.assigned_bot_id) == ("stopping", None)
    assert Bot.objects.get().placements in (0, 1)  # 1 if the drain has placed it again


@pytest.mark.parametrize("state", ["cordoned", "draining", "removed"])
def test_a_start_that_was_sent_goes_on_while_its_server_is_reachable(state):
    slot = starting(status="in_progress", start_asked_at="2026-01-01T00:00Z")
    assert leave_lost_server(slot, lost(slot, state=state), actor="test") is None


def test_a_start_that_was_sent_moves_only_after_a_while(settings):
    settings.SERVER_LOST_AFTER = timedelta(hours=1)
    slot = starting(status="in_progress", start_asked_at="2026-01-01T00:00Z")
    recently = lost(slot, state="unreachable", unreachable_since=slot.created_at)
    left = leave_lost_server(slot, recently, actor="test")
    assert left is not None and timedelta(minutes=50) < left <= timedelta(hours=1)
    slot.refresh_from_db()
    assert slot.status == "deploying"
    settings.SERVER_LOST_AFTER = timedelta()
    assert leave_lost_server(slot, recently, actor="test") == timedelta()
    slot.refresh_from_db()
    assert slot.status == "error"  # a container may still come up there


def test_a_server_that_comes_and_goes_does_not_keep_a_bot_waiting_for_ever(settings):
    """Each move is not the bot's fault. All the same, its meeting is long over at some point."""
    settings.SERVER_LOST_AFTER = timedelta()
    slot = starting(status="in_progress", start_asked_at="2026-01-01T00:00Z")
    asked_at = Now() - timedelta(hours=5)
    Bot.objects.update(created_at=asked_at, queued_at=asked_at)
    deployment = lost(slot, state="unreachable", unreachable_since=slot.created_at)
    assert leave_lost_server(slot, deployment, actor="test") == timedelta()
    sweep_queue()
    bot = Bot.objects.get()
    assert (bot.status, bot.failure_cause) == ("FAILED", "queue_timeout")
    assert bot.failure_reason.endswith("it was requested 18000 s ago and has lost its server since")


def test_a_bot_that_calls_at_the_last_moment_stays(settings):
    """It runs: its server is reachable from where it calls, whatever Coolify says."""
    settings.SERVER_LOST_AFTER = timedelta()
    slot = starting(status="in_progress", start_asked_at="2026-01-01T00:00Z")
    deployment = lost(slot, state="unreachable", unreachable_since=slot.created_at)
    assert mark_slot_running(slot, reason="The bot called", actor="bot")
    leave_lost_server(slot, deployment, actor="test")
    slot.refresh_from_db()
    assert (slot.status, slot.assigned_bot.status) == ("busy", "JOINING_CALL")


@three_servers
def test_the_next_observation_shows_which_server_is_away(pool: PoolUnderTest):
    look_after_servers()
    SlotFactory(server_uuid=FIRST, coolify_uuid=_application(pool, FIRST))
    pool.control.set_reachable(False, server=FIRST)
    observe(shared_coolify())
    assert Server.objects.get(uuid=FIRST).state == "unreachable"


def _application(pool: PoolUnderTest, server: str) -> str:
    return (
        shared_coolify()
        .create_application(
            project_uuid="simulated-project",
            server_uuid=server,
            environment_name="production",
            image=Image.parse("bot:1"),
            name="x",
        )
        .uuid
    )
