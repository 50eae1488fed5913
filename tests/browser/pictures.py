"""Screenshots of every page: `make screenshots`.

Not collected with the tests. Run it with `pytest tests/browser/pictures.py`.
"""

from datetime import timedelta
from pathlib import Path

import pytest
from django.core.cache import cache
from django.db.models.functions import Now

from bots.models import Bot
from bots.status import Platform
from core.jobs.jobs import WORKER_HEARTBEAT
from core.jobs.ticker import LEASE
from dashboard.models import OperatorAction
from pool.controller.belief.answers import doubt_about_list
from pool.controller.belief.doubts import note_doubt
from pool.steering import cordon_slot
from slots.description import wanted_description
from slots.models import Finding, Lease, Slot
from tests.browser.conftest import Visitor
from tests.dashboard.conftest import PASSWORD, make_user
from tests.dashboard.populated import ask, keep_logs, notify, populate, run, sample_an_hour, serve

FOLDER = Path(__file__).parent.parent.parent / "screenshots"
HELD_BACK = "3 of 8 busy Microsoft Teams slots at once, more than 20 %"
SIZES = {"1440": (1440, 900), "390": (390, 844)}
PAGES = {
    "overview": "/",
    "slots": "/slots/",
    "slot": "/slots/pool-google-meet-001/",
    "bots": "/bots/",
    "bot": "/bots/{bot}/",
    "waiter": "/bots/{waiter}/",
    "failed": "/bots/{failed}/",
    "failed-slot": "/slots/pool-google-meet-005/",
    "queue": "/queue/",
    "deployments": "/deployments/",
    "maintenance": "/maintenance/",
    "history": "/history/?range=1h",
    "search": "/search/?q=meet",
    "servers": "/servers/",
    "notifications": "/notifications/",
    "notification-log": "/notifications/log/",
    "new-channel": "/notifications/channels/new/",
    "new-rule": "/notifications/rules/new/",
    "activity": "/activity/",
    "repairs": "/activity/?show=repairs",
    "operators": "/activity/?show=operators",
    "leases": "/activity/?show=leases",
    "parts": "/activity/?show=parts",
    "confirm": "/actions/force-release/?all=slots",
    "approve": "/actions/approve-repair/?all=repairs",
    "admin": "/admin/",
    "admin-slots": "/admin/slots/slot/",
}


def fill(settings) -> dict[str, int]:
    """Fill every page with examples."""
    settings.MAX_POOL_SIZES = {"google-meet": 100, "teams": 40, "zoom": 3}
    bots = populate(96)
    for _ in range(14):
        run(ask(Platform.TEAMS, display_name="Minutes"))
    ask(Platform.TEAMS)
    for _ in range(3):
        run(ask(Platform.ZOOM, display_name="Notetaker"))
    waiters = [ask(Platform.ZOOM, priority=50 + n, display_name="Waiter") for n in range(5)]
    sample_an_hour()
    keep_logs(bots[4], Slot.objects.get(name="pool-google-meet-005"))
    cordon_slot(Slot.objects.filter(status="idle")[3], reason="Disk", actor="user:otto")
    record_actions()
    notify()
    serve(settings)
    hold_repairs_back()
    _processes_are_well()
    _age_slots()
    config = {"language": "en", "apiKey": "sk-123", "upload": {"token": "abc", "bucket": "minutes"}}
    Bot.objects.update(config=config, last_heartbeat_at=Now())
    return {"bot": bots[2].pk, "waiter": waiters[2].pk, "failed": bots[4].pk}


def record_actions() -> None:
    for action, target in (("force-release", "pool-teams-004"), ("pause", "zoom")):
        OperatorAction.objects.create(
            username="otto", action=action, target=target, reason="Stuck in the lobby", done=True
        )
    Lease.objects.create(key="reconciler", holder="web-1:4711:1", fence=912)
    Finding.objects.create(
        kind="container_gone",
        subject="slot:7",
        name="pool-google-meet-007",
        reason="Coolify shows the container as exited, and the bot is silent",
        evidence={"status": "exited", "lastHeartbeat": "2 min ago"},
        decision="Fail the bot and stop the slot",
        sightings=3,
    )


def hold_repairs_back() -> None:
    """As if three of eight bots on a platform had fallen silent."""
    for slot in Slot.objects.filter(platform=Platform.TEAMS, status="busy").order_by("pk")[:3]:
        Finding.objects.create(
            kind="heartbeat_lost",
            subject=f"slot:{slot.pk}",
            name=slot.name,
            epoch=slot.epoch,
            slot=slot,
            bot=slot.assigned_bot,
            platform=slot.platform,
            reason="Heartbeat lost: last heartbeat 2026-11-17T10:00:00Z, limit 300 s",
            evidence={"lastHeartbeatAt": "2026-11-17T10:00:00Z", "botStatus": "IN_CALL"},
            decision="Fail the bot and release the slot",
            held_back=HELD_BACK,
            sightings=4,
        )
    Finding.objects.create(
        kind="too_many",
        subject="batch:heartbeat_lost:teams",
        reason=f"A bot has fallen silent: {HELD_BACK}",
    )
    note_doubt(doubt_about_list({f"app-{n}": f"pool-zoom-{n:03}" for n in range(12)}, set()))


def _processes_are_well() -> None:
    Lease.objects.create(key=WORKER_HEARTBEAT, finished_at=Now())
    Lease.objects.create(key=LEASE, holder="web-1:7:1", expires_at=Now() + timedelta(hours=1))


def _age_slots() -> None:
    for n, slot in enumerate(Slot.objects.order_by("pk")):
        ago = timedelta(seconds=37 * n % 3000)
        Slot.objects.filter(pk=slot.pk).update(
            status_since=Now() - ago, last_used_at=Now() - ago, container_seen_at=Now()
        )
    for slot in Slot.objects.all():
        if slot.pk % 9:
            Slot.objects.filter(pk=slot.pk).update(description_written=wanted_description(slot))


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("filling", ["empty", "full"])
def test_take_pictures(browser, live_server, settings, scheme, filling):
    cache.clear()
    FOLDER.mkdir(exist_ok=True)
    make_user("ada", "administrator", password=PASSWORD, is_staff=True)
    ids = fill(settings) if filling == "full" else {}
    for size, (width, height) in SIZES.items():
        context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=scheme
        )
        visitor = Visitor(context, live_server.url)
        visitor.visit("/login/")
        visitor.page.screenshot(path=FOLDER / f"login-{size}-{scheme}.png")
        visitor.log_in("ada")
        for name, path in PAGES.items():
            if filling == "empty" and name in ("slot", "bot", "waiter", "failed", "failed-slot"):
                continue
            visitor.visit(path.format(**ids))
            visitor.page.wait_for_timeout(200)
            picture = FOLDER / f"{name}-{filling}-{size}-{scheme}.png"
            visitor.page.screenshot(path=picture, full_page=True)
        context.close()
