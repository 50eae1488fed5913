"""Orphans: reported first, deleted late, and only if they are certainly ours."""

from datetime import timedelta

import pytest
from django.utils import timezone

from coolify.client.image import Image
from coolify.client.resources import Application, ApplicationStatus
from coolify.shared import shared_coolify
from core.leases import acquire_lease
from pool.reconciler.cleanup import cleanup_orphaned_slots
from pool.reconciler.orphans import has_our_name
from pool.reconciler.reconcile import reconcile
from slots.models import Finding, Slot
from tests.factories import BotFactory, SlotFactory
from tests.simulated_coolify import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]

ORPHAN = "pool-google-meet-007"


@pytest.fixture(autouse=True)
def long_gaps(settings):
    settings.RECONCILE_INTERVAL = timedelta(days=1)  # a busy machine must not break the evidence


def make_application(settings, name=ORPHAN, **where):
    created = shared_coolify().create_application(
        project_uuid=settings.COOLIFY_PROJECT_UUID,
        server_uuid=settings.COOLIFY_SERVER_UUIDS[0],
        environment_name=where.get("environment", "production"),
        image=Image.parse("registry.example/bot:1"),
        name=name,
    )
    return created.uuid


def seen_for(**how_long):
    first = timezone.now() - timedelta(**how_long)
    Finding.objects.filter(kind="application_unknown").update(first_seen_at=first)


def applications(pool):
    return [each["name"] for each in pool.control.state()["applications"]]


def outcome(cleanup):
    return [outcome for _, outcome in cleanup.lines]


def deleted(pool, name):
    return wait_until(lambda: name not in applications(pool))


def test_an_application_of_no_slot_is_reported_and_kept(pool, settings, monkeypatch):
    uuid = make_application(settings)
    reconcile()
    finding = Finding.objects.get(kind="application_unknown")
    assert (finding.subject, finding.name) == (f"application:{uuid}", ORPHAN)
    monkeypatch.setattr("pool.reconciler.cleanup.database_now", lambda: finding.last_seen_at)
    assert outcome(cleanup_orphaned_slots()) == ["Kept: seen for 0 s, deleted after 3600 s"]
    assert applications(pool) == [ORPHAN]


def test_the_reconciler_never_deletes_an_application(pool, settings):
    make_application(settings)
    reconcile()
    seen_for(hours=9)
    reconcile()
    assert applications(pool) == [ORPHAN]


def test_after_an_hour_without_a_slot_it_is_deleted(pool, settings):
    make_application(settings)
    reconcile()
    seen_for(hours=2)
    assert outcome(cleanup_orphaned_slots()) == ["Deletion requested"]
    assert deleted(pool, ORPHAN)
    assert Finding.objects.get().actor == "cleanup"


def test_a_dry_run_deletes_nothing(pool, settings):
    make_application(settings)
    reconcile()
    seen_for(hours=2)
    assert outcome(cleanup_orphaned_slots(dry_run=True)) == ["Would be deleted now"]
    assert applications(pool) == [ORPHAN]


def test_the_hour_must_be_without_a_break(pool, settings):
    settings.RECONCILE_INTERVAL = timedelta(seconds=30)
    make_application(settings)
    reconcile()
    seen_for(hours=2)
    Finding.objects.update(last_seen_at=timezone.now() - timedelta(minutes=10))
    assert outcome(cleanup_orphaned_slots()) == ["Kept: seen for 0 s, deleted after 3600 s"]


NOT_OURS = [
    "pool-staging-google-meet-001",
    "staging-pool-google-meet-001",
    "pool-google-meet-1",
    "pool-google-meet-001-copy",
    "pool-webex-001",
    "Pool-google-meet-001",
    "my-shop",
]


def test_only_exactly_a_slots_name_is_ours():
    """Staging and production may share a Coolify with prefixes that begin alike."""
    status = ApplicationStatus.parse("exited")
    named = [Application(uuid="a", status=status, name=name) for name in [*NOT_OURS, ORPHAN]]
    assert [each.name for each in named if has_our_name(each)] == [ORPHAN]


def test_an_application_in_another_environment_is_not_ours(pool, settings):
    make_application(settings)
    reconcile()
    seen_for(hours=2)
    settings.COOLIFY_ENVIRONMENT_NAME = "staging"
    assert outcome(cleanup_orphaned_slots()) == ["Kept: it is not known to be in our environment"]
    assert applications(pool) == [ORPHAN]


def test_it_is_never_deleted_while_a_slot_of_that_name_is_being_made(pool, settings):
    make_application(settings)
    reconcile()
    seen_for(hours=2)
    SlotFactory(number=7, coolify_uuid="", application_asked_at=timezone.now())
    assert cleanup_orphaned_slots().lines == []
    assert applications(pool) == [ORPHAN]


def test_it_is_kept_while_another_process_works_on_the_slot_of_that_name(pool, settings):
    make_application(settings)
    reconcile()
    seen_for(hours=2)
    slot = SlotFactory(number=7, coolify_uuid="")
    acquire_lease(f"slot:{slot.pk}", ttl=timedelta(minutes=1))
    assert outcome(cleanup_orphaned_slots()) == [
        "Kept: another process is working on the slot of that name"
    ]


def test_it_is_kept_while_a_bot_that_ran_in_it_lives(pool, settings):
    uuid = make_application(settings)
    bot = BotFactory(coolify_service_uuid=uuid)
    reconcile()
    seen_for(hours=2)
    assert outcome(cleanup_orphaned_slots()) == [f"Kept: Bot #{bot.pk} ran in it and has not ended"]


def test_a_botpool_that_lost_its_rows_does_not_delete_the_whole_pool(pool, settings):
    bots = [pool.request() for _ in range(4)]
    pool.until(lambda: pool.all_run(bots))
    Slot.objects.update(coolify_uuid="")
    for bot in bots:
        type(bot).objects.filter(pk=bot.pk).update(coolify_service_uuid="")
    reconcile()
    seen_for(hours=2)
    assert "4 of 4 applications belong to no slot" in cleanup_orphaned_slots().stopped
    assert len(applications(pool)) == 4


def test_a_list_that_fails_deletes_nothing(pool, settings):
    make_application(settings)
    reconcile()
    seen_for(hours=2)
    for fault in ("empty", "error", "html"):
        pool.control.add_fault(fault, path="/applications$")
        cleanup_orphaned_slots()
        pool.control.clear_faults()
    assert applications(pool) == [ORPHAN]
