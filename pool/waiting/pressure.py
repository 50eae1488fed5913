"""How busy a platform is, for clients that want to hold back."""

from dataclasses import dataclass
from datetime import timedelta

from bots.models import Bot
from bots.status import Platform
from core.clock import database_now
from pool.sharing.turns import line_ahead_of
from pool.waiting.estimate import Outlook
from pool.waiting.measurements import measure_platform
from pool.waiting.position import LOOKED_AT, expected_wait


@dataclass(frozen=True, kw_only=True)
class Pressure:
    """`expected_wait`: until a bot that is requested now would run; None without an estimate."""

    free: int
    waiting: int
    expected_wait: timedelta | None
    would_place_now: bool


def pressure_on(platform: Platform, *, client_id: int | None) -> Pressure:
    """For a bot of this client with the usual priority. As many queries however many wait."""
    now = database_now()
    newcomer = Bot(platform=platform.value, client_id=client_id, created_at=now)
    ahead, waiting = line_ahead_of(newcomer)
    stays = [(each.timeout_at - now).total_seconds() for each in ahead if each.timeout_at]
    seen = measure_platform(platform.value)
    outlook = Outlook(seen.measured, seen.pool)
    wait = outlook.wait_behind(stays[:LOOKED_AT], others=len(stays[LOOKED_AT:]))
    return Pressure(
        free=seen.pool.free,
        waiting=waiting,
        expected_wait=expected_wait(wait, seen=seen),
        would_place_now=seen.pool.free > 0 and not ahead and seen.paused is None,
    )
