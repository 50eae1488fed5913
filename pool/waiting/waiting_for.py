"""What each unfinished bot waits for: a code for machines and one sentence for people.

Decided by rows and their codes alone. No sentence is read to make another.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from django.db import models

from bots.models import Bot
from bots.status import BotStatus, Platform
from coolify.client.calls import CallClass
from coolify.client.resources import DeploymentStatus as CoolifyStatus
from pool.waiting.position import Place, place_in_line, places_in_line
from pool.waiting.starts import Start, Surroundings, starts_of
from pool.waiting.words import count_of, ordinal, time_of
from slots.deployment import Deployment, DeploymentStatus
from slots.status import ContainerStatus


class WaitingCode(models.TextChoices):
    SLOT = "slot", "Slot"
    PAUSED = "paused", "Platform paused"
    IMAGE = "image", "Image"
    BUILD_PLACE = "build_place", "Build place"
    COOLIFY = "coolify", "Coolify"
    BUDGET = "budget", "Budget of calls"
    START = "start", "Start"
    DEPLOYMENT = "deployment", "Deployment"
    CONTAINER = "container", "Container"


@dataclass(frozen=True)
class WaitingFor:
    """`position`, from 1, where there is a line. `expected_at`: when this wait is expected to end;
    None if nobody can say, or if that time has passed."""

    code: WaitingCode
    message: str
    position: int | None = None
    expected_at: datetime | None = None


def waiting_for(bot: Bot, *, place: Place | None = None) -> WaitingFor | None:
    """None if the bot runs or has ended, or has moved on since it was read. `place`: in the queue,
    where the caller knows it."""
    if bot.status == BotStatus.QUEUED:
        place = place or place_in_line(bot)
        return _slot(bot.platform, place) if place else None
    return waiting_for_each([bot]).get(bot.pk)


def waiting_for_each(bots: Iterable[Bot]) -> dict[int, WaitingFor]:
    """The same for many, by the bots' ids. The number of queries does not grow with theirs."""
    by_status: dict[str, list[Bot]] = {}
    for bot in bots:
        by_status.setdefault(bot.status, []).append(bot)
    waiting = {bot.pk: _TO_BE_PLACED for bot in by_status.get(BotStatus.PENDING, [])}
    waiting |= _each_queued(by_status.get(BotStatus.QUEUED, []))
    deploying = by_status.get(BotStatus.DEPLOYING, [])
    return waiting | each_start_waits_for(bot.pk for bot in deploying)


def each_start_waits_for(bot_ids: Iterable[int]) -> dict[int, WaitingFor]:
    """For those of these bots that have a slot and do not run in it yet."""
    bot_ids = list(bot_ids)
    starts = starts_of(bot_ids) if bot_ids else {}
    around = Surroundings(start.deployment.server_uuid for start in starts.values())
    return {bot_id: _start(start, around) for bot_id, start in starts.items()}


# --- A slot -----------------------------------------------------------------------------------

_TO_BE_PLACED = WaitingFor(WaitingCode.SLOT, "The bot is about to get a slot or join the queue.")


def _each_queued(bots: list[Bot]) -> dict[int, WaitingFor]:
    places: dict[int, Place] = {}
    for platform in {bot.platform for bot in bots}:
        places |= places_in_line(platform)
    return {bot.pk: _slot(bot.platform, places[bot.pk]) for bot in bots if bot.pk in places}


def _slot(platform: str, place: Place) -> WaitingFor:
    name, rank = Platform(platform).label, ordinal(place.position)
    gives_up = f"it gives up at {time_of(place.gives_up_at)}"
    if place.paused is None:
        code, message = WaitingCode.SLOT, f"{rank} in the {name} queue; {gives_up}."
    else:
        until = place.paused.paused_until
        pause = f"{name} is paused until {time_of(until) if until else 'it is resumed'}"
        code, message = WaitingCode.PAUSED, f"{pause}; {rank} in the queue, {gives_up}."
    return WaitingFor(code, message, place.position, place.slot_expected_at)


# --- The image and a build place --------------------------------------------------------------

_TO_BE_STARTED = WaitingFor(WaitingCode.START, "The bot is about to be started.")


def _start(start: Start, around: Surroundings) -> WaitingFor:
    match start.deployment.status:
        case DeploymentStatus.WAITING_FOR_IMAGE:
            return _image(start, around)
        case DeploymentStatus.WAITING_FOR_PLACE:
            return _build_place(start, around)
        case DeploymentStatus.STARTING:
            return _no_answer(start, around) or _budget(start, around) or _own_start(start)
        case _:
            return _no_answer(start, around) or _in_coolify(start, around)


def _image(start: Start, around: Surroundings) -> WaitingFor:
    deployment = start.deployment
    if start.pulled_since is None:
        return _TO_BE_STARTED  # the image is there, or this one will pull it
    rank = f"{ordinal(start.position)} of {start.line_length}"
    pulled = f"another deployment has pulled {deployment.image}{_on_server(deployment, around)}"
    message = f"{rank} to start once {pulled}{_gives_up(deployment)}."
    pull = around.typical_start(deployment.image).cold
    expected_at = start.if_ahead(start.pulled_since + pull) if pull else None
    return WaitingFor(WaitingCode.IMAGE, message, start.position, expected_at)


def _build_place(start: Start, around: Surroundings) -> WaitingFor:
    deployment, again = start.deployment, start.next_try_at
    places = around.build_places(deployment.server_uuid)
    rank = f"{ordinal(start.position)} of {start.line_length}"
    held_back = f", not before {time_of(again)}" if again else ""
    message = (
        f"{rank} for {count_of(places, 'build place')}{_on_server(deployment, around)}"
        f"{held_back}{_gives_up(deployment)}."
    )
    # Each place is free again after the time of a start.
    wait = around.typical_start(deployment.image).warm * start.position / places
    expected_at = max(start.now + wait, again or start.now)
    return WaitingFor(WaitingCode.BUILD_PLACE, message, start.position, expected_at)


def _on_server(deployment: Deployment, around: Surroundings) -> str:
    name = around.server_name(deployment.server_uuid)
    return f" on {name}" if name else ""


def _gives_up(deployment: Deployment) -> str:
    return f"; it gives up at {time_of(deployment.deadline)}" if deployment.deadline else ""


# --- Coolify ----------------------------------------------------------------------------------


def _no_answer(start: Start, around: Surroundings) -> WaitingFor | None:
    budget = around.budget
    if budget.circuit != "closed":
        since, again = budget.circuit_since, start.if_ahead(budget.circuit_until)
    else:
        since, again = _observation_fails_since(start.deployment, around), None
        if since is None:
            return None
    begin = f" since {time_of(since)}" if since else ""
    next_try = f"it is tried again at {time_of(again)}" if again else "it is being tried again"
    return WaitingFor(WaitingCode.COOLIFY, f"Coolify has not answered{begin}; {next_try}.")


def _observation_fails_since(deployment: Deployment, around: Surroundings) -> datetime | None:
    """None unless this deployment has been looked for in vain: an older failure says nothing."""
    if deployment.status != DeploymentStatus.IN_PROGRESS or around.watch is None:
        return None
    looked_at = around.watch.looked_at
    is_of_now = looked_at is not None and looked_at >= deployment.status_since
    return around.watch.failing_since if is_of_now else None


def _budget(start: Start, around: Surroundings) -> WaitingFor | None:
    """Whether the budget holds the start back follows from what is spent: a call that it refused
    is tried again at the moment when enough is left."""
    budget, again = around.budget, start.next_try_at
    if budget.paused_until is not None:
        until = budget.paused_until
        message = f"Coolify accepts no calls until {time_of(until)}."
    elif again is not None and budget.classes[CallClass.URGENT].left == 0:
        until = again
        message = f"The calls to Coolify of this minute are spent; next try at {time_of(until)}."
    else:
        return None
    return WaitingFor(WaitingCode.BUDGET, message, expected_at=until)


def _own_start(start: Start) -> WaitingFor:
    deployment, again = start.deployment, start.next_try_at
    if again is not None:
        message = f"The start is tried again at {time_of(again)}: {deployment.reason}"
    else:
        message = "Coolify is being asked to start the container."
    return WaitingFor(WaitingCode.START, message, expected_at=again)


def _in_coolify(start: Start, around: Surroundings) -> WaitingFor:
    deployment = start.deployment
    code, message = WaitingCode.DEPLOYMENT, _deployment_stands(deployment, around)
    if deployment.coolify_ended_at and deployment.coolify_status == CoolifyStatus.FINISHED:
        code = WaitingCode.CONTAINER
        began = time_of(deployment.coolify_ended_at)
        message = f"Coolify started the container at {began}; it has not been seen running yet."
    begin = deployment.building_since or deployment.start_asked_at or deployment.status_since
    typical = around.typical_start(deployment.image)
    lasts = typical.cold if deployment.leader else typical.warm
    return WaitingFor(code, message, None, start.if_ahead(begin + lasts) if lasts else None)


def _deployment_stands(deployment: Deployment, around: Surroundings) -> str:
    if deployment.slot.server_unreachable:
        name = around.server_name(deployment.server_uuid) or "the server"
        return f"Coolify cannot reach {name}, where the container is to start."
    if deployment.building_since is None:
        waits = " and has it in its own queue" if _was_observed(deployment) else ""
        return f"Coolify accepted the start at {time_of(deployment.status_since)}{waits}."
    what = "pulling the image and starting" if deployment.pulling else "starting"
    return f"Coolify has been {what} the container since {time_of(deployment.building_since)}."


def _was_observed(deployment: Deployment) -> bool:
    """Whether Coolify listed it, of late."""
    slot, asked_at = deployment.slot, deployment.start_asked_at
    if slot.container_status != ContainerStatus.DEPLOYING or slot.container_seen_at is None:
        return False
    return asked_at is not None and slot.container_seen_at >= asked_at
