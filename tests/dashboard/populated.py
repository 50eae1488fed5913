"""A pool with an example of everything that a page can show."""

from datetime import timedelta

from django.utils import timezone

from bots.moves import Outcome
from bots.status import BotStatus, FailureCause, Platform
from dashboard.models import PoolSample
from dashboard.notifications.channels import save_channel
from dashboard.notifications.records import (
    Condition,
    Message,
    Notice,
    NotificationChannel,
    NotificationRule,
)
from pool.lifecycle import (
    confirm_slot_stopped,
    get_slot_for_bot,
    handle_slot_error,
    mark_slot_running,
    release_bot_from_slot,
)
from pool.request import BotRequest, request_bot
from pool.servers.states import refresh_servers
from servers.models import Server
from slots.deployment import WarmImage
from slots.images import PlatformImage, Prepull
from slots.logs import KeptLog, LogSource, LogStatus, NotKept
from slots.models import Slot

ADDRESSES = {
    Platform.GOOGLE_MEET: "https://meet.google.com/abc-defg-hij",
    Platform.TEAMS: "https://teams.live.com/meet/93812",
    Platform.ZOOM: "https://zoom.us/j/123456789",
}


def ask(platform=Platform.GOOGLE_MEET, **fields):
    request = BotRequest(meeting_url=ADDRESSES[platform], platform=platform.value, **fields)
    return request_bot(request, actor="key:app")


def run(bot):
    slot = get_slot_for_bot(bot)
    Slot.objects.filter(pk=slot.pk).update(coolify_uuid=f"app-{slot.pk}")
    slot.refresh_from_db()
    assert mark_slot_running(slot, reason="The container is running", actor="watch")
    bot.refresh_from_db()
    return slot


def finish(bot):
    slot = get_slot_for_bot(bot)
    release_bot_from_slot(slot, Outcome(BotStatus.DONE, "The meeting is over", f"bot:{bot.pk}"))
    slot.refresh_from_db()
    confirm_slot_stopped(slot, reason="The container is gone", actor="stops")


def fail(bot):
    slot = get_slot_for_bot(bot)
    assert handle_slot_error(
        slot,
        "Container crashed",
        cause=FailureCause.CONTAINER_FAILED,
        actor="watch",
        place_again=False,
    )


def stop(bot):
    outcome = Outcome(BotStatus.FAILED, "No heartbeat", "reconciler", FailureCause.CONTAINER_GONE)
    release_bot_from_slot(get_slot_for_bot(bot), outcome)


def populate(slots=12):
    """Fill this many Google Meet slots, in every state."""
    bots = [ask(display_name=f"Notetaker {n}") for n in range(slots)]
    for n, bot in enumerate(bots):
        if n % 6 != 1:
            run(bot)
        if n % 6 in (2, 3):
            finish(bot)
        elif n % 6 == 4 and n < 12:
            fail(bot)
        elif n % 6 == 5 and n < 12:
            stop(bot)
    return bots


LOGS = {
    LogSource.CONTAINER: (
        "2026-11-16T09:30:58.004Z Opening the meeting\n"
        "2026-11-16T09:30:59.120Z The host declined the request to join\n"
        "exited with code 1"
    ),
    LogSource.DEPLOYMENT: "2026-11-16T09:30:12Z Image is up to date\nContainer started",
}


def keep_logs(bot, slot):
    """Both logs of a failure that were kept, and one of an earlier failure that was not."""
    about = {"slot": slot, "slot_name": slot.name, "bot": bot, "coolify_uuid": "app"}
    about |= {"failure_cause": FailureCause.CONTAINER_FAILED, "deadline": timezone.now()}
    for source, text in LOGS.items():
        KeptLog.objects.create(
            **about, epoch=2, source=source, status=LogStatus.KEPT, text=text,
            lines=text.count("\n") + 1, is_cut=source == LogSource.CONTAINER,
            ended_at=timezone.now(),
        )  # fmt: skip
    KeptLog.objects.create(
        **about, epoch=1, source=LogSource.CONTAINER, status=LogStatus.NOT_KEPT,
        because=NotKept.NOT_RUNNING, ended_at=timezone.now(),
    )  # fmt: skip


def sample_an_hour():
    """Create the samples of one hour."""
    now = timezone.now().replace(second=0, microsecond=0)
    sizes = {Platform.GOOGLE_MEET: 3.0, Platform.TEAMS: 0.5, Platform.ZOOM: 0.15}
    for platform, size in sizes.items():
        PoolSample.objects.bulk_create(
            PoolSample(
                platform=platform,
                minute=now - timedelta(minutes=60 - n),
                idle=int(size * (14 - n // 6)),
                deploying=int(size * (n % 3)),
                busy=int(size * (10 + n // 6)),
                stopping=n % 2,
                error=int(n > 50),
                waiting=max(0, n - 40) % 12,
                wait_p50=n % 7 * 1.5,
                wait_p95=n % 7 * 4.0,
                start_warm=28 + n % 5,
                start_cold=420.0 if n in (3, 4, 30) else None,
                capacity=int(size * 30),
                requested=n % 4,
                warm_starts=n % 3,
                cold_starts=int(n in (3, 30)),
                failures={"queue_timeout": 2, "container_failed": 1} if n % 20 == 19 else {},
            )
            for n in range(60)
        )


def serve(settings):
    """Servers in several states, an image that is being switched, and pre-pulls."""
    now = timezone.now()
    settings.COOLIFY_SERVER_UUIDS = ["frankfurt", "helsinki", "old"]
    refresh_servers()
    away = {"state": "unreachable", "state_reason": "Coolify cannot reach it", "state_since": now}
    Server.objects.filter(uuid="helsinki").update(**away)
    Server.objects.filter(uuid="old").update(state="draining", order="draining", order_by="otto")
    PlatformImage.objects.update_or_create(
        platform=Platform.ZOOM,
        defaults={"image": "bot:1", "named": "bot:2", "named_at": now, "wanted": "bot:2",
                  "previous": "bot:0", "wanted_since": now},
    )  # fmt: skip
    WarmImage.objects.create(image="bot:1", server_uuid="frankfurt", evidence="pull")
    Prepull.objects.create(image="bot:2", server_uuid="frankfurt", status="pulling", deadline=now)
    Prepull.objects.create(
        image="bot:2", server_uuid="helsinki", status="failed", detail="There is no such tag",
        deadline=now, ended_at=now,
    )  # fmt: skip


def notify():
    """Channels, rules, conditions and messages, in every state."""
    now = timezone.now()
    failing = {"failing_since": now, "failures": 4, "last_error": "It answered 403 Forbidden."}
    channels = {}
    for name, url, fields in (
        ("Operators in Slack", "slack://tokenA/tokenB/tokenC", {"sent_at": now}),
        ("On call", "mailtos://botpool:password@smtp.example.com?to=a@example.com", failing),
        ("Incident system", "https://incidents.example.com/hook", {"enabled": False}),
    ):
        channels[name] = NotificationChannel(**fields)
        save_channel(channels[name], name=name, url=url)
    slack = channels["Operators in Slack"]
    NotificationRule.objects.get_or_create(
        name="Nights",
        defaults={
            "severity": "warning",
            "codes": ["slots_in_error", "webhook_disabled"],
            "lasting": timedelta(minutes=30),
            "repeat": timedelta(hours=12),
            "quiet_from": "22:00",
            "quiet_until": "07:00",
            "zone": "Europe/Berlin",
            "channels": [slack.pk],
        },
    )
    sent = Message.objects.create(
        channel=slack,
        title="Botpool: 3 things need attention, 1 resolved",
        body="New:\n- Zoom: 5 slots in error (for 12 min) https://botpool.example/slots/\n",
        status="sent",
        attempts=1,
        due_at=None,
        ended_at=now,
    )
    Message.objects.create(
        channel=channels["On call"], title="Botpool: Zoom", body="…", attempts=4,
        error="It answered 403 Forbidden.", due_at=now + timedelta(minutes=4),
    )  # fmt: skip
    words = {
        "coolify_away": "Coolify: does not answer: connection refused",
        "slots_in_error": "Zoom: 5 slots in error",
        "platform_paused": "Microsoft Teams is paused by otto: maintenance",
    }
    for code, text in words.items():
        condition = Condition.objects.create(
            code=code, words=text, link="/slots/", last_seen_at=now,
            first_seen_at=now - timedelta(minutes=12),
        )  # fmt: skip
        if code == "coolify_away":
            Notice.objects.create(
                condition=condition, channel=slack, message=sent, said="open", at=now
            )
