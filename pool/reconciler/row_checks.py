"""Checks of the rows alone, whatever Coolify says."""

from collections.abc import Iterator
from datetime import datetime
from functools import partial

from django.conf import settings
from django.db import transaction
from django.db.models import Q

from bots.models import Bot
from bots.moves import Outcome, move_bot
from bots.status import HOLDS_SLOT, TERMINAL, BotStatus, FailureCause
from core.clock import database_now
from pool.lifecycle import end_bot, get_slot_for_bot, recovers_at
from pool.line import join_line, leave_line
from pool.reconciler import repairs
from pool.reconciler.candidate import ACTOR, Candidate, RepairResult
from queues.models import QueueEntry
from slots.deployment import ACTIVE, WAITING, Deployment
from slots.finding import FindingKind
from slots.models import Slot
from slots.status import HELD, SlotStatus

KINDS = (
    FindingKind.ENDED_BOT_HOLDS_SLOT,
    FindingKind.BOT_WITHOUT_SLOT,
    FindingKind.BOT_WAITS_NOWHERE,
    FindingKind.ENTRY_WITHOUT_WAITER,
    FindingKind.STUCK_DEPLOYING,
    FindingKind.SLOT_IN_ERROR,
)


def wrong_rows(now: datetime) -> Iterator[Candidate]:
    yield from _ended_bots_in_slots()
    yield from _bots_without_slot()
    yield from _bots_in_no_line(now)
    yield from _entries_without_waiter()
    yield from _stuck_in_deploying(now)
    yield from _given_up()


# --- Bots that have ended and hold a slot ----------------------------------------------------


def _ended_bots_in_slots() -> Iterator[Candidate]:
    held = Slot.objects.filter(status__in=HELD, assigned_bot__status__in=TERMINAL)
    for slot in held.select_related("assigned_bot").order_by("pk"):
        bot = slot.assigned_bot
        assert bot is not None
        reason = f"{bot} is {bot.status} but still holds {slot}"
        yield Candidate(
            kind=FindingKind.ENDED_BOT_HOLDS_SLOT,
            slot=slot,
            reason=reason,
            evidence={"botStatus": bot.status, "endedAt": _iso(bot.ended_at)},
            decision="Release the slot; the bot's result stays",
            repair=partial(repairs.release, slot, reason=reason),
        )


# --- Bots that are nowhere -------------------------------------------------------------------


def _bots_without_slot() -> Iterator[Candidate]:
    for bot in Bot.objects.filter(status__in=HOLDS_SLOT, slot=None):
        reason = f"{bot} is {bot.status} but holds no slot"
        yield Candidate(
            kind=FindingKind.BOT_WITHOUT_SLOT,
            bot=bot,
            reason=reason,
            evidence=_of_bot(bot),
            decision="Fail the bot",
            repair=partial(_fail_without_slot, bot, reason=reason),
        )


def _fail_without_slot(bot: Bot, *, reason: str) -> RepairResult:
    with transaction.atomic():
        # Locked until the commit: the bot gets no slot between this check and its end.
        current = Bot.objects.select_for_update().get(pk=bot.pk)
        if current.status not in HOLDS_SLOT or get_slot_for_bot(current) is not None:
            raise repairs.NothingToDo
        end_bot(current, repairs.failure(reason, FailureCause.INCONSISTENT))
    return RepairResult(True, "Bot failed")


def _bots_in_no_line(now: datetime) -> Iterator[Candidate]:
    lost = Q(status=BotStatus.QUEUED) | Q(
        status=BotStatus.PENDING, status_since__lt=now - settings.PENDING_LOST_AFTER
    )
    for bot in Bot.objects.filter(lost, slot=None, queue_entry=None):
        reason = f"{bot} is {bot.status} but not in the queue"
        yield Candidate(
            kind=FindingKind.BOT_WAITS_NOWHERE,
            bot=bot,
            reason=reason,
            evidence=_of_bot(bot),
            decision="Put the bot in the queue, ordered by the time of its request",
            repair=partial(_put_in_line, bot, reason=reason),
        )


def _put_in_line(bot: Bot, *, reason: str) -> RepairResult:
    with transaction.atomic():
        current = Bot.objects.select_for_update().get(pk=bot.pk)
        in_line = QueueEntry.objects.filter(bot=bot).exists()
        if current.status != bot.status or in_line or get_slot_for_bot(current) is not None:
            raise repairs.NothingToDo
        if current.status == BotStatus.PENDING:
            move_bot(bot.pk, Outcome(BotStatus.QUEUED, reason, ACTOR))
        join_line(current)
    return RepairResult(True, "Bot put in the queue")


# --- Queue entries of bots that do not wait --------------------------------------------------


def _entries_without_waiter() -> Iterator[Candidate]:
    for entry in QueueEntry.objects.exclude(bot__status=BotStatus.QUEUED).select_related("bot"):
        yield Candidate(
            kind=FindingKind.ENTRY_WITHOUT_WAITER,
            bot=entry.bot,
            reason=f"{entry.bot} is {entry.bot.status} but still in the queue",
            evidence=_of_bot(entry.bot),
            decision="Take the bot out of the queue",
            repair=partial(_take_out_of_line, entry.bot),
        )


def _take_out_of_line(bot: Bot) -> RepairResult:
    with transaction.atomic():
        current = Bot.objects.select_for_update().get(pk=bot.pk)
        if current.status == BotStatus.QUEUED:
            raise repairs.NothingToDo
        leave_line(current)
    return RepairResult(True, "Bot taken out of the queue")


# --- Slots that deploy for ever --------------------------------------------------------------


def _stuck_in_deploying(now: datetime) -> Iterator[Candidate]:
    """Only time under way counts: a bot that waits for an image or a build place is not stuck."""
    deploying = Slot.objects.filter(
        status=SlotStatus.DEPLOYING, status_since__lt=now - settings.DEPLOY_STUCK_AFTER
    )
    for slot in deploying:
        deployment = _deployment_of(slot)
        since = _stuck_since(slot, deployment, now=now)
        if since is not None:
            yield _stuck(slot, deployment, since=since, now=now)


def _deployment_of(slot: Slot) -> Deployment | None:
    return Deployment.objects.filter(slot=slot, epoch=slot.epoch, status__in=ACTIVE).first()


def _stuck_since(slot: Slot, deployment: Deployment | None, *, now: datetime) -> datetime | None:
    since = _under_way_since(slot, deployment)
    if since is None or now - since <= settings.DEPLOY_STUCK_AFTER:
        return None
    return None if _ends_by_itself(deployment, now) else since


def _under_way_since(slot: Slot, deployment: Deployment | None) -> datetime | None:
    if deployment is None:
        return slot.status_since
    if deployment.status in WAITING:
        return None
    return deployment.building_since or deployment.start_asked_at or deployment.status_since


def _ends_by_itself(deployment: Deployment | None, now: datetime) -> bool:
    """Its own deadline will end it; a stuck deployment should have ended long ago."""
    deadline = deployment.deadline if deployment else None
    return deadline is not None and now < deadline + settings.DEPLOY_GRACE_PERIOD


def _stuck(
    slot: Slot, deployment: Deployment | None, *, since: datetime, now: datetime
) -> Candidate:
    reason = f"{slot} has been deploying for {(now - since).total_seconds() / 60:.0f} min"
    return Candidate(
        kind=FindingKind.STUCK_DEPLOYING,
        slot=slot,
        reason=reason,
        evidence={
            "since": _iso(since),
            "deployment": deployment.pk if deployment else None,
            "deploymentStatus": deployment.status if deployment else "none",
            "deploymentReason": deployment.reason if deployment else "",
        },
        decision="Release the slot by force and replace its application",
        repair=partial(repairs.replace, slot, reason=reason, may_place_again=_may_place_again),
    )


def _may_place_again(slot: Slot) -> bool:
    """Checks once more inside the lease, where no other worker can start the slot.

    Once the start was sent, the container may come up at any time: the bot must not run twice.
    """
    deployment = _deployment_of(slot)
    if _stuck_since(slot, deployment, now=database_now()) is None:
        raise repairs.NothingToDo
    return deployment is None or deployment.start_asked_at is None


# --- Slots in error that no longer recover by themselves --------------------------------------


def _given_up() -> Iterator[Candidate]:
    """Only reported: what the controller can recover, it recovers itself."""
    for slot in Slot.objects.filter(status=SlotStatus.ERROR).order_by("pk"):
        if recovers_at(slot) is None:
            yield Candidate(
                kind=FindingKind.SLOT_IN_ERROR,
                slot=slot,
                reason=slot.error,
                evidence={
                    "since": _iso(slot.status_since),
                    "recoveryAttempts": slot.recovery_attempts,
                },
                decision="Wait for an operator",
            )


def _of_bot(bot: Bot) -> dict[str, str | None]:
    return {"botStatus": bot.status, "since": _iso(bot.status_since)}


def _iso(moment: datetime | None) -> str | None:
    return moment.isoformat() if moment else None
