"""Checks of the rows against a good snapshot of Coolify.

A status in Coolify may be a minute old, so what it shows has to last; a heartbeat outweighs it. A
repair asks Coolify once more inside the slot's lease.
"""

from collections.abc import Iterator
from datetime import datetime
from functools import partial

from django.conf import settings

from bots.models import Bot
from bots.status import FailureCause
from coolify.client import Coolify
from coolify.client.errors import CoolifyError
from coolify.client.resources import Application
from pool.controller.observe import Snapshot
from pool.reconciler import repairs
from pool.reconciler.candidate import Candidate, RepairResult
from pool.reconciler.hearing import explicable_silence
from pool.reconciler.heartbeats import last_sign_of_life
from slots.finding import Finding, FindingKind
from slots.models import Slot
from slots.status import SlotStatus

KINDS = (
    FindingKind.CONTAINER_GONE,
    FindingKind.CONTAINER_LEFT,
    FindingKind.APPLICATION_GONE,
    FindingKind.STUCK_STOPPING,
    FindingKind.SLOT_IN_ERROR,
    FindingKind.DESCRIPTION_DIFFERS,
)
TIMES = 2
# Each missing application costs a call; the others wait for the next pass.
MOST_QUESTIONS = 10


def wrong_containers(
    snapshot: Snapshot, coolify: Coolify, *, hearing_since: datetime | None
) -> Iterator[Candidate]:
    questions = 0
    for slot in Slot.objects.select_related("assigned_bot").order_by("platform", "number"):
        application = snapshot.applications.get(slot.coolify_uuid)
        if slot.coolify_uuid and application is None and questions < MOST_QUESTIONS:
            questions += 1
            yield from _missing_application(slot, snapshot, coolify, hearing_since=hearing_since)
        elif application is not None:
            yield from _wrong_container(
                slot, application, snapshot, coolify, hearing_since=hearing_since
            )
            yield from _other_description(slot, application)
        yield from _stuck_in_stopping(slot, snapshot)
        yield from _in_error(slot, snapshot)


def _wrong_container(
    slot: Slot,
    application: Application,
    snapshot: Snapshot,
    coolify: Coolify,
    *,
    hearing_since: datetime | None,
) -> Iterator[Candidate]:
    if application.server_reachable is False:
        return  # its statuses are out of date
    deploys = snapshot.is_deploying(slot.coolify_uuid)
    if slot.status == SlotStatus.BUSY and _is_down(application) and not deploys:
        yield _container_gone(
            slot,
            f"the container is {application.status}",
            evidence=_of(application),
            snapshot=snapshot,
            coolify=coolify,
            hearing_since=hearing_since,
        )
    if slot.status == SlotStatus.IDLE and (deploys or _is_up(application)):
        yield _container_left(slot, application, coolify, deploys=deploys)


# --- A held slot without a container ---------------------------------------------------------


def _container_gone(
    slot: Slot,
    seen: str,
    *,
    evidence: dict[str, object],
    snapshot: Snapshot,
    coolify: Coolify,
    hearing_since: datetime | None,
) -> Candidate:
    bot = slot.assigned_bot
    assert bot is not None
    reason = f"Container gone: {seen}, {_last_heard(bot)}"
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
        lasting=max(settings.CONTAINER_EVIDENCE, explicable_silence()),
        times=TIMES,
        # While Botpool could not hear the bot, its silence proves nothing.
        contradicted_at=max(last_sign_of_life(slot, bot), hearing_since or snapshot.began_at),
    )


def _is_still_gone(slot: Slot, coolify: Coolify) -> bool:
    application = repairs.read_application(slot, coolify)
    if application is None:
        return True
    return application.server_reachable is not False and _is_down(application)


def _last_heard(bot: Bot) -> str:
    heard = bot.last_heartbeat_at
    return f"last heartbeat {heard:%Y-%m-%dT%H:%M:%SZ}" if heard else "no heartbeat so far"


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
    slot: Slot, snapshot: Snapshot, coolify: Coolify, *, hearing_since: datetime | None
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
            snapshot=snapshot,
            coolify=coolify,
            hearing_since=hearing_since,
        )
    else:
        reason = "The application is gone from Coolify"
        yield Candidate(
            kind=FindingKind.APPLICATION_GONE,
            slot=slot,
            reason=reason,
            evidence=evidence,
            decision="Forget the application; the next start creates a new one",
            repair=partial(repairs.forget, slot, reason=reason, coolify=coolify),
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


def _in_error(slot: Slot, snapshot: Snapshot) -> Iterator[Candidate]:
    if slot.status != SlotStatus.ERROR:
        return
    attempts = slot.recovery_attempts
    tries_left = attempts < settings.RECOVERY_ATTEMPTS
    pause = settings.RECOVERY_PAUSE * 4 ** min(attempts, 10)
    reason = f"Attempt {attempts + 1} to recover from: {slot.error}"
    due = tries_left and snapshot.began_at - slot.status_since > pause
    # The first attempt only stops it; the next ones also replace the application.
    repair = partial(repairs.recover, slot, reason=reason, recreate=attempts > 0)
    yield Candidate(
        kind=FindingKind.SLOT_IN_ERROR,
        slot=slot,
        reason=slot.error,
        evidence={"since": _iso(slot.status_since), "recoveryAttempts": attempts},
        decision=f"Recover it after {pause.total_seconds():g} s in error"
        if tries_left
        else "Wait for an operator",
        repair=repair if due else None,
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
