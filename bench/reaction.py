"""How soon Botpool reacts, with all processes running on the default timings.

From outside: the client's POST and the bot's DONE are sent to the API, and the simulated Coolify
notes when it answers the start and the stop. It answers at once, and shows a container as exited
1.3 s after the stop was asked for. The budget is quiet throughout. Meetings last until Coolify
shows their containers running, and count as longer than STATUS_SETTLES_AFTER.
"""

import random
import time
from statistics import median

from django.conf import settings
from django.db.models import F
from django.db.models.functions import Now

from api.keys import create_api_key
from bench.processes import (
    Botpool,
    SimulatedCoolify,
    botpool,
    empty,
    free_port,
    slots,
    until,
)
from bench.table import Row
from bots.models import Bot
from slots.models import Slot, SlotTransition

ROUNDS = 30
SLOTS = 4


def run() -> list[Row]:
    empty()
    key, chance = create_api_key(name="reaction"), random.Random(0)
    with (
        SimulatedCoolify(concurrent_builds=SLOTS) as coolify,
        botpool(
            coolify,
            key=key,
            port=free_port(),
            MAX_POOL_SIZE=str(SLOTS),
            MAX_CONCURRENT_DEPLOYMENTS=str(SLOTS),
            COOLIFY_RATE_LIMIT="100000",
        ) as pool,
    ):
        _make_slots(pool)
        rounds = [_start_and_stop(pool, coolify, chance=chance) for _ in range(ROUNDS)]
        to_next = _hand_over(pool, coolify, chance=chance)
    to_start, to_stop, to_idle = (list(times) for times in zip(*rounds, strict=True))
    return [
        *_rows("POST /bots to Coolify's start, warm idle slot", to_start),
        *_rows("bot says DONE to Coolify's stop", to_stop),
        Row(
            figure=f"container gone to the next waiter's start, median of {len(to_next)}",
            value=_milliseconds(to_next),
            reference="1.5 s",
            ratio=median(to_next) / 1.5,
            aim="below the reference",
            met=median(to_next) < 1.5,
        ),
        Row(
            figure=f"container gone to slot idle, empty queue, median of {len(to_idle)}",
            value=_milliseconds(to_idle),
            reference="1.5 s",
            ratio=median(to_idle) / 1.5,
        ),
    ]


def _rows(figure: str, seconds: list[float]) -> list[Row]:
    """Two references: what is aimed at, and what holds on a loaded machine, too."""
    return [
        Row(
            figure=f"{figure}, median of {len(seconds)}",
            value=_milliseconds(seconds),
            reference=f"{most * 1000:.0f} ms",
            ratio=median(seconds) / most,
            aim=aim,
            met=median(seconds) < most,
        )
        for most, aim in ((0.05, "below the reference"), (0.15, "below, also under load"))
    ]


def _milliseconds(seconds: list[float]) -> str:
    return f"{median(seconds) * 1000:.0f} ms, worst {max(seconds) * 1000:.0f} ms"


def _make_slots(pool: Botpool) -> None:
    """Slots that have run once, as in a pool that has been up for a while."""
    pool.request_bots(SLOTS)
    until(lambda: slots("busy") == SLOTS)
    pool.say_all_done()
    until(lambda: slots("idle") == SLOTS)


def _start_and_stop(
    pool: Botpool, coolify: SimulatedCoolify, *, chance: random.Random
) -> tuple[float, float, float]:
    """The seconds from the request to the start, from DONE to the stop, and to the idle slot."""
    time.sleep(chance.random())  # in no step with anything that runs once a second
    started = _start_one(pool, coolify)
    time.sleep(chance.random())
    return started, *_stop_one(pool, coolify)


def _start_one(pool: Botpool, coolify: SimulatedCoolify) -> float:
    begin = time.time()
    pool.request_bot()
    started = coolify.wait_for("start", since=begin)
    _until_in_meeting(coolify, 1)
    return started - begin


def _until_in_meeting(coolify: SimulatedCoolify, count: int) -> None:
    """So many bots are busy, and Coolify shows their containers."""
    until(lambda: slots("busy") == count)
    busy = Slot.objects.filter(status="busy")
    until(lambda: all(coolify.shows_running(slot.coolify_uuid) for slot in busy))
    longer = 2 * settings.STATUS_SETTLES_AFTER
    busy.filter(status_since__gt=Now() - longer).update(status_since=F("status_since") - longer)


def _stop_one(pool: Botpool, coolify: SimulatedCoolify) -> tuple[float, float]:
    """The seconds from DONE to the stop, and from the container's end to the idle slot."""
    slot = Slot.objects.get(status="busy")
    begin = time.time()
    pool.say_done(slot)
    stopped = coolify.wait_for("stop", since=begin, application=slot.coolify_uuid)
    until(lambda: slots("idle") == SLOTS)
    gone = coolify.gone_at(slot.coolify_uuid, since=begin)
    idle = SlotTransition.objects.filter(slot=slot, to_status="idle").latest("id")
    assert gone is not None
    return stopped - begin, idle.at.timestamp() - gone


def _hand_over(pool: Botpool, coolify: SimulatedCoolify, *, chance: random.Random) -> list[float]:
    """The seconds from a container's end to the start for the bot that waits for its slot."""
    pool.request_bots(SLOTS)
    seconds = []
    for _ in range(ROUNDS):
        _until_in_meeting(coolify, SLOTS)
        pool.request_bot()
        assert Bot.objects.filter(status="QUEUED").count() == 1
        time.sleep(chance.random())
        slot = Slot.objects.filter(status="busy").earliest("last_assigned_at")
        begin = time.time()
        pool.say_done(slot)
        started = coolify.wait_for("start", since=begin, application=slot.coolify_uuid)
        gone = coolify.gone_at(slot.coolify_uuid, since=begin)
        assert gone is not None
        seconds.append(started - gone)
    return seconds
