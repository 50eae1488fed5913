"""Checks of the rows against a good snapshot of Coolify.

A status in Coolify may be a minute old, so what it shows has to last; a heartbeat outweighs it. A
repair asks Coolify once more inside the slot's lease.
"""

import time
from collections.abc import Iterator
from datetime import datetime
from functools import partial

from django.conf import settings

from bots.models import Bot
from bots.status import FailureCause
from coolify.client import Coolify
from coolify.client.errors import CoolifyError
from coolify.client.resources import Application
from pool.controller.applications import APPLICATION_GONE
from pool.controller.belief.answers import status_is_current
from pool.controller.observe import Snapshot
from pool.reconciler import repairs
from pool.reconciler.candidate import Candidate, Proof, RepairResult
from pool.reconciler.hearing import explicable_silence
from pool.reconciler.heartbeats import last_sign_of_life
from slots.finding import Finding, FindingKind
from slots.models import Slot
from slots.status import SlotStatus

KINDS = (
    FindingKind.CONTAINER_GONE,
    FindingKind.CRASH_LOOP,
    FindingKind.CONTAINER_LEFT,
    FindingKind.APPLICATION_GONE,
    FindingKind.STUCK_STOPPING,
    FindingKind.DESCRIPTION_DIFFERS,
)
TIMES = 2
# Each missing application costs a call, and its answer may take long; the others wait for the next
# pass. In seconds.
MOST_QUESTIONS, LONGEST_QUESTIONS = 10, 15.0


def wrong_containers(
    snapshot: Snapshot, coolify: Coolify, *, hearing_since: datetime | None
) -> Iterator[Candidate]:
    questions, end = 0, time.monotonic() + LONGEST_QUESTIONS
    for slot in Slot.objects.select_related("assigned_bot").order_by("platform", "number"):
        application = snapshot.applications.get(slot.coolify_uuid)
        if _is_in_doubt(slot, snapshot):
            yield from _doubtful_application(slot, coolify)
            continue
        may_ask = questions < MOST_QUESTIONS and time.monotonic() < end
        if slot.coolify_uuid and application is None and may_ask:
            questions += 1
            yield from _missing_application(slot, coolify, hearing_since=hearing_since)
        elif application is not None:
            yield from _wrong_container(
                slot, application, snapshot, coolify, hearing_since=hearing_since
            )
            yield from _other_description(slot, application)
        yield from _stuck_in_stopping(slot, snapshot)


def slots_in_doubt(snapshot: Snapshot) -> list[int]:
    """The slots that nothing can be said of: too many applications are missing to believe it."""
    return [slot.pk for slot in Slot.objects.all() if _is_in_doubt(slot, snapshot)]


def _is_in_doubt(slot: Slot, snapshot: Snapshot) -> bool:
    is_missing = slot.coolify_uuid and slot.coolify_uuid not in snapshot.applications
    return snapshot.is_doubted and bool(is_missing)


def _wrong_container(
    slot: Slot,
    application: Application,
    snapshot: Snapshot,
    coolify: Coolify,
    *,
    hearing_since: datetime | None,
) -> Iterator[Candidate]:
    if not status_is_current(application):
        return
    deploys = snapshot.is_deploying(slot.coolify_uuid)
    if slot.status == SlotStatus.BUSY and _is_down(application) and not deploys:
        yield _container_gone(
            slot,
            f"the container is {application.status}",
            evidence=_of(application),
            coolify=coolify,
            hearing_since=hearing_since,
        )
    # A count from before may be that of the last bot's container.
    is_its_own = snapshot.began_at > slot.status_since
    if slot.status == SlotStatus.BUSY and _crashes_on(application) and is_its_own and not deploys:
        yield _crash_loop(slot, application)
    if slot.status == SlotStatus.IDLE and (deploys or _is_up(application)):
        yield _container_left(slot, application, coolify, deploys=deploys)


# --- A held slot without a container ---------------------------------------------------------


def _container_gone(
    slot: Slot,
    seen: str,
    *,
    evidence: dict[str, object],
    coolify: Coolify,
    hearing_since: datetime | None,
) -> Candidate:
    bot = slot.assigned_bot
    assert bot is not None
    reason = f"Container gone: {seen}, {_last_heard(bot)}"
    enough = max(settings.CONTAINER_EVIDENCE, explicable_silence())
    return Candidate(
        kind=FindingKind.CONTAINER_GONE,
        slot=slot,
        reason=reason,
        evidence={**evidence, "lastHeartbeatAt": _iso(bot.last_heartbeat_at)},
        decision="Fail the bot and release the slot",
        repair=partial(
            repairs.release_silent,
            slot,
            reason=reason,
            cause=FailureCause.CONTAINER_GONE,
            heard_at=bot.last_heartbeat_at,
            still=lambda: _is_still_gone(slot, coolify),
        ),
        # Silence while bots could be heard makes a shorter time enough. It is not needed: workers
        # may not reach the address at which bots call.
        lasting=max(settings.HEARTBEAT_TIMEOUT, enough),
        proof=Proof(hearing_since, enough) if hearing_since is not None else None,
        times=TIMES,
        contradicted_at=last_sign_of_life(slot, bot),
    )


def _is_still_gone(slot: Slot, coolify: Coolify) -> bool:
    application = repairs.read_application(slot, coolify)
    if application is None:
        return True
    return status_is_current(application) and _is_down(application)


def _last_heard(bot: Bot) -> str:
    heard = bot.last_heartbeat_at
    return f"last heartbeat {heard:%Y-%m-%dT%H:%M:%SZ}" if heard else "no heartbeat so far"


# --- A container that crashes again and again -------------------------------------------------


def _crash_loop(slot: Slot, application: Application) -> Candidate:
    """Docker starts it again each time, and it calls in between: it is neither gone nor silent."""
    reason = (
        f"The container has crashed {application.restart_count} times since its start "
        "(MAX_CONTAINER_RESTARTS)"
    )
    return Candidate(
        kind=FindingKind.CRASH_LOOP,
        slot=slot,
        reason=reason,
        evidence=_of(application),
        decision="Fail the bot and release the slot",
        repair=partial(
            repairs.release_running, slot, reason=reason, cause=FailureCause.CONTAINER_FAILED
        ),
        times=TIMES,
    )


def _crashes_on(application: Application) -> bool:
    return (application.restart_count or 0) >= settings.MAX_CONTAINER_RESTARTS


# --- A container in an idle slot -------------------------------------------------------------


def _container_left(
    slot: Slot, application: Application, coolify: Coolify, *, deploys: bool
) -> Candidate:
    state = "being deployed" if deploys else str(application.status)
    reason = f"{slot} is idle, but its container is {state}"
    return Candidate(
        kind=FindingKind.CONTAINER_LEFT,
        slot=slot,
        reason=reason,
        evidence={**_of(application), "deploys": deploys},
        decision="Stop the container",
        repair=partial(
            repairs.clear_container,
            slot,
            reason=reason,
            still=lambda: _is_still_up(slot, coolify),
        ),
        lasting=settings.CONTAINER_EVIDENCE,
        times=TIMES,
    )


def _is_still_up(slot: Slot, coolify: Coolify) -> bool:
    application = repairs.read_application(slot, coolify)
    if application is None:
        return False
    deployments = coolify.application_deployments(slot.coolify_uuid)
    return _is_up(application) or any(each.is_active for each in deployments)


# --- A slot whose application is gone --------------------------------------------------------


def _missing_application(
    slot: Slot, coolify: Coolify, *, hearing_since: datetime | None
) -> Iterator[Candidate]:
    """Its absence from a list proves nothing, so ask. Starts and stops find out by themselves."""
    if slot.status not in (SlotStatus.IDLE, SlotStatus.BUSY):
        return
    try:
        if repairs.read_application(slot, coolify) is not None:
            return
    except CoolifyError:
        return
    evidence: dict[str, object] = {"application": slot.coolify_uuid, "answer": "not found"}
    if slot.status == SlotStatus.BUSY:
        yield _container_gone(
            slot,
            "Coolify has no such application",
            evidence=evidence,
            coolify=coolify,
            hearing_since=hearing_since,
        )
    else:
        yield Candidate(
            kind=FindingKind.APPLICATION_GONE,
            slot=slot,
            reason=APPLICATION_GONE,
            evidence=evidence,
            decision="Forget the application; the next start creates a new one",
            repair=partial(repairs.forget, slot, reason=APPLICATION_GONE, coolify=coolify),
            times=TIMES,
        )


def _doubtful_application(slot: Slot, coolify: Coolify) -> Iterator[Candidate]:
    """Too many are missing to believe it: an operator has to say that they are gone."""
    if slot.status not in (SlotStatus.IDLE, SlotStatus.STOPPING, SlotStatus.ERROR):
        return
    yield Candidate(
        kind=FindingKind.APPLICATION_GONE,
        slot=slot,
        reason="Coolify does not list the application",
        evidence={"application": slot.coolify_uuid, "slotStatus": slot.status},
        decision="Forget the application; the next start creates a new one",
        repair=partial(repairs.forget, slot, reason=APPLICATION_GONE, coolify=coolify),
        held_back="Coolify's list lacks too many applications to be believed",
        times=TIMES,
    )


# --- Slots that do not come free -------------------------------------------------------------


def _stuck_in_stopping(slot: Slot, snapshot: Snapshot) -> Iterator[Candidate]:
    """Counted in good snapshots only: while Coolify is away, nothing can be stopped. Reported only
    after half the time that a stop may take."""
    half = settings.STOP_STUCK_AFTER / 2
    if slot.status != SlotStatus.STOPPING or snapshot.began_at - slot.status_since < half:
        return
    reason = f"{slot} has been stopping since {_iso(slot.status_since)}"
    yield Candidate(
        kind=FindingKind.STUCK_STOPPING,
        slot=slot,
        reason=reason,
        evidence={"since": _iso(slot.status_since), "stopAttempts": slot.stop_attempts},
        decision="Put the slot in error, from where it is recovered",
        repair=partial(repairs.give_to_operator, slot, reason=reason),
        lasting=half,
        times=TIMES,
    )


# --- Descriptions ----------------------------------------------------------------------------


def _other_description(slot: Slot, application: Application) -> Iterator[Candidate]:
    """The description was changed in Coolify. Once we store what is there, the controller writes it
    again. Only once for each text: Coolify may store it in a form of its own."""
    seen = (application.description or "")[:255]
    if not slot.description_written or seen.strip() == slot.description_written.strip():
        return
    evidence = {"seen": seen, "written": slot.description_written}
    yield Candidate(
        kind=FindingKind.DESCRIPTION_DIFFERS,
        slot=slot,
        reason=f"The description in Coolify is {seen!r}",
        evidence=evidence,
        decision="Write it again",
        repair=partial(_note_seen_description, slot, evidence),
        times=TIMES,
    )


def _note_seen_description(slot: Slot, evidence: dict[str, str]) -> RepairResult:
    before = Finding.objects.filter(
        kind=FindingKind.DESCRIPTION_DIFFERS, slot=slot, evidence=evidence, acted_at__isnull=False
    )
    if before.exists():
        return RepairResult(False, "Written again before, and changed back since")
    changed = Slot.objects.filter(
        pk=slot.pk, coolify_uuid=slot.coolify_uuid, description_written=slot.description_written
    ).update(description_written=evidence["seen"])
    return RepairResult(bool(changed), "To be written again soon")


# --- What Coolify shows ----------------------------------------------------------------------


def _is_down(application: Application) -> bool:
    status = application.status
    return status.is_exited or status.is_failed or status.is_restarting


def _is_up(application: Application) -> bool:
    return application.status.is_running or application.status.is_restarting


def _of(application: Application) -> dict[str, object]:
    return {
        "application": application.uuid,
        "status": str(application.status),
        "serverReachable": application.server_reachable,
        "restartCount": application.restart_count,
    }


def _iso(moment: datetime | None) -> str | None:
    return moment.isoformat() if moment else None
