"""The metrics exist, are right, and counters never shrink."""

from datetime import timedelta

import pytest
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder
from django.test import Client
from django_q.conf import Conf
from prometheus_client.parser import text_string_to_metric_families

from botpool.telemetry.counters import BUCKETS, count_history
from bots.models import Bot, BotEvent
from bots.status import BotStatus, FailureCause, Platform
from coolify.budget.governor import Governor
from coolify.client.calls import Call, CallClass, Outcome
from coolify.client.errors import RateLimited
from coolify.models import Budget, CallCount
from core.clock import database_now
from core.jobs.ticker import LEASE
from core.leases import Lease
from pool.controller.observe import observe_soon
from pool.lifecycle import get_slot_for_bot, handle_slot_error
from pool.line import move_down
from pool.steering import pause_platform
from pool.sweep import sweep_queue
from queues.models import QueueEntry
from servers.models import Server
from slots.deployment import WarmImage
from slots.finding import Finding
from slots.models import SlotTransition, Watch
from tests.factories import BotFactory, QueueEntryFactory, SlotFactory
from tests.ops.history import a_deployment, an_ended_bot, time_passes
from tests.queued import ask, pool_of
from tests.queued import time_passes as let_it_have_waited

pytestmark = pytest.mark.django_db


def scrape(client: Client) -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
    answer = client.get("/metrics")
    assert answer.status_code == 200
    found: dict = {}
    for family in text_string_to_metric_families(answer.content.decode()):
        for sample in family.samples:
            labels = tuple(sorted(sample.labels.items()))
            found.setdefault(sample.name, {})[labels] = sample.value
    return found


def value(metrics, name: str, **labels: str) -> float:
    return metrics[name][tuple(sorted(labels.items()))]


def test_it_shows_slots_by_platform_and_status_including_zeros(client):
    SlotFactory.create_batch(2)
    metrics = scrape(client)
    assert value(metrics, "botpool_slots", platform="google-meet", status="idle") == 2
    assert value(metrics, "botpool_slots", platform="zoom", status="error") == 0
    assert value(metrics, "botpool_slot_oldest_seconds", platform="google-meet", status="idle") > 0


def test_it_shows_servers_their_slots_and_images(client, settings):
    settings.COOLIFY_SERVER_UUIDS = ["a"]
    Server.objects.create(uuid="a", name="bots-1", state="unreachable")
    SlotFactory(server_uuid="a")
    WarmImage.objects.create(image="bot:1", server_uuid="a", cold_since=database_now())
    metrics = scrape(client)
    assert value(metrics, "botpool_server_state", server="bots-1", state="unreachable") == 1
    assert value(metrics, "botpool_server_state", server="bots-1", state="healthy") == 0
    assert value(metrics, "botpool_server_slots", server="bots-1", status="idle") == 1
    assert value(metrics, "botpool_server_images", server="bots-1", state="cold") == 1


def test_it_shows_the_queue_and_its_longest_wait(client):
    bot = BotFactory()
    bot.refresh_from_db()
    QueueEntryFactory(bot=bot)
    metrics = scrape(client)
    assert value(metrics, "botpool_queue_length", platform="google-meet") == 1
    assert value(metrics, "botpool_queue_oldest_seconds", platform="google-meet") > 0


def a_bot_placed_again() -> Bot:
    """A bot requested four minutes ago that has just lost its slot."""
    bot = ask()
    let_it_have_waited(bot, minutes=4)
    SlotFactory()
    sweep_queue()
    assert handle_slot_error(
        get_slot_for_bot(bot),
        "It failed",
        cause=FailureCause.CONTAINER_FAILED,
        actor="test",
        place_again=True,
    )
    bot.refresh_from_db()
    assert bot.status == BotStatus.QUEUED
    return bot


def test_the_wait_of_a_bot_placed_again_starts_anew(client, settings):
    pool_of(settings, 0)
    a_bot_placed_again()
    metrics = scrape(client)
    assert 0 <= value(metrics, "botpool_queue_oldest_seconds", platform="google-meet") < 60


def test_moving_a_bot_down_does_not_shorten_its_wait(client, settings):
    pool_of(settings, 0)
    first, second = ask(priority=0), ask(priority=1000)
    assert move_down(first, reason="Not so urgent", actor="test")
    let_it_have_waited(first, seconds=30)
    assert QueueEntry.objects.get(bot=first).queued_at > second.created_at
    metrics = scrape(client)
    assert 30 <= value(metrics, "botpool_queue_oldest_seconds", platform="google-meet") < 90


def test_it_shows_paused_pools(client):
    pause_platform("zoom", reason="New image", actor="alice")
    ago = database_now() - timedelta(minutes=5)
    pause_platform("teams", reason="New image", actor="alice", until=ago)
    metrics = scrape(client)
    assert value(metrics, "botpool_pool_paused", platform="zoom") == 1
    assert value(metrics, "botpool_pool_paused", platform="teams") == 0


def test_it_shows_what_is_held_back(client):
    finding = {"kind": "container_gone", "reason": "x", "platform": "zoom"}
    Finding.objects.create(**finding, subject="slot:1", held_back="3 of 8 at once")
    Finding.objects.create(**finding, subject="slot:2")
    metrics = scrape(client)
    labels = {"kind": "container_gone"}
    assert value(metrics, "botpool_findings_held_back", **labels, platform="zoom") == 1
    assert value(metrics, "botpool_findings_held_back", **labels, platform="teams") == 0


def test_it_shows_the_leading_ticker(client):
    metrics = scrape(client)
    assert value(metrics, "botpool_ticker_leader", host="none") == 0
    Lease.objects.create(
        key=LEASE, holder="alpha:12:34", expires_at=database_now() + timedelta(minutes=1)
    )
    assert value(scrape(client), "botpool_ticker_leader", host="alpha") == 1


@pytest.mark.parametrize(
    ("holder", "expired"), [("", timedelta()), ("alpha:12:34", timedelta(seconds=1))]
)
def test_a_ticker_that_stopped_or_fell_silent_does_not_lead(client, holder, expired):
    Lease.objects.create(key=LEASE, holder=holder, expires_at=database_now() - expired)
    assert scrape(client)["botpool_ticker_leader"] == {(("host", "none"),): 0}


def test_it_shows_the_lag_of_periodic_work(client):
    Lease.objects.create(key="reconcile", finished_at=database_now(), error="boom")
    metrics = scrape(client)
    assert 0 <= value(metrics, "botpool_periodic_age_seconds", work="reconcile") < 60
    assert value(metrics, "botpool_periodic_failing", work="reconcile") == 1


def test_work_that_never_succeeded_is_as_old_as_the_database(client):
    Lease.objects.create(key="reconcile", failed_at=database_now(), error="boom")
    the_database_was_set_up(minutes=20)
    metrics = scrape(client)
    assert value(metrics, "botpool_periodic_age_seconds", work="reconcile") >= 1200
    assert value(metrics, "botpool_periodic_age_seconds", work="worker heartbeat") >= 1200
    assert value(metrics, "botpool_periodic_failing", work="worker heartbeat") == 0


def test_counters_that_were_never_counted_are_as_old_as_the_database(client):
    the_database_was_set_up(minutes=20)
    assert value(scrape(client), "botpool_counters_age_seconds") >= 1200
    count_history()
    assert value(scrape(client), "botpool_counters_age_seconds") < 60


def the_database_was_set_up(**ago: float) -> None:
    recorder = MigrationRecorder(connection)
    recorder.migration_qs.update(applied=database_now() - timedelta(**ago))


def test_requesting_an_observation_does_not_reset_its_age(client):
    an_observation(minutes=10)
    observe_soon()
    assert 600 <= value(scrape(client), "botpool_watch_age_seconds") < 660


def test_a_failed_observation_does_not_reset_the_age(client):
    an_observation(minutes=10)
    Watch.objects.update(looked_at=database_now(), failing_since=database_now())
    assert 600 <= value(scrape(client), "botpool_watch_age_seconds") < 660


def test_an_observation_without_slots_resets_the_age(client):
    an_observation(minutes=10)
    Watch.objects.update(looked_at=database_now(), observed_at=database_now())
    assert 0 <= value(scrape(client), "botpool_watch_age_seconds") < 60


def test_without_an_observation_its_age_is_that_of_the_first_slot(client):
    SlotFactory(created_at=database_now() - timedelta(minutes=10))
    SlotFactory()
    assert 600 <= value(scrape(client), "botpool_watch_age_seconds") < 660


def an_observation(**ago: float) -> None:
    """A successful observation of Coolify."""
    at = database_now() - timedelta(**ago)
    SlotFactory(container_seen_at=at)
    Watch.objects.create(looked_at=at, observed_at=at)


def test_with_redis_away_it_tells_all_but_the_number_of_tasks(client, settings, monkeypatch):
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    monkeypatch.setattr(Conf, "REDIS", settings.REDIS_URL)
    monkeypatch.setattr(Conf, "BROKER_CLASS", "core.jobs.redis.RedisBroker")
    Lease.objects.create(key="slots", asked_at=database_now() - timedelta(minutes=5))
    metrics = scrape(client)
    assert "botpool_tasks_waiting" not in metrics
    assert value(metrics, "botpool_task_oldest_seconds") >= 300
    assert "botpool_coolify_budget_left" in metrics


def test_waiting_and_starting_become_histograms(client):
    an_ended_bot(waited=7, started=25)
    time_passes()
    count_history()
    metrics = scrape(client)
    assert value(metrics, "botpool_bot_wait_seconds_bucket", platform="google-meet", le="5.0") == 0
    assert value(metrics, "botpool_bot_wait_seconds_bucket", platform="google-meet", le="10.0") == 1
    assert value(metrics, "botpool_bot_wait_seconds_count", platform="google-meet") == 1
    assert value(metrics, "botpool_bot_wait_seconds_sum", platform="google-meet") == pytest.approx(
        7
    )
    started = {"platform": "google-meet", "le": "30.0"}
    assert value(metrics, "botpool_bot_start_seconds_bucket", **started) == 1
    assert value(metrics, "botpool_bot_start_seconds_count", platform="zoom") == 0


def test_a_value_on_a_bound_is_in_that_bucket(client):
    an_ended_bot(waited=10, started=5)
    time_passes()
    count_history()
    metrics = scrape(client)
    assert value(metrics, "botpool_bot_wait_seconds_bucket", platform="google-meet", le="10.0") == 1


def test_a_value_beyond_the_last_bound_is_counted(client):
    an_ended_bot(waited=BUCKETS[-1] + 1, started=5)
    time_passes()
    count_history()
    metrics = scrape(client)
    last = str(float(BUCKETS[-1]))
    assert value(metrics, "botpool_bot_wait_seconds_bucket", platform="google-meet", le=last) == 0
    assert value(metrics, "botpool_bot_wait_seconds_count", platform="google-meet") == 1


def test_counting_twice_counts_once(client):
    an_ended_bot(waited=1, started=1)
    time_passes()
    count_history()
    count_history()
    ended = {"platform": "google-meet", "status": "DONE", "failure": ""}
    assert value(scrape(client), "botpool_bots_ended_total", **ended) == 1


def test_counters_survive_the_deletion_of_their_history(client):
    an_ended_bot(waited=1, started=1)
    time_passes()
    count_history()
    BotEvent.objects.all().delete()
    Bot.objects.all().delete()
    time_passes(timedelta(hours=1))
    an_ended_bot(waited=1, started=1)
    time_passes()
    count_history()
    metrics = scrape(client)
    assert value(metrics, "botpool_bots_requested_total", platform="google-meet") == 2
    assert value(metrics, "botpool_bot_wait_seconds_count", platform="google-meet") == 2


def test_each_placement_counts_its_own_wait(client):
    bot = an_ended_bot(waited=100, started=3, then_waited=4)
    assert bot.status == BotStatus.DONE
    time_passes()
    count_history()
    metrics = scrape(client)
    assert value(metrics, "botpool_bot_wait_seconds_count", platform="google-meet") == 2
    assert value(metrics, "botpool_bot_wait_seconds_sum", platform="google-meet") == pytest.approx(
        104
    )


def test_the_number_of_queries_does_not_grow_with_the_pool(client, django_assert_max_num_queries):
    SlotFactory.create_batch(30)
    BotFactory.create_batch(30, platform=Platform.ZOOM)
    with django_assert_max_num_queries(32):
        scrape(client)


def test_it_contains_no_meeting_urls_or_bot_names(client):
    an_ended_bot(waited=1, started=1, meeting_url="https://meet.google.com/sec-retm-eet")
    time_passes()
    count_history()
    text = client.get("/metrics").content.decode()
    assert "sec-retm-eet" not in text
    assert "Notetaker" not in text


def test_it_answers_in_openmetrics_when_asked(client):
    accept = "application/openmetrics-text; version=1.0.0"
    answer = client.get("/metrics", headers={"accept": accept})
    assert answer.headers["Content-Type"].startswith("application/openmetrics-text")
    assert answer.content.endswith(b"# EOF\n")


def test_a_configured_token_is_required(client, settings):
    settings.METRICS_TOKEN = "s3cret"
    assert client.get("/metrics").status_code == 401
    assert client.get("/metrics", headers={"authorization": "Bearer wrong"}).status_code == 401
    assert client.get("/metrics", headers={"authorization": "Bearer s3cret"}).status_code == 200


def series(client: Client) -> set[tuple]:
    counted = {name: of for name, of in scrape(client).items() if not name.endswith("_created")}
    return {(name, labels) for name, of in counted.items() for labels in of}


def test_counters_exist_before_their_first_event(client, settings):
    settings.COOLIFY_SERVER_UUIDS = ["server-1"]
    from_the_beginning = series(client)
    bot, slot = an_ended_bot(waited=1, started=1), SlotFactory()
    for status, kind in (("FAILED", "infrastructure"), ("FAILED", "meeting"), ("CANCELLED", "")):
        an_ended_bot(waited=1, started=1, ended_as=status, failure_kind=kind)
    for image in ("warm", "waited", "pulled"):
        a_deployment(bot=bot, slot=slot, image=image)
    for cause in (
        FailureCause.START_REFUSED,
        FailureCause.DEPLOYMENT_FAILED,
        FailureCause.CONTAINER_FAILED,
        FailureCause.APPLICATION_GONE,
        FailureCause.OPERATOR,
        FailureCause.INCONSISTENT,
    ):
        a_deployment(bot=bot, slot=slot, ended="failed", failure_cause=cause)
    timed_out = FailureCause.START_TIMED_OUT
    a_deployment(bot=bot, slot=slot, ended="timed_out", failure_cause=timed_out)
    a_deployment(bot=bot, slot=slot, ended="cancelled")
    _some_findings_and_transitions()
    time_passes()
    count_history()
    assert series(client) == from_the_beginning


def _some_findings_and_transitions() -> None:
    earlier = database_now() - timedelta(minutes=1)
    for acted_at in (None, earlier):
        Finding.objects.create(
            kind="slot_in_error", subject="x", reason="x", acted_at=acted_at, ended_at=earlier
        )
    for before, after in (("", "idle"), ("", "deploying"), ("idle", "deploying")):
        SlotTransition.objects.create(
            slot_id=1, at=earlier, from_status=before, to_status=after, reason="x", epoch=0
        )


def test_coolify_calls_are_counted_from_the_first_one(client):
    from_the_beginning = series(client)
    start = {"class": "urgent", "call": "start", "outcome": "refused", "reason": "limit"}
    assert value(scrape(client), "botpool_coolify_calls_total", **start) == 0
    CallCount.objects.create(call_class="urgent", name="start", outcome="refused:limit", total=2)
    assert value(scrape(client), "botpool_coolify_calls_total", **start) == 2
    assert series(client) == from_the_beginning


def test_a_pause_between_two_scrapes_is_counted(client):
    governor, call = Governor(), Call("stop", CallClass.URGENT, "POST", "/applications/a/stop")
    error = RateLimited("Too many calls.", retry_after=20, status=429)
    governor.after(call, Outcome(seconds=0.1, status=429, error=error), governor.before(call))
    Budget.objects.update(paused_until=database_now())
    metrics = scrape(client)
    assert value(metrics, "botpool_coolify_held_back_seconds") == 0
    held_back = value(metrics, "botpool_coolify_time_held_back_seconds_total")
    assert held_back == pytest.approx(20, abs=0.5)


def test_deployments_are_counted_by_result_reason_and_image(client):
    bot, slot = an_ended_bot(waited=1, started=1), SlotFactory()
    a_deployment(bot=bot, slot=slot)
    a_deployment(bot=bot, slot=slot, image="waited")
    a_deployment(bot=bot, slot=slot, image="pulled")
    refused = FailureCause.START_REFUSED
    a_deployment(bot=bot, slot=slot, ended="failed", failure_cause=refused, reason="Not me")
    count_history()
    metrics = scrape(client)
    meet = {"platform": "google-meet"}
    assert value(metrics, "botpool_deployments_total", **meet, result="finished", reason="") == 3
    failed = {"result": "failed", "reason": "start_refused"}
    assert value(metrics, "botpool_deployments_total", **meet, **failed) == 1
    assert value(metrics, "botpool_deployment_images_total", **meet, image="warm") == 1
    assert value(metrics, "botpool_pulls_saved_total", **meet) == 1
