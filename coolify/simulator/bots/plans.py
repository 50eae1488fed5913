import random
from typing import Any

from coolify.simulator.settings import Settings

NAMES = ("normal", "crash", "fail", "hang", "silent", "exit")


def make_plan(*, settings: Settings, bot_id: str, wishes: dict[str, Any]) -> dict[str, Any]:
    """What a bot will do: the same for the same seed and bot, but for what `wishes` says.

    Wishes are the bot's `config.simulate`: `plan` (one of NAMES), `meetingSeconds`, `joinSeconds`,
    `waitingRoomSeconds`, `heartbeatSeconds`, `atSeconds` (when the trouble begins, counted from
    the bot's first call) and `times` (how many lives end in a crash or an early exit).
    """
    dice = random.Random(f"{settings.seed}:{bot_id}")  # noqa: S311 - a seeded plan, not a secret
    meeting = dice.uniform(settings.shortest_meeting_seconds, settings.longest_meeting_seconds)
    mischievous = dice.random() < settings.mischief
    drawn = dice.choice(NAMES[1:]) if mischievous else "normal"
    name = wishes["plan"] if wishes.get("plan") in NAMES else drawn
    plan: dict[str, Any] = {
        "name": name,
        "meeting": seconds(wishes, "meetingSeconds", default=meeting),
        "join": seconds(wishes, "joinSeconds", default=settings.join_seconds),
        "waiting_room": seconds(
            wishes, "waitingRoomSeconds", default=settings.waiting_room_seconds
        ),
        "heartbeat": seconds(wishes, "heartbeatSeconds", default=settings.heartbeat_seconds),
        # By chance a bot crashes once and then recovers; one told to crash does so every time.
        "times": wishes.get("times", None if "plan" in wishes else 1),
    }
    middle = plan["join"] + plan["waiting_room"] + plan["meeting"] / 2
    plan["trouble_at"] = seconds(wishes, "atSeconds", default=middle)
    return plan


def seconds(wishes: dict[str, Any], name: str, *, default: float) -> float:
    value = wishes.get(name)
    return float(value) if isinstance(value, int | float) and value >= 0 else default
