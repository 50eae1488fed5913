"""Botpool, a simulated Coolify and its bots, in one process."""

import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from django.conf import settings

from bots.models import Bot
from bots.status import BotStatus, Platform
from coolify.simulator.control_client import SimulatorControl
from coolify.simulator.simulator import Simulator
from pool.request import BotRequest, request_bot
from slots.models import Slot
from tests.controller import tend_slots
from tests.invariants import broken_rules

SHORT = {
    "OBSERVE_SOONEST": timedelta(milliseconds=20),
    "EXPECTED_START": timedelta(0),
    "WATCH_INTERVAL": timedelta(milliseconds=20),
    "DEPLOY_POLL_INTERVAL": timedelta(milliseconds=60),
    "DEPLOY_GRACE_PERIOD": timedelta(seconds=20),
    "STOP_CONFIRM_AFTER": timedelta(milliseconds=300),
    "STOP_RETRY_AFTER": timedelta(seconds=2),
    "COOLIFY_RATE_LIMIT": 100_000,
    "IMAGE_CLEANUP_TIMES": [],  # the same at every hour of the day
}


class PoolUnderTest:
    def __init__(self, simulator: Simulator) -> None:
        self.simulator = simulator
        self.control = SimulatorControl(simulator.url)

    def request(self, platform: Platform = Platform.GOOGLE_MEET, **simulate: Any) -> Bot:
        config = {"simulate": {"plan": "normal", "meetingSeconds": 100_000, **simulate}}
        return request_bot(
            BotRequest(
                meeting_url="https://meet.google.com/abc-defg-hij",
                platform=platform,
                display_name="Notetaker",
                config=config,
            ),
            actor="test",
        )

    def tend(self) -> None:
        tend_slots()

    def until(self, happened: Callable[[], Any], *, seconds: float = 60.0) -> Any:
        """Advance the slots, as workers do, until `happened` returns something true."""
        deadline = time.monotonic() + seconds
        while not (found := happened()):
            assert time.monotonic() < deadline, (
                f"it did not happen within {seconds:g} s: {self.picture()}"
            )
            self.tend()
            time.sleep(0.01)
        assert broken_rules() == []
        return found

    def picture(self) -> dict[str, Any]:
        slots = Slot.objects.values_list("name", "status", "container_status", "error")
        bots = Bot.objects.values_list("id", "status", "failure_reason")
        return {"slots": list(slots), "bots": list(bots)}

    def all_run(self, bots: list[Bot]) -> bool:
        alive = (BotStatus.JOINING_CALL, BotStatus.IN_WAITING_ROOM, BotStatus.IN_CALL)
        return self.count(bots, *alive) == len(bots)

    def count(self, bots: list[Bot], *statuses: BotStatus) -> int:
        return Bot.objects.filter(pk__in=[bot.pk for bot in bots], status__in=statuses).count()

    def all_idle(self) -> bool:
        return not Slot.objects.exclude(status="idle").exists()

    def containers_of(self, bot: Bot) -> list[dict[str, Any]]:
        return [c for c in self.control.containers() if str(c["bot_id"]) == str(bot.pk)]


def point_at(simulator: Simulator, *, public_url: str) -> dict[str, Any]:
    """The settings for a Botpool that uses this simulator."""
    plain = simulator.settings.tokens[0].plain
    return {
        "COOLIFY_API_URL": simulator.api_url,
        "COOLIFY_API_TOKEN": plain,
        "COOLIFY_PROJECT_UUID": "simulated-project",
        "COOLIFY_SERVER_UUIDS": list(simulator.settings.servers),
        "PUBLIC_URL": public_url,
        "BOT_IMAGES": dict(settings.BOT_IMAGES),
        **SHORT,
    }
