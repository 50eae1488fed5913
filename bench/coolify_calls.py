"""The Coolify calls per bot, and how close 30 warm starts come to the ideal schedule.

The simulated Coolify and Botpool's intervals both run SPEED times faster, so the proportions are
those of a real installation. What a bot may cost is an aim for times when the budget is tight; in
quiet times Botpool spends more, to see and show everything sooner.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from django.conf import settings
from django.db import connection
from django.test import override_settings

from bench.processes import empty
from bench.table import Row
from bots.models import Bot
from bots.status import BotStatus
from coolify.budget.governor import SHARES
from coolify.client.calls import CallClass
from coolify.simulator.control_client import SimulatorControl
from coolify.simulator.settings import DEFAULT_PROJECT, DEFAULT_SERVER, DEFAULT_TOKEN, Settings
from coolify.simulator.simulator import Simulator
from core.leases import WAKE_CHANNEL
from pool.controller.descriptions import OVERDUE_AFTER, slots_with_another_description
from pool.controller.observe import observe_if_due
from pool.controller.places import line_up
from pool.controller.start import FIRST_CALL
from pool.lifecycle import get_slot_for_bot, mark_slot_running
from pool.reconciler.reconcile import reconcile
from pool.reports import record_status
from pool.request import BotRequest, request_bot
from slots.models import Slot
from slots.tokens import Assignment
from tests.controller import advance_one

SPEED = 20
ENDING_TOGETHER = 10
STOPS_AT_ONCE = 4
KINDS = {
    ("GET", "/applications"): "observation",
    ("GET", "/deployments"): "observation",
    ("GET", f"/servers/{DEFAULT_SERVER}/resources"): "observation",
    ("PATCH", "/applications/{uuid}/envs/bulk"): "environment",
    ("POST", "/applications/{uuid}/start"): "start",
    ("POST", "/applications/{uuid}/stop"): "stop",
    ("PATCH", "/applications/{uuid}"): "description",
}
INTERVALS = (
    "POLL_INTERVAL", "DEPLOY_POLL_INTERVAL", "DEPLOY_GRACE_PERIOD", "WATCH_INTERVAL",
    "EXPECTED_START", "STATUS_SETTLES_AFTER", "STOP_CONFIRM_AFTER", "STOP_RETRY_AFTER",
    "RECONCILE_INTERVAL", "DESCRIPTION_SETTLED_AFTER", "OBSERVE_SOONEST",
)  # fmt: skip


def run() -> list[Row]:
    rows = [_schedule()]
    with _tight_budget():
        rows.append(_calls_with_a_queue())
        for slots in (10, 100, 300):
            rows += _calls(slots)
    return [*rows, *_calls(100, tight=False)]


@contextmanager
def _tight_budget() -> Iterator[None]:
    """More than half of the budget is spent: starts and stops are observed at the slower pace, a
    bot's first call is waited for, and only overdue descriptions are written."""
    with (
        patch("pool.controller.observation_times.pressure", return_value=1.0),
        patch("pool.controller.containers.changes.pressure", return_value=1.0),
        patch("pool.controller.start.pressure", return_value=1.0),
        patch("pool.controller.start.FIRST_CALL", FIRST_CALL / SPEED),
        patch("pool.controller.descriptions.OVERDUE_AFTER", OVERDUE_AFTER / SPEED),
        patch.dict(SHARES, {CallClass.TEXT: 0.0}),
    ):
        yield


class Pool:
    """What Botpool's processes do about slots, in one process, at the simulator's speed."""

    def __init__(self, *, concurrent_builds: int) -> None:
        self.simulator = Simulator(
            Settings(
                speed=SPEED,
                rate_limit=None,
                concurrent_builds=concurrent_builds,
                job_workers=concurrent_builds + STOPS_AT_ONCE,
            )
        )
        self.next_reconcile = 0.0
        self.due: dict[int, float] = {}  # by slot

    def __enter__(self) -> "Pool":
        empty()
        self.simulator.__enter__()
        self.control = SimulatorControl(self.simulator.url)
        shorter = {name: getattr(settings, name) / SPEED for name in INTERVALS}
        self.settings = override_settings(
            COOLIFY_API_URL=self.simulator.api_url,
            COOLIFY_API_TOKEN=DEFAULT_TOKEN,
            COOLIFY_PROJECT_UUID=DEFAULT_PROJECT,
            COOLIFY_SERVER_UUIDS=[DEFAULT_SERVER],
            COOLIFY_RATE_LIMIT=100_000,
            MAX_CONCURRENT_DEPLOYMENTS=self.simulator.settings.concurrent_builds,
            PUBLIC_URL="http://127.0.0.1:9",  # bots cannot call: see _report_for_bots
            **shorter,
        )
        self.settings.enable()
        self.control.warm_image(settings.BOT_IMAGES["google-meet"])
        with connection.cursor() as cursor:
            cursor.execute(f"LISTEN {WAKE_CHANNEL}")
        return self

    def __exit__(self, *error: Any) -> None:
        self.settings.disable()
        self.control.close()
        self.simulator.__exit__(*error)

    def until(self, happened: Callable[[], bool], *, seconds: float = 300.0) -> None:
        end = time.monotonic() + seconds
        while not happened():
            if time.monotonic() > end:
                raise TimeoutError(f"the pool did not get there within {seconds:.0f} s")
            self.turn()

    def turn_for(self, *, minutes: float) -> None:
        end = time.monotonic() + minutes * 60 / SPEED
        while time.monotonic() < end:
            self.turn()

    def turn(self) -> None:
        now = time.monotonic()
        observe_if_due()
        line_up()
        self._advance_slots(now)
        if now >= self.next_reconcile:
            reconcile()
            self.next_reconcile = now + settings.RECONCILE_INTERVAL.total_seconds()
        self._report_for_bots()
        time.sleep(settings.POLL_INTERVAL.total_seconds())

    def _advance_slots(self, now: float) -> None:
        """Those that were woken, and those that said when to come again."""
        for notice in connection.connection.notifies(timeout=0):
            kind, _, number = notice.payload.partition(":")
            if kind == "slot":
                self.due[int(number)] = now
        for slot in Slot.objects.in_bulk([pk for pk, at in self.due.items() if at <= now]).values():
            del self.due[slot.pk]
            again = advance_one(slot)
            if again is not None:
                self.due[slot.pk] = now + again.total_seconds()

    def _report_for_bots(self) -> None:
        """Mark slots as running on behalf of bots whose container runs."""
        started = {int(c["bot_id"]) for c in self.control.state()["containers"] if c["bot_id"]}
        for bot in Bot.objects.filter(status=BotStatus.DEPLOYING, pk__in=started):
            slot = get_slot_for_bot(bot)
            if slot is not None:
                mark_slot_running(slot, reason="The bot called from its container", actor="bench")

    def calls_by_kind(self) -> Counter[str]:
        calls: Counter[str] = Counter()
        for route, count in self.control.requests()["counts"].items():
            method, path, _ = route.split()
            calls[KINDS.get((method, path), f"{method} {path}")] += count
        return calls


def _calls(slots: int, *, tight: bool = True) -> list[Row]:
    # Enough build places to start all bots within the length of a meeting.
    with Pool(concurrent_builds=max(2, slots // 5)) as pool:
        _make_slots(pool, slots)
        starting = Interval(pool)
        bots = [_request_bot() for _ in range(slots)]
        pool.until(_no_bot_is_deploying)
        _settle(pool)
        starting.end()
        at_rest = Interval(pool)
        pool.turn_for(minutes=5)
        at_rest.end()
        stopping = Interval(pool)
        for start in range(0, slots, ENDING_TOGETHER):
            for bot in bots[start : start + ENDING_TOGETHER]:
                _say_done(bot)
            pool.turn()
        pool.until(_all_idle)
        _settle(pool)
        stopping.end()
    intervals = [starting, stopping]
    if not tight:
        name = f"{slots} slots, quiet budget"
        return [_per_bot(name, intervals, bots=slots, at_rest=at_rest, most=None)]
    return [
        _per_bot(f"{slots} slots", intervals, bots=slots, at_rest=at_rest),
        Row(
            figure=f"Coolify calls a minute at rest, {slots} busy slots",
            value=f"{at_rest.per_minute:.1f}",
            reference=f"one call per slot and observation: {2 * slots}",
            ratio=at_rest.per_minute / (2 * slots),
            aim="≤ 10 calls",
            met=at_rest.per_minute <= 10,
        ),
    ]


def _calls_with_a_queue() -> Row:
    """A bot waits for every slot that becomes free, so Botpool observes Coolify most often."""
    slots, seconds_between = 20, 15
    with (
        Pool(concurrent_builds=8) as pool,
        override_settings(MAX_POOL_SIZES=dict.fromkeys(settings.MAX_POOL_SIZES, slots)),
    ):
        _make_slots(pool, slots)
        bots = [_request_bot() for _ in range(2 * slots)]
        pool.until(_no_bot_is_deploying)
        _settle(pool)
        at_rest = Interval(pool)
        pool.turn_for(minutes=5)
        at_rest.end()
        full = Interval(pool)
        for bot in bots[:slots]:
            _say_done(bot)
            pool.turn_for(minutes=seconds_between / 60)
        pool.until(
            lambda: not Bot.objects.filter(status="QUEUED").exists() and _no_bot_is_deploying()
        )
        _settle(pool)
        full.end()
    return _per_bot(f"{slots} slots with a queue", [full], bots=slots, at_rest=at_rest)


def _per_bot(
    pool: str,
    intervals: list["Interval"],
    *,
    bots: int,
    at_rest: "Interval",
    most: int | None = 6,
) -> Row:
    """The calls per bot, without the observations that an idle pool makes too."""
    spent = sum((interval.calls for interval in intervals), Counter())
    minutes = sum(interval.minutes for interval in intervals)
    spent["observation"] -= round(at_rest.per_minute * minutes)
    per_bot = spent.total() / bots
    return Row(
        figure=f"Coolify calls per bot from start to idle, {pool}",
        value=f"{per_bot:.1f} ({_share_out(spent, bots)})",
        reference="environment, start, stop: 3",
        ratio=per_bot / 3,
        aim=f"≤ {most} calls" if most else "",
        met=per_bot <= most if most else None,
    )


def _share_out(calls: Counter[str], bots: int) -> str:
    return ", ".join(f"{kind} {count / bots:.1f}" for kind, count in calls.most_common() if count)


class Interval:
    """The calls to Coolify in an interval of simulated time."""

    def __init__(self, pool: "Pool") -> None:
        self.pool = pool
        self.began = time.monotonic()
        self.before = pool.calls_by_kind()

    def end(self) -> None:
        self.minutes = (time.monotonic() - self.began) * SPEED / 60
        self.calls = self.pool.calls_by_kind() - self.before

    @property
    def per_minute(self) -> float:
        return self.calls.total() / self.minutes


def _no_bot_is_deploying() -> bool:
    return not Bot.objects.filter(status=BotStatus.DEPLOYING).exists()


def _all_idle() -> bool:
    return not Slot.objects.exclude(status="idle").exists()


def _settle(pool: Pool) -> None:
    """Wait until the descriptions are up to date."""
    pool.until(lambda: not slots_with_another_description())


def _make_slots(pool: Pool, slots: int) -> None:
    """Create slots that have run once, as in a pool that has been up for a while."""
    bots = [_request_bot() for _ in range(slots)]
    pool.until(_no_bot_is_deploying)
    for bot in bots:
        _say_done(bot)
    pool.until(_all_idle)
    _settle(pool)


def _say_done(bot: Bot) -> None:
    """As the bot itself does."""
    slot = get_slot_for_bot(bot)
    assert slot is not None
    assignment = Assignment(bot_id=bot.pk, slot_id=slot.pk, epoch=slot.epoch)
    record_status(assignment, BotStatus.DONE, reason="Meeting over")


def _schedule() -> Row:
    bots, builds = 30, 2
    with Pool(concurrent_builds=builds) as pool:
        _make_slots(pool, bots)
        begin = time.monotonic()
        for _ in range(bots):
            _request_bot()
        pool.until(_no_bot_is_deploying)
        took = (time.monotonic() - begin) * SPEED
        one = pool.simulator.settings.warm_pull_seconds + pool.simulator.settings.start_seconds
    ideal = one * bots / builds
    return Row(
        figure=f"{bots} warm bots, {builds} build places: time until all run",
        value=f"{took:.0f} s (simulated)",
        reference=f"ideal schedule {ideal:.0f} s",
        ratio=took / ideal,
        aim="≤ 1.3",
        met=took / ideal <= 1.3,
    )


def _request_bot() -> Bot:
    config = {"simulate": {"plan": "normal", "meetingSeconds": 1e9}}
    return request_bot(
        BotRequest(
            meeting_url="https://meet.google.com/abc-defg-hij",
            platform="google-meet",
            config=config,
        ),
        actor="bench",
    )
