"""What the checker proves about time and fairness: deadlines, starvation, tenants, the mirror.

See checker.py for what it proves about safety.
"""

import itertools
import math
from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from tests.chaos import scale
from tests.chaos.evidence import Bot, Delivery, Event, Evidence, ServerChange, Transition
from tests.chaos.fleet import NODES
from tests.chaos.havoc import Havoc

IN_SERVICE = ("healthy", "degraded")
HOLDS_SLOT = ("DEPLOYING", "JOINING_CALL", "IN_WAITING_ROOM", "IN_CALL", "LEAVING")
# Between a commit's timestamp and the moment at which others see it: the standby answers first.
BLINK = 1.0
# A worker that dies in the middle of a delivery delays it by this much (CLAIM in deliveries.py).
CLAIMED_FOR = 30.0
WEBHOOK_ATTEMPTS = 12  # the default of the setting


Away = tuple[float, float]  # from, until


class Span(NamedTuple):
    """A time that a bot waited or held a slot. It began and ended at the latest and earliest moment
    at which every other transaction could know."""

    bot: Bot
    begin: float
    end: float


# --- Deadlines ---------------------------------------------------------------------------------


def no_state_outlived_its_deadline(evidence: Evidence) -> Iterator[str]:
    """A slot's deadlines begin anew with each long outage: while Coolify or a server is away,
    nothing can be stopped, and evidence has to last without a break. Those of bots need PostgreSQL
    only. The time in which no worker or no ticker of either node could run does not count."""
    havoc = evidence.havoc
    away = _long([*havoc.coolify_away, *havoc.servers_away, *havoc.postgres_away])
    nobody = _no_worker_or_no_ticker(havoc)
    for before, after in _moves_of_slots(evidence):
        begin = _last_end(away, before.at, after.at)
        took = after.at - begin - _seconds_in(nobody, begin, after.at)
        longest = _longest_in_slot(evidence, before)
        if took > longest + scale.SLACK:
            text = f"{took:.0f} s instead of {longest:.0f} s"
            yield f"{before.slot_name} was {before.to_status} for {text}:\n      {before}"
    for earlier, later in _moves_of_bots(evidence):
        begin = _last_end(havoc.postgres_away, earlier.at, later.at)
        took = later.at - begin - _seconds_in(nobody, begin, later.at)
        deadline = _longest_of_bot(evidence, earlier)
        if deadline is not None and took > deadline + scale.SLACK:
            text = f"{took:.0f} s instead of {deadline:.0f} s"
            yield f"bot {earlier.bot_id} was {earlier.to_status} for {text}"


def _long(spans: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Outages that SLACK does not cover. Several within a moment count as one."""
    joined: list[tuple[float, float]] = []
    for since, until in sorted(spans):
        if joined and since - joined[-1][1] < scale.MOMENT:
            since, until = joined[-1][0], max(until, joined.pop()[1])
        joined.append((since, until))
    return [(since, until) for since, until in joined if until - since >= scale.MOMENT]


def _last_end(spans: list[tuple[float, float]], begin: float, end: float) -> float:
    """When the last of the outages that touch this time was over; `begin` if there is none."""
    return max(
        (min(until, end) for since, until in spans if since < end and until > begin), default=begin
    )


def _no_worker_or_no_ticker(havoc: Havoc) -> list[Away]:
    """When all workers or all tickers were dead, frozen or cut off from PostgreSQL."""
    return [away for role in ("worker", "ticker") for away in _all_away(havoc, role)]


def _all_away(havoc: Havoc, role: str) -> list[Away]:
    away = [
        [*havoc.members_away[f"{role} {node}"], *havoc.members_away[f"gate to postgres {node}"]]
        for node in range(1, NODES + 1)
    ]
    return [
        (max(since for since, _ in spans), min(until for _, until in spans))
        for spans in itertools.product(*away)
        if max(since for since, _ in spans) < min(until for _, until in spans)
    ]


def _seconds_in(spans: list[Away], begin: float, end: float) -> float:
    """How many of the seconds from `begin` to `end` are in one of the spans, or in several."""
    added, done = 0.0, begin
    for since, until in sorted(spans):
        since, until = max(since, done), min(until, end)
        if since < until:
            added, done = added + until - since, until
    return added


def _moves_of_slots(evidence: Evidence) -> Iterator[tuple[Transition, Transition]]:
    moves = defaultdict(list)
    for each in evidence.transitions:
        if each.from_status != each.to_status:
            moves[each.slot_id].append(each)
    for rows in moves.values():
        yield from itertools.pairwise(rows)


def _moves_of_bots(evidence: Evidence) -> Iterator[tuple[Event, Event]]:
    for rows in evidence.events_of.values():
        yield from itertools.pairwise([each for each in rows if each.from_status != each.to_status])


def _longest_in_slot(evidence: Evidence, since: Transition) -> float:
    match since.to_status:
        case "deploying":
            # It waits for its image and a build place, then in Coolify's queue, then builds.
            bot = evidence.bots.get(since.bot_id or 0)
            waits = bot.queue_timeout if bot else 0.0
            under_way = 2 * scale.seconds("DEPLOY_TIMEOUT") + scale.seconds("DEPLOY_GRACE_PERIOD")
            return waits + under_way
        case "stopping":
            return scale.seconds("STOP_STUCK_AFTER")
        case "error":
            # It also waits for its server to return.
            return scale.LAST_RECOVERY_PAUSE + scale.LONGEST_SERVER_OUTAGE
    return float("inf")


def _longest_of_bot(evidence: Evidence, since: Event) -> float | None:
    if since.to_status == "PENDING":
        return scale.seconds("PENDING_LOST_AFTER")
    if since.to_status == "QUEUED":
        return evidence.bots[since.bot_id].queue_timeout
    return None


# --- Starvation --------------------------------------------------------------------------------


def no_slot_stayed_idle_beside_a_waiter(evidence: Evidence) -> Iterator[str]:
    waits = waits_by_platform(evidence)
    for before, after in _moves_of_slots(evidence):
        if before.to_status != "idle" or _a_server_was_away(evidence, before.at, after.at):
            continue
        platform = _platform_of(evidence, after)
        for wait in waits[platform]:
            begin, end = max(wait.begin, before.at), min(wait.end, after.at)
            together = end - _last_end(evidence.havoc.postgres_away, begin, end)
            if together > scale.UNUSED:
                yield f"bot {wait.bot.id} waited {together:.0f} s beside the idle {after.slot_name}"


def _platform_of(evidence: Evidence, transition: Transition) -> str:
    bot = evidence.bots.get(transition.bot_id or 0)
    return bot.platform if bot else ""


def _a_server_was_away(evidence: Evidence, begin: float, end: float) -> bool:
    """Slots on a server that is away are idle and no use. Coolify takes a while to find it back."""
    return any(
        begin < until + scale.SLACK and since < end for since, until in evidence.havoc.servers_away
    )


def no_bot_went_to_a_server_out_of_service(evidence: Evidence) -> Iterator[str]:
    """Once that was committed, no transaction that began later gave a bot a slot there."""
    for known, back in _out_of_service(evidence):
        for event in evidence.events:
            server = evidence.server_of.get((event.slot_name, event.epoch or 0))
            if event.to_status != "DEPLOYING" or server != known.server:
                continue
            if known.committed + BLINK < event.began and event.at < back:
                late = event.began - known.committed
                yield f"{server} was known to be {known.state} for {late:.1f} s:\n      {event}"


def _out_of_service(evidence: Evidence) -> Iterator[tuple[ServerChange, float]]:
    """Each such state, and when the server was next in service."""
    for change in evidence.server_changes:
        later = (
            each.at
            for each in evidence.server_changes
            if each.server == change.server and each.at > change.at and each.state in IN_SERVICE
        )
        if change.state not in IN_SERVICE:
            yield change, min(later, default=math.inf)


def no_client_was_starved(evidence: Evidence) -> Iterator[str]:
    """No client gets a second slot while another one waits and has none."""
    waits, holds = waits_by_platform(evidence), _holds_by_platform(evidence)
    for event in evidence.events:
        if event.to_status != "DEPLOYING":
            continue
        bot = evidence.bots[event.bot_id]
        holders = holds[bot.platform]
        if any(_of(each, bot.client_id) and _covers(each, event) for each in holders):
            for wait in waits[bot.platform]:
                if wait.bot.client_id != bot.client_id and _starves(evidence, wait, event, holders):
                    yield (
                        f"client {wait.bot.client_id} had no {bot.platform} slot and waited with"
                        f" bot {wait.bot.id} when client {bot.client_id} got another one for bot"
                        f" {bot.id}"
                    )


def _starves(evidence: Evidence, wait: Span, event: Event, holders: list[Span]) -> bool:
    begin, end = event.began - BLINK, event.committed + BLINK
    has_one = any(
        _of(each, wait.bot.client_id) and each.begin < end and begin < each.end for each in holders
    )
    excused = has_one or was_being_cancelled(evidence, wait.bot, event)
    return _covers(wait, event) and not excused


def _of(span: Span, client_id: int | None) -> bool:
    return span.bot.client_id == client_id


def waits_by_platform(evidence: Evidence) -> dict[str, list[Span]]:
    return _spans(evidence, ("QUEUED",))


def _holds_by_platform(evidence: Evidence) -> dict[str, list[Span]]:
    return _spans(evidence, HOLDS_SLOT)


def _spans(evidence: Evidence, statuses: tuple[str, ...]) -> dict[str, list[Span]]:
    spans: dict[str, list[Span]] = defaultdict(list)
    for bot in evidence.bots.values():
        rows = evidence.events_of[bot.id]
        for event, following in zip(rows, [*rows[1:], None], strict=True):
            if event.to_status in statuses:
                end = following.at if following else evidence.collected_at
                if event.to_status == "QUEUED":
                    end = min(end, _waits_until(bot, event))
                spans[bot.platform].append(Span(bot, event.committed, end))
    return spans


def _waits_until(bot: Bot, queued: Event) -> float:
    """One that has lost its server is not started long after its request."""
    until = queued.at + bot.queue_timeout
    if queued.reason.startswith("Placed again: Server "):
        return min(until, bot.created_at + bot.queue_timeout + scale.seconds("DEPLOY_TIMEOUT"))
    return until


def _covers(span: Span, event: Event) -> bool:
    return span.begin < event.began - BLINK and span.end > event.committed + BLINK


def was_being_cancelled(evidence: Evidence, bot: Bot, event: Event) -> bool:
    """Its row may have been locked by that, and such a waiter is skipped."""
    asked = evidence.clients.cancelled.get(bot.id)
    return asked is not None and asked < event.committed + BLINK


# --- Tenants, webhooks, the mirror -------------------------------------------------------------


def no_client_saw_the_bots_of_another(evidence: Evidence) -> Iterator[str]:
    for bot_id in evidence.clients.shown_to_others:
        yield f"bot {bot_id} was shown to another client"


def every_end_was_delivered(evidence: Evidence) -> Iterator[str]:
    """… or will be. A receiver that hangs delays only its own events."""
    for each in evidence.deliveries:
        age = evidence.collected_at - each.ended_at
        if not each.noted:
            fault = "was forgotten" if age > scale.SLACK else ""
        elif each.delivered_at is None:
            fault = _why_late(each, age=age)
        else:
            arrived = each.event_id in evidence.received.get(each.receiver, set())
            fault = "" if arrived else "counts as delivered and never arrived"
        if fault:
            yield f"the webhook about the end of bot {each.bot_id} to {each.receiver} {fault}"


def _why_late(delivery: Delivery, *, age: float) -> str:
    if not delivery.due and delivery.attempts < WEBHOOK_ATTEMPTS:
        return "was given up"
    if delivery.receiver == "steady" and age > CLAIMED_FOR + scale.SLACK:
        return f"is {age:.0f} s late"
    return ""


def the_mirror_was_right(evidence: Evidence) -> Iterator[str]:
    """Nothing can be written while Coolify or PostgreSQL is away."""
    away = _long([*evidence.havoc.coolify_away, *evidence.havoc.postgres_away])
    for wrong, (begin, end) in evidence.mirror.items():
        seconds = end - _last_end(away, begin, end)
        if seconds > scale.MIRROR:
            yield f"for {seconds:.0f} s, {wrong}"
