"""With every fault of the simulated Coolify in turn: no bot is lost, doubled or wrongly failed,
and the pool is clean at the end."""

import time
from datetime import timedelta

import pytest

from bots.models import Bot
from bots.status import TERMINAL, BotStatus
from coolify.budget.access import allow_access
from coolify.simulator.record import bots_in_two_containers, bots_in_two_meetings
from coolify.simulator.world.faults import KINDS
from pool.reconciler.reconcile import reconcile
from queues.models import QueueEntry
from slots.deployment import ACTIVE, Deployment
from slots.models import Slot

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]

BOTS = 4
SECONDS_OF_TROUBLE = 1.0
SECONDS_BETWEEN_PASSES = 1.0

STUCK = {"kind": "stuck_in_progress", "times": 1}
STUCK_KINDS = {"stuck_queued", "stuck_in_progress"}
# The first fault names the test; the others create the situation that it needs.
FAULTS = [
    [{"kind": "error", "status": 500, "probability": 0.5}],
    [{"kind": "error", "status": 429, "retry_after": 1, "probability": 0.3}],
    [{"kind": "latency", "seconds": 0.05}],
    [{"kind": "reset_before", "probability": 0.5}],
    [{"kind": "reset_after", "probability": 0.5}],
    [{"kind": "html", "probability": 0.5}],
    [{"kind": "short", "keep": 1}],
    [{"kind": "empty"}],
    [{"kind": "stuck_queued", "times": 1}],
    [STUCK],
    [{"kind": "deployment_fails", "times": 2}],
    [{"kind": "pull_fails", "times": 2}],
    [{"kind": "stop_ignored"}],
    [{"kind": "stop_refused"}],
    [{"kind": "container_survives"}],
    [{"kind": "cancel_answers_500"}, STUCK],
    [{"kind": "statuses_freeze"}],
    [{"kind": "container_overlooked", "probability": 0.3}],
    [{"kind": "api_disabled"}],
    [{"kind": "address_refused"}],
    [{"kind": "wrong_team"}],
    [{"kind": "member_role"}],
    [{"kind": "redis_down", "probability": 0.5}],
    [{"kind": "database_down", "probability": 0.5}],
]


@pytest.fixture(autouse=True)
def short_times(settings):
    # A bot fails if three starts take longer than this: a busy machine needs time.
    settings.DEPLOY_TIMEOUT = timedelta(seconds=60)
    # A bot's container must stop within this time.
    settings.DEPLOY_GRACE_PERIOD = timedelta(seconds=20)
    settings.HEARTBEAT_TIMEOUT = timedelta(seconds=20)
    settings.CONTAINER_EVIDENCE = timedelta(seconds=3)
    settings.RECONCILE_INTERVAL = timedelta(seconds=5)
    settings.RECOVERY_PAUSE = timedelta(milliseconds=200)
    settings.RECOVERY_ATTEMPTS = 5


def test_every_kind_of_fault_is_tried():
    assert {faults[0]["kind"] for faults in FAULTS} == set(KINDS)


def name_of(faults):
    return f"{faults[0]['kind']}{faults[0].get('status', '')}"


def tend_and_reconcile(pool, happened, *, seconds):
    last_pass = 0.0

    def check():
        nonlocal last_pass
        if time.monotonic() - last_pass > SECONDS_BETWEEN_PASSES:
            reconcile()
            last_pass = time.monotonic()
        return happened()

    return pool.until(check, seconds=seconds)


def is_over(pool, bots):
    return (
        pool.count(bots, *TERMINAL) == len(bots)
        and pool.all_idle()
        and not Deployment.objects.filter(status__in=ACTIVE).exists()
    )


def assert_all_ended_well(pool):
    failed = Bot.objects.exclude(status=BotStatus.DONE)
    assert [(bot.status, bot.failure_reason) for bot in failed] == []
    assert Bot.objects.count() == BOTS
    assert not QueueEntry.objects.exists()
    record = pool.control.containers()
    assert bots_in_two_containers(record) == []
    assert bots_in_two_meetings(record) == []
    assert pool.control.state()["containers"] == []


def have_struck(pool):
    return all(fault["hits"] for fault in pool.control.faults())


@pytest.mark.parametrize("pool", [{"shortest_heartbeat": 0.3}], indirect=True)
@pytest.mark.parametrize("faults", FAULTS, ids=name_of)
def test_a_fault_loses_doubles_and_fails_no_bot(pool, faults, settings):
    if STUCK_KINDS & {fault["kind"] for fault in faults}:
        settings.DEPLOY_TIMEOUT = timedelta(seconds=10)  # what ends the trouble
    for fault in faults:
        pool.control.add_fault(**fault)
    bots = [pool.request(meetingSeconds=600) for _ in range(BOTS)]
    Slot.objects.filter(number=1).update(recreate=True)  # one application is deleted
    end = time.monotonic() + SECONDS_OF_TROUBLE
    tend_and_reconcile(pool, lambda: time.monotonic() > end and have_struck(pool), seconds=60)
    pool.control.clear_faults()
    allow_access()  # an operator has mended the token's role, and says so
    tend_and_reconcile(pool, lambda: is_over(pool, bots), seconds=90)
    assert_all_ended_well(pool)


@pytest.mark.parametrize("pool", [{"shortest_heartbeat": 0.3}], indirect=True)
def test_a_restart_of_coolify_loses_doubles_and_fails_no_bot(pool):
    """It marks everything queued or in progress as failed, and does not answer for a while."""
    bots = [pool.request(meetingSeconds=600) for _ in range(BOTS)]
    pool.until(lambda: Deployment.objects.filter(status="in_progress").exists())
    pool.control.restart_coolify(outage_seconds=0.5)
    tend_and_reconcile(pool, lambda: is_over(pool, bots), seconds=90)
    assert_all_ended_well(pool)


@pytest.mark.parametrize("pool", [{"shortest_heartbeat": 0.3}], indirect=True)
def test_a_server_out_of_reach_for_a_while_loses_doubles_and_fails_no_bot(pool, settings):
    """Its bots continue; their statuses freeze, and no stop gets through."""
    settings.DEPLOY_TIMEOUT = timedelta(seconds=20)
    bots = [pool.request(meetingSeconds=600) for _ in range(BOTS)]
    pool.until(lambda: pool.count(bots, BotStatus.IN_CALL))
    pool.control.set_reachable(False)
    end = time.monotonic() + 2 * SECONDS_OF_TROUBLE
    tend_and_reconcile(pool, lambda: time.monotonic() > end, seconds=60)
    pool.control.set_reachable(True)
    tend_and_reconcile(pool, lambda: is_over(pool, bots), seconds=90)
    assert_all_ended_well(pool)
