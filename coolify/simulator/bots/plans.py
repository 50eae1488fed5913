"""What a simulated bot will do: drawn from the seed, or requested in its config."""

import random
from typing import Any

from coolify.simulator.settings import Settings

NAMES = ("normal", "crash", "fail", "hang", "silent", "exit")
# Only by request: the container runs, and its bot is run elsewhere (`manage.py try_bot`).
EXTERNAL = "external"


def make_plan(*, settings: Settings, bot_id: str, overrides: dict[str, Any]) -> dict[str, Any]:
    """Plan a bot's behaviour: the same for the same seed and bot, except for `overrides`.

    `overrides` is the bot's `config.simulate`: `plan` (one of NAMES, or EXTERNAL),
    `meetingSeconds`, `joinSeconds`, `waitingRoomSeconds`, `heartbeatSeconds`, `atSeconds` (when the
    trouble begins, counted from the bot's first call) and `times` (how many lives end in a crash
    or early exit).
    """
    dice = random.Random(f"{settings.seed}:{bot_id}")  # noqa: S311 - a seeded plan, not a secret
    meeting = dice.uniform(settings.shortest_meeting_seconds, settings.longest_meeting_seconds)
    mischievous = dice.random() < settings.mischief
    drawn = dice.choice(NAMES[1:]) if mischievous else "normal"
    name = overrides["plan"] if overrides.get("plan") in (*NAMES, EXTERNAL) else drawn
    plan: dict[str, Any] = {
        "name": name,
        "meeting": seconds(overrides, "meetingSeconds", default=meeting),
        "join": seconds(overrides, "joinSeconds", default=settings.join_seconds),
        "waiting_room": seconds(
            overrides, "waitingRoomSeconds", default=settings.waiting_room_seconds
        ),
        "heartbeat": seconds(overrides, "heartbeatSeconds", default=settings.heartbeat_seconds),
        # A bot that crashes by chance does so once; a bot told to crash does so every time.
        "times": overrides.get("times", None if "plan" in overrides else 1),
    }
    middle = plan["join"] + plan["waiting_room"] + plan["meeting"] / 2
    plan["trouble_at"] = seconds(overrides, "atSeconds", default=middle)
    return plan


def seconds(overrides: dict[str, Any], name: str, *, default: float) -> float:
    value = overrides.get(name)
    return float(value) if isinstance(value, int | float) and value >= 0 else default
