"""What a start waits for: the image, a build place, Coolify, its budget, the container."""

from datetime import datetime, timedelta

from django.conf import settings

from coolify.budget.report import BudgetReport
from coolify.client.calls import CallClass
from coolify.client.resources import DeploymentStatus as CoolifyStatus
from pool.waiting.codes import WaitingCode, WaitingFor
from pool.waiting.starts import Start, Surroundings
from pool.waiting.words import count_of, length_of, ordinal, time_of
from slots.deployment import ACTIVE, Deployment, DeploymentStatus
from slots.status import ContainerStatus

TO_BE_STARTED = WaitingFor(WaitingCode.START, "The bot is about to be started.")


def start_waits_for(start: Start, around: Surroundings) -> WaitingFor:
    match start.deployment.status:
        case DeploymentStatus.WAITING_FOR_IMAGE:
            return _image(start, around)
        case DeploymentStatus.WAITING_FOR_PLACE:
            return _build_place(start, around)
        case DeploymentStatus.STARTING:
            return _no_answer(start, around) or _budget(start, around) or _own_start(start)
        case _:
            return _no_answer(start, around) or _in_coolify(start, around)


# --- The image and a build place --------------------------------------------------------------


def _image(start: Start, around: Surroundings) -> WaitingFor:
    puller, deployment = start.puller, start.deployment
    rank = f"{ordinal(start.position)} of {start.line_length}"
    if puller is None and start.is_prepulled:
        line = f"{rank} to start once {deployment.image} is pulled{_on_server(deployment, around)}"
        return _in_line(start, around, WaitingCode.IMAGE, line, None)
    if puller is None:
        return _about_to_start(start, around)
    bot = f"bot #{puller.bot_id}" if start.may_name_puller else "another bot"
    pull = f"{bot} has pulled {deployment.image}{_on_server(deployment, around)}"
    expected_at = start.if_ahead(_end_of_pull(puller, around))
    line = f"{rank} to start once {pull}{_state_of_pull(puller, start, around, expected_at)}"
    return _in_line(start, around, WaitingCode.IMAGE, line, expected_at)


def _about_to_start(start: Start, around: Surroundings) -> WaitingFor:
    """The image is there, or this one will pull it: only Coolify can hold it up."""
    if not start.is_coolify_away:
        return TO_BE_STARTED
    message = f"{_away(start, around.budget)}{_gives_up(start.deployment)}."
    return WaitingFor(WaitingCode.COOLIFY, message)


def _end_of_pull(puller: Deployment, around: Surroundings) -> datetime | None:
    lasts = around.typical_start(puller.image).cold
    began_at = puller.building_since or puller.start_asked_at
    return began_at + lasts if began_at and lasts else None


def _state_of_pull(
    puller: Deployment, start: Start, around: Surroundings, expected_at: datetime | None
) -> str:
    if puller.status not in ACTIVE:
        return ", whose start has failed and is being cancelled in Coolify"
    if puller.start_asked_at is None:
        return ", which has not begun yet"
    return _about(expected_at, start, around)


def _build_place(start: Start, around: Surroundings) -> WaitingFor:
    deployment, again = start.deployment, start.next_try_at
    places = around.build_places(deployment.server_uuid)
    # Each place is free again after the time of a start.
    wait = around.typical_start(deployment.image).warm * start.position / places
    expected_at = max(start.now + wait, again or start.now)
    rank = f"{ordinal(start.position)} of {start.line_length}"
    held_back = f", not before {time_of(again)}" if again else _about(expected_at, start, around)
    where = _on_server(deployment, around)
    line = f"{rank} for {count_of(places, 'build place')}{where}{held_back}"
    return _in_line(start, around, WaitingCode.BUILD_PLACE, line, expected_at)


def _in_line(
    start: Start,
    around: Surroundings,
    code: WaitingCode,
    line: str,
    expected_at: datetime | None,
) -> WaitingFor:
    """A line does not move while Coolify is away: then that is what the bot waits for."""
    gives_up = _gives_up(start.deployment)
    if around.budget.circuit != "closed":
        away = _away(start, around.budget)
        return WaitingFor(WaitingCode.COOLIFY, f"{away}; {line}{gives_up}.", start.position)
    return WaitingFor(code, f"{line}{gives_up}.", start.position, expected_at)


def _about(expected_at: datetime | None, start: Start, around: Surroundings) -> str:
    if expected_at is None or around.budget.circuit != "closed":
        return ""
    return f", about {length_of(expected_at - start.now)}"


def _on_server(deployment: Deployment, around: Surroundings) -> str:
    name = around.server_name(deployment.server_uuid)
    return f" on {name}" if name else ""


def _gives_up(deployment: Deployment) -> str:
    return f"; the bot gives up at {time_of(deployment.deadline)}" if deployment.deadline else ""


# --- Coolify does not answer, or may not be asked ---------------------------------------------


def _no_answer(start: Start, around: Surroundings) -> WaitingFor | None:
    if around.budget.circuit != "closed":
        return WaitingFor(WaitingCode.COOLIFY, f"{_away(start, around.budget)}.")
    since = _observation_fails_since(start.deployment, around)
    if since is None:
        return None
    return WaitingFor(
        WaitingCode.COOLIFY,
        f"Coolify has not answered since {time_of(since)}; it is being tried again.",
    )


def _away(start: Start, budget: BudgetReport) -> str:
    since, again = budget.circuit_since, start.if_ahead(budget.circuit_until)
    begin = f" since {time_of(since)}" if since else ""
    next_try = f"it is tried again at {time_of(again)}" if again else "it is being tried again"
    return f"Coolify has not answered{begin}; {next_try}"


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


# --- The start and its container --------------------------------------------------------------


def _own_start(start: Start) -> WaitingFor:
    deployment, again = start.deployment, start.next_try_at
    if again is not None:
        message = f"The start is tried again at {time_of(again)}: {deployment.reason}"
    else:
        message = "Coolify is being asked to start the container."
    return WaitingFor(WaitingCode.START, message, expected_at=again)


def _in_coolify(start: Start, around: Surroundings) -> WaitingFor:
    deployment = start.deployment
    begin = deployment.building_since or deployment.start_asked_at or deployment.status_since
    typical = around.typical_start(deployment.image)
    lasts = typical.cold if deployment.leader else typical.warm
    expected_at = start.if_ahead(begin + lasts) if lasts else None
    if deployment.coolify_ended_at is not None:
        return _after_coolify(deployment, deployment.coolify_ended_at, expected_at)
    message = _deployment_stands(deployment, around)
    if deployment.building_since is not None and not deployment.slot.server_unreachable:
        message = f"{message}{_usually(lasts, is_late=expected_at is None)}"
    return WaitingFor(WaitingCode.DEPLOYMENT, f"{message}.", None, expected_at)


def _usually(lasts: timedelta | None, *, is_late: bool) -> str:
    if lasts is None:
        return ""
    return f", {'longer than' if is_late else 'of'} the usual {length_of(lasts)}"


def _after_coolify(
    deployment: Deployment, ended_at: datetime, expected_at: datetime | None
) -> WaitingFor:
    """The build has ended: the container comes up, or the failure is being confirmed."""
    ended = time_of(ended_at)
    if deployment.coolify_status != CoolifyStatus.FINISHED:
        message = (
            f"Coolify's deployment ended as {deployment.coolify_status} at {ended}; "
            "the bot is about to be placed again."
        )
        return WaitingFor(WaitingCode.DEPLOYMENT, message)
    fails = f"the start counts as failed at {time_of(ended_at + settings.DEPLOY_GRACE_PERIOD)}"
    seen = deployment.slot.container_seen_at
    if seen is not None and seen > ended_at:
        state = deployment.slot.get_container_status_display().lower()
        message = f"Coolify started the container at {ended}, but shows it as {state}; {fails}."
    else:
        message = (
            f"Coolify started the container at {ended}; it has not been seen running yet "
            f"and {fails}."
        )
    return WaitingFor(WaitingCode.CONTAINER, message, None, expected_at)


def _deployment_stands(deployment: Deployment, around: Surroundings) -> str:
    if deployment.slot.server_unreachable:
        name = around.server_name(deployment.server_uuid) or "the server"
        return f"Coolify cannot reach {name}, where the container is to start"
    if deployment.building_since is None:
        waits = " and has it in its own queue" if _was_observed(deployment) else ""
        return f"Coolify accepted the start at {time_of(deployment.status_since)}{waits}"
    what = "pulling the image and starting" if deployment.pulling else "starting"
    return f"Coolify has been {what} the container since {time_of(deployment.building_since)}"


def _was_observed(deployment: Deployment) -> bool:
    """Whether Coolify listed it, of late."""
    slot, asked_at = deployment.slot, deployment.start_asked_at
    if slot.container_status != ContainerStatus.DEPLOYING or slot.container_seen_at is None:
        return False
    return asked_at is not None and slot.container_seen_at >= asked_at
