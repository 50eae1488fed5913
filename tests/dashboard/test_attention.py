"""The next steps that the overview suggests."""

from datetime import timedelta

import pytest
from django.db.models.functions import Now
from django.utils import timezone

from bots.status import Platform
from coolify.budget.report import budget_report
from coolify.models import Budget, Refusal
from core.leases import Lease, acquire_lease
from dashboard.live import version_of_pool
from dashboard.overview.attention import what_needs_attention
from dashboard.overview.cards import cards
from dashboard.overview.headline import Line
from dashboard.overview.health import health
from pool.controller.belief.answers import doubt_about_list
from pool.controller.belief.doubts import end_doubts, note_doubt
from pool.steering import pause_platform
from slots.deployment import Watch
from slots.models import Finding, Slot
from tests.factories import BotFactory, DeploymentFactory, QueueEntryFactory, SlotFactory

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _full_pool(settings):
    settings.MAX_POOL_SIZES = dict.fromkeys(Platform, 2)
    QueueEntryFactory(bot__platform=Platform.ZOOM)


def advice() -> list[tuple[str, str]]:
    return [(each.words, each.next_step) for each in what_needs_attention(cards=cards(), health=[])]


def two_slots(**fields) -> None:
    SlotFactory.create_batch(2, platform=Platform.ZOOM, **fields)


def test_a_full_pool_can_be_made_larger():
    two_slots(status="stopping", previous_status="busy")
    assert advice() == [
        (
            "Zoom: 1 waiting, no slot is free",
            "All 2 slots are in use: make the pool larger if the servers have room.",
        )
    ]


def test_a_pool_without_slots_has_none_in_use(settings):
    settings.MAX_POOL_SIZES = dict.fromkeys(Platform, 0)
    (_, next_step), *_ = advice()
    assert next_step == "The pool may have no slot: make the pool larger if the servers have room."


def test_cordoned_slots_come_before_a_larger_pool():
    two_slots(cordoned=True)
    assert advice() == [
        (
            "Zoom: 1 waiting, no slot is free",
            "2 slots are cordoned: uncordon those that can be used.",
        )
    ]


def test_slots_beyond_a_smaller_size_are_not_to_be_uncordoned():
    two_slots(status="stopping", previous_status="busy")
    two_slots(cordoned=True, beyond_size=True)
    [(_, next_step)] = advice()
    assert next_step.startswith("All 2 slots are in use: make the pool larger")


def test_bots_that_will_give_up_are_reported_with_what_would_help():
    two_slots(status="stopping", previous_status="busy")
    line = Line(platform=Platform.ZOOM, next_free_at=None, at_risk=5)
    found = what_needs_attention(cards=cards(), health=[], lines=[line])[0]
    assert found.words == "Zoom: 5 bots will give up before their turn"
    assert found.button == "Change size"
    assert found.does.startswith("/actions/resize/?item=zoom")


def test_a_spent_budget_is_no_fault():
    Budget.objects.create(
        pk=Budget.THE_ONE, ring=[100_000], ring_second=int(timezone.now().timestamp())
    )
    [calls] = [part for part in health(budget_report()) if part.name == "Calls"]
    assert calls.is_well
    assert "starts and stops go first" in calls.words


def test_a_lease_that_others_wait_for_in_vain_can_be_broken(client):
    two_slots(status="stopping", previous_status="busy")
    slot = Slot.objects.first()
    acquire_lease(f"slot:{slot.pk}", ttl=timedelta(minutes=5))
    assert len(advice()) == 1
    Lease.objects.update(refused_since=Now() - timedelta(minutes=3))
    words, next_step = advice()[-1]
    assert words.startswith(f"The lease {slot.name} is held by")
    assert "break the lease" in next_step
    Lease.objects.update(expires_at=Now())
    assert len(advice()) == 1


def test_slots_in_error_come_before_a_larger_pool():
    two_slots(status="error", previous_status="deploying", error="Coolify refused")
    assert advice() == [
        (
            "Zoom: 2 slots in error: Coolify refused",
            "Remove the cause, then retry or recreate.",
        ),
        (
            "Zoom: 1 waiting, no slot is free",
            "2 slots are in error: retry or recreate these first.",
        ),
    ]


def test_a_container_that_does_not_stop_is_reported():
    stopping = {"status": "stopping", "previous_status": "busy", "stop_attempts": 1}
    SlotFactory(platform=Platform.TEAMS, **stopping)
    assert not [words for words, _ in advice() if "Teams" in words]
    SlotFactory(platform=Platform.TEAMS, **stopping, stop_refused_at=Now())
    assert (
        "Microsoft Teams: 1 slot whose container does not stop",
        "Read the slot's page, then check Docker on its server.",
    ) in advice()


# --- Coolify is not believed ---


def coolify() -> list[tuple[str, str]]:
    shown = what_needs_attention(cards=[], health=health(budget_report()))
    return [(each.words, each.next_step) for each in shown if each.words.startswith("Coolify")]


def test_it_says_why_coolify_is_not_believed_and_what_to_check():
    doubt = doubt_about_list({f"app-{n}": f"slot-{n}" for n in range(4)}, set())
    note_doubt(doubt)
    note_doubt(doubt)
    [(words, next_step)] = coolify()
    assert "is not believed: Coolify's list lacks the applications of 4 of 4 slots" in words
    assert "COOLIFY_API_TOKEN belongs to the right team" in next_step
    end_doubts()
    assert coolify() == []


def test_it_says_what_is_held_back_and_leads_to_it():
    Finding.objects.create(
        kind="too_many", subject="batch:heartbeat_lost:zoom", reason="3 of 8 busy Zoom slots"
    )
    [shown] = what_needs_attention(cards=[], health=[])
    assert shown.words == "Repairs are held back. 3 of 8 busy Zoom slots"
    assert shown.link == "/activity/?show=repairs"


# --- Slots that fail again and again ---


def test_a_failing_slot_is_named_with_cordon_beside_it():
    slot = SlotFactory(platform=Platform.TEAMS)
    for _ in range(3):
        DeploymentFactory(
            slot=slot,
            bot=BotFactory(),
            status="failed",
            failure_cause="deployment_failed",
            ended_at=timezone.now(),
        )
    [found] = [each for each in what_needs_attention(cards=[], health=[]) if each.button]
    assert found.words == f"{slot.name} failed 3 of its last 3 starts: deployment failed"
    assert (found.button, found.does) == ("Cordon", f"/actions/cordon/?item={slot.pk}&next=%2F")


def test_a_quarantine_can_be_ended():
    slot = SlotFactory(platform=Platform.TEAMS, cordoned=True, quarantined=True)
    [found] = [each for each in what_needs_attention(cards=[], health=[]) if each.button]
    assert found.words.startswith(f"{slot.name} is quarantined")
    assert found.does.startswith(f"/actions/uncordon/?item={slot.pk}")


REFUSAL = {"token": "t", "ability": "read", "reason": "401"}


@pytest.mark.parametrize(
    "trouble",
    [
        lambda: note_doubt(doubt_about_list({f"app-{n}": f"slot-{n}" for n in range(4)}, set())),
        lambda: Watch.objects.create(failing_since=Now(), error="401"),
        lambda: Refusal.objects.create(**REFUSAL),
    ],
    ids=["doubt", "no observation", "refusal"],
)
def test_the_overview_looks_closer_once_something_speaks_against_coolify(trouble):
    assert not version_of_pool().may_miss_coolify
    trouble()
    assert version_of_pool().may_miss_coolify


def test_slots_in_error_come_with_the_commonest_cause():
    failed = {"platform": "teams", "status": "error", "previous_status": "deploying"}
    SlotFactory(**failed, error="Container crashed")
    SlotFactory.create_batch(2, **failed, error="manifest unknown")
    assert ("Microsoft Teams: 3 slots in error: manifest unknown") in [w for w, _ in advice()]


def test_a_pause_names_its_operator_and_leads_to_those_who_still_run():
    pause_platform(Platform.TEAMS, reason="New disk", actor="user:otto")
    found = [
        each for each in what_needs_attention(cards=cards(), health=[]) if "paused" in each.words
    ]
    assert found[0].words == "Microsoft Teams is paused by otto: New disk"
    assert found[0].link == "/maintenance/#drain-teams"


def test_the_health_line_leaves_the_cause_to_the_advice():
    away = {"open_since": Now(), "open_until": Now() + timedelta(minutes=1), "open_reason": "502!"}
    Budget.objects.update_or_create(pk=Budget.THE_ONE, defaults=away)
    parts = health(budget_report())
    assert all("502!" not in part.words for part in parts)
    assert any("502!" in each.words for each in what_needs_attention(cards=cards(), health=parts))
