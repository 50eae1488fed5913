"""Checks the evidence of a run: Botpool kept its promises, whatever was broken.

Each claim is a function that yields its violations. Coolify's own lies limit what a claim can ask
of Botpool:

- A bot is never in two meetings at once, whatever Coolify says.
- A container that comes up after its bot was placed elsewhere asks before it joins, learns that
  it is unassigned, and never joins a meeting.
- A container with a bot in a meeting is removed only after the bot has ended: by its client, by
  an operator, by itself, after its heartbeat timeout, or because its container was down or
  crashed again and again. A bot that runs and can call is never given up.
"""

import itertools
from collections.abc import Iterator
from typing import Any

from coolify.simulator.record import bots_in_two_containers, bots_in_two_meetings, overlapping
from tests.chaos import scale
from tests.chaos.evidence import ENDS, Bot, Event, Evidence
from tests.chaos.promises import (
    BLINK,
    every_end_was_delivered,
    no_bot_went_to_a_server_out_of_service,
    no_client_saw_the_bots_of_another,
    no_client_was_starved,
    no_slot_stayed_idle_beside_a_waiter,
    no_state_outlived_its_deadline,
    the_mirror_was_right,
    waits_by_platform,
    was_being_cancelled,
)

BY_BOTPOOL = ("stopped", "application deleted", "replaced by a new deployment")
IN_MEETING = ("JOINING_CALL", "IN_WAITING_ROOM", "IN_CALL")
MOST_CRASHES = 10  # the default of MAX_CONTAINER_RESTARTS
CONTAINER_EVIDENCE = scale.TIMES["CONTAINER_EVIDENCE"] / 1000
# After a clean-up, starts that were decided before may each find the image gone.
SINCE_A_CLEAN_UP = 30.0
LATE = "chaos:late"  # the witnesses' actor when they act on outdated data


KINDS = ("lost", "doubled", "stuck", "other")


def violations(evidence: Evidence) -> list[str]:
    return [violation for _, violation in by_kind(evidence)]


def by_kind(evidence: Evidence) -> list[tuple[str, str]]:
    """Each violation, with one of KINDS."""
    return [(kind, violation) for claim, kind in CLAIMS.items() for violation in claim(evidence)]


def _with_history(evidence: Evidence, text: str, *bot_ids: int) -> str:
    lines = [line for bot_id in bot_ids for line in evidence.history(bot_id)]
    return "\n      ".join([text, *lines])


# --- Bots ------------------------------------------------------------------------------------


def every_accepted_bot_ended_exactly_once(evidence: Evidence) -> Iterator[str]:
    for accepted in evidence.clients.accepted:
        bot_id = accepted.bot_id
        ends = [each for each in evidence.events_of[bot_id] if each.to_status in ENDS]
        if bot_id not in evidence.bots:
            yield f"bot {bot_id} was accepted and is lost"
        elif len(ends) != 1 or evidence.bots[bot_id].status != ends[0].to_status:
            yield _with_history(evidence, f"bot {bot_id} ended {len(ends)} times", bot_id)
    for refused in evidence.clients.refused:
        yield f"a client's request was refused or never answered: {refused}"


def every_bot_has_one_request(evidence: Evidence) -> Iterator[str]:
    """A client that retries with the same Idempotency-Key gets the same bot."""
    ids = [accepted.bot_id for accepted in evidence.clients.accepted]
    if len(set(ids)) != len(ids):
        yield f"two requests were answered with one bot: {sorted(ids)}"
    for bot_id in sorted(set(evidence.bots) - set(ids)):
        yield _with_history(evidence, f"no client asked for bot {bot_id}", bot_id)


def every_reason_to_end_is_true(evidence: Evidence) -> Iterator[str]:
    clients = evidence.clients
    released = {name for _, name in clients.released}
    for bot in evidence.bots.values():
        if bot.status == "CANCELLED" and bot.id not in clients.cancelled:
            yield _with_history(evidence, f"bot {bot.id}: no client cancelled it", bot.id)
        if bot.failure_cause == "operator" and bot.slot_name not in released:
            yield _with_history(evidence, f"bot {bot.id}: no operator released its slot", bot.id)
        expired = bot.failure_cause == "queue_timeout"
        if expired and not _waited_in_vain(evidence, bot):
            yield _with_history(evidence, f"bot {bot.id} expired before its queue timeout", bot.id)


def _waited_in_vain(evidence: Evidence, bot: Bot) -> bool:
    """For its queue timeout since it last joined the queue; one that got a slot at once waits for
    its image there. One that lost its server gives up that long, plus a start, after its request.
    """
    waits = ("PENDING", "QUEUED")
    joined = [event.at for event in evidence.events_of[bot.id] if event.to_status in waits]
    ended = (bot.ended_at or 0.0) + 0.01
    longest = bot.queue_timeout + scale.seconds("DEPLOY_TIMEOUT")
    return ended - joined[-1] >= bot.queue_timeout or ended - joined[0] >= longest


# --- Slots and containers --------------------------------------------------------------------


def no_bot_in_two_places(evidence: Evidence) -> Iterator[str]:
    for bot_id in bots_in_two_meetings(evidence.containers):
        yield _with_history(evidence, f"bot {bot_id} was in two meetings at once", int(bot_id))
    survivors = evidence.survivors()
    joined = [
        each
        for each in evidence.containers
        if each["id"] not in survivors and _joined_at(each) is not None
    ]
    for bot_id in bots_in_two_containers(joined):
        yield _with_history(evidence, f"bot {bot_id} had two containers at once", int(bot_id))


def no_late_container_joined(evidence: Evidence) -> Iterator[str]:
    """Once an assignment is over, its container does not join: it asks first, and is told."""
    over: dict[tuple[str, int], float] = {}
    names: dict[str, str] = {}
    for each in evidence.transitions:
        names[each.coolify_uuid] = each.slot_name
        over.setdefault((each.slot_name, each.epoch - 1), each.at)
    for container in evidence.containers:
        slot = names.get(container["application_uuid"], "?")
        ended = over.get((slot, container["epoch"]))
        joined = _joined_at(container)
        if ended is not None and joined is not None and joined > ended + BLINK:
            text = f"container {container['id']} joined after its assignment was over"
            yield _with_history(evidence, text, int(container["bot_id"]))


def _joined_at(container: dict[str, Any]) -> float | None:
    joins = [life["joinedAt"] for life in container["past_lives"]] + [container["joined_at"]]
    return max((each for each in joins if each is not None), default=None)


def no_slot_with_two_bots(evidence: Evidence) -> Iterator[str]:
    holders: dict[int, Any] = {}
    numbers: dict[int, str] = {}
    for each in evidence.transitions:
        held = holders.get(each.slot_id)
        if each.is_assignment and held is not None:
            yield f"{each.slot_name} was assigned while it was held:\n      {held}\n      {each}"
        if numbers.setdefault(each.slot_id, each.slot_name) != each.slot_name:
            yield f"slot {each.slot_id} has two names: {numbers[each.slot_id]}, {each.slot_name}"
        if each.is_assignment:
            holders[each.slot_id] = each
        elif each.to_status not in ("deploying", "busy"):
            holders[each.slot_id] = None
    if len(set(numbers.values())) != len(numbers):
        yield f"two slots have one name: {sorted(numbers.values())}"
    survivors = evidence.survivors()
    for uuid in overlapping(
        (each["application_uuid"], each["started_at"], each["ended_at"])
        for each in evidence.containers
        if each["id"] not in survivors
    ):
        yield f"two containers ran in the application {uuid} at once"


def no_container_without_assignment(evidence: Evidence) -> Iterator[str]:
    assigned = {
        (each.slot_name, each.bot_id, each.epoch)
        for each in evidence.transitions
        if each.is_assignment
    }
    names = {each.coolify_uuid: each.slot_name for each in evidence.transitions}
    for each in evidence.containers:
        if each["bot_id"] is None:
            yield f"container {each['id']} of {each['application_uuid']} has no bot"
            continue
        identity = (names.get(each["application_uuid"], "?"), int(each["bot_id"]), each["epoch"])
        if identity not in assigned:
            text = f"container {each['id']} ran as {identity}, which was never assigned"
            yield _with_history(evidence, text, int(each["bot_id"]))


# --- Meetings --------------------------------------------------------------------------------


def no_live_meeting_was_stopped(evidence: Evidence) -> Iterator[str]:
    for container in evidence.containers:
        if _was_cut_short(container) and not _cut_by_havoc(evidence, container):
            bot_id = int(container["bot_id"])
            end = evidence.end_of(bot_id)
            ended_before = end is not None and end.at <= container["ended_at"]
            if not ended_before or not _may_end_a_meeting(evidence, container, end):
                yield _with_history(evidence, f"the meeting of bot {bot_id} was stopped", bot_id)


def _was_cut_short(container: dict[str, Any]) -> bool:
    last = container["past_lives"][-1] if container["past_lives"] else None
    return (
        last is not None
        and container["end_reason"] in BY_BOTPOOL
        and last["reason"] == container["end_reason"]  # it ran until it was removed
        and last["reported"] in IN_MEETING
        and not last["toldToLeave"]
    )


def _cut_by_havoc(evidence: Evidence, container: dict[str, Any]) -> bool:
    deleted = container["end_reason"] == "application deleted"
    return deleted and container["application_uuid"] in evidence.havoc.deleted


def _may_end_a_meeting(evidence: Evidence, container: dict[str, Any], end: Event | None) -> bool:
    if end is None:
        return False
    cause = evidence.bots[end.bot_id].failure_cause
    by_people = end.to_status == "CANCELLED" or cause == "operator"
    by_itself = end.actor == f"bot:{end.bot_id}"
    silent = container["plan"].get("name") == "silent" and cause == "heartbeat_lost"
    was_down = len(container["past_lives"]) > 1 and cause == "container_gone"
    # The last life is the one that was cut short.
    crashed_on = len(container["past_lives"]) > MOST_CRASHES and cause == "container_failed"
    return by_people or by_itself or silent or was_down or crashed_on


def no_living_bot_was_given_up(evidence: Evidence) -> Iterator[str]:
    """A bot whose container ran for the whole timeout does not fail for silence."""
    windows = {"heartbeat_lost": scale.HEARTBEAT_TIMEOUT, "container_gone": CONTAINER_EVIDENCE}
    for bot in evidence.bots.values():
        kind = bot.failure_cause
        if kind not in windows or bot.ended_at is None:
            continue
        begin, end = bot.ended_at - windows[kind], bot.ended_at
        if any(_ran(each, begin, end) for each in evidence.containers_of[bot.id]):
            yield _with_history(evidence, f"bot {bot.id} was running and was given up", bot.id)


def _ran(container: dict[str, Any], begin: float, end: float) -> bool:
    if container["plan"].get("name") == "silent":
        return False
    present = (container["life_started_at"], container["ended_at"] or 1e12, container["joined_at"])
    lives = [(x["startedAt"], x["endedAt"], x["joinedAt"]) for x in container["past_lives"]]
    running = [present] if container["state"] == "running" else []
    return any(
        joined is not None and joined <= begin and ended >= end
        for _, ended, joined in [*lives, *running]
    )


# --- Images and the queue --------------------------------------------------------------------


def one_cold_pull_at_a_time(evidence: Evidence) -> Iterator[str]:
    for pull in evidence.pulls:
        if pull["cold"] and pull["overlapped"] and not _just_cleaned_up(evidence, pull):
            yield f"two cold pulls of one image at once: {pull}"


def _just_cleaned_up(evidence: Evidence, pull: dict[str, Any]) -> bool:
    return any(
        each["kind"] == "images pruned"
        and each["server"] == pull["server_uuid"]
        and pull["image"] in each["images"]
        and 0 <= pull["started_at"] - each["at"] < SINCE_A_CLEAN_UP
        for each in evidence.coolify_events
    )


def queue_order_was_kept(evidence: Evidence) -> Iterator[str]:
    """A bot that gets a slot overtakes no waiter of its client with an earlier turn.

    Its transaction sees what was committed before it began. How long it takes does not matter.
    """
    waits = waits_by_platform(evidence)
    for event in evidence.events:
        if event.to_status == "DEPLOYING":
            bot = evidence.bots[event.bot_id]
            for other, begin, end in waits[bot.platform]:
                was_waiting = begin < event.began - BLINK and end > event.committed
                comparable = other.id != bot.id and other.client_id == bot.client_id
                is_excused = was_being_cancelled(evidence, other, event)
                if comparable and was_waiting and not is_excused and _turn(other) < _turn(bot):
                    text = f"bot {bot.id} overtook bot {other.id}"
                    yield _with_history(evidence, text, bot.id, other.id)


def _turn(bot: Bot) -> float:
    return bot.created_at + bot.priority * scale.QUEUE_AGEING


# --- Witnesses -------------------------------------------------------------------------------


def no_write_under_a_lost_lease(evidence: Evidence) -> Iterator[str]:
    """Each holder writes once, and each acquisition increments the fence."""
    for before, after in itertools.pairwise(evidence.fences):
        if after <= before:
            yield f"a witness wrote with fence {after} after fence {before} had written"


def no_slot_was_moved_too_late(evidence: Evidence) -> Iterator[str]:
    for each in evidence.transitions:
        if each.actor == LATE:
            yield f"a witness moved a slot that had moved on: {each}"


CLAIMS = {
    every_accepted_bot_ended_exactly_once: "lost",
    every_bot_has_one_request: "doubled",
    every_reason_to_end_is_true: "lost",
    no_bot_in_two_places: "doubled",
    no_late_container_joined: "doubled",
    no_slot_with_two_bots: "doubled",
    no_container_without_assignment: "doubled",
    no_live_meeting_was_stopped: "lost",
    no_living_bot_was_given_up: "lost",
    one_cold_pull_at_a_time: "doubled",
    queue_order_was_kept: "other",
    no_write_under_a_lost_lease: "other",
    no_slot_was_moved_too_late: "other",
    no_state_outlived_its_deadline: "stuck",
    no_slot_stayed_idle_beside_a_waiter: "stuck",
    no_client_was_starved: "stuck",
    no_bot_went_to_a_server_out_of_service: "other",
    no_client_saw_the_bots_of_another: "other",
    every_end_was_delivered: "lost",
    the_mirror_was_right: "stuck",
}
