"""What the rows themselves show to be wrong, whatever Coolify says."""

from collections.abc import Iterator
from datetime import datetime
from functools import partial

from django.conf import settings
from django.db import transaction
from django.db.models import Q

from bots.models import Bot
from bots.moves import Outcome, move_bot
from bots.status import HOLDS_SLOT, TERMINAL, BotStatus
from core.clock import database_now
from pool.lifecycle import end_bot, get_slot_for_bot
from pool.line import join_line, leave_line
from pool.reconciler import repairs
from pool.reconciler.candidate import ACTOR, Deed, Sighting
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
)


def wrong_rows(now: datetime) -> Iterator[Sighting]:
    yield from _ended_bots_in_slots()
    yield from _bots_without_slot()
    yield from _bots_in_no_line(now)
    yield from _entries_without_waiter()
    yield from _stuck_in_deploying(now)


# --- Bots that have ended and hold a slot ----------------------------------------------------


def _ended_bots_in_slots() -> Iterator[Sighting]:
    held = Slot.objects.filter(status__in=HELD, assigned_bot__status__in=TERMINAL)
    for slot in held.select_related("assigned_bot").order_by("pk"):
        bot = slot.assigned_bot
        assert bot is not None
        reason = f"{bot} is {bot.status} and still holds {slot}"
        yield Sighting(
            kind=FindingKind.ENDED_BOT_HOLDS_SLOT,
            slot=slot,
            reason=reason,
            evidence={"botStatus": bot.status, "endedAt": _iso(bot.ended_at)},
            decision="Release the slot; the bot's result stays",
            repair=partial(repairs.release, slot, reason=reason),
        )


# --- Bots that are nowhere -------------------------------------------------------------------


def _bots_without_slot() -> Iterator[Sighting]:
    for bot in Bot.objects.filter(status__in=HOLDS_SLOT, slot=None):
        reason = f"{bot} is {bot.status} and holds no slot"
        yield Sighting(
            kind=FindingKind.BOT_WITHOUT_SLOT,
            bot=bot,
            reason=reason,
            evidence=_of_bot(bot),
            decision="Fail the bot",
            repair=partial(_fail_without_slot, bot, reason=reason),
        )


def _fail_without_slot(bot: Bot, *, reason: str) -> Deed:
    with transaction.atomic():
        # Held until the end: nobody can give it a slot between the look and its end.
        current = Bot.objects.select_for_update().get(pk=bot.pk)
        if current.status not in HOLDS_SLOT or get_slot_for_bot(current) is not None:
            raise repairs.NothingToDo
        end_bot(current, repairs.failure(reason))
    return Deed(True, "Bot failed")


def _bots_in_no_line(now: datetime) -> Iterator[Sighting]:
    lost = Q(status=BotStatus.QUEUED) | Q(
        status=BotStatus.PENDING, status_since__lt=now - settings.PENDING_LOST_AFTER
    )
    for bot in Bot.objects.filter(lost, slot=None, queue_entry=None):
        reason = f"{bot} is {bot.status} and stands in no line"
        yield Sighting(
            kind=FindingKind.BOT_WAITS_NOWHERE,
            bot=bot,
            reason=reason,
            evidence=_of_bot(bot),
            decision="Put the bot in line, in the place of the time it was asked for",
            repair=partial(_put_in_line, bot, reason=reason),
        )


def _put_in_line(bot: Bot, *, reason: str) -> Deed:
    with transaction.atomic():
        current = Bot.objects.select_for_update().get(pk=bot.pk)
        in_line = QueueEntry.objects.filter(bot=bot).exists()
        if current.status != bot.status or in_line or get_slot_for_bot(current) is not None:
            raise repairs.NothingToDo
        if current.status == BotStatus.PENDING:
            move_bot(bot.pk, Outcome(BotStatus.QUEUED, reason, ACTOR))
        join_line(current)
    return Deed(True, "Bot put in line")


# --- Places in line that nobody needs --------------------------------------------------------


def _entries_without_waiter() -> Iterator[Sighting]:
    for entry in QueueEntry.objects.exclude(bot__status=BotStatus.QUEUED).select_related("bot"):
        yield Sighting(
            kind=FindingKind.ENTRY_WITHOUT_WAITER,
            bot=entry.bot,
            reason=f"{entry.bot} is {entry.bot.status} and stands in line",
            evidence=_of_bot(entry.bot),
            decision="Take the bot out of the line",
            repair=partial(_take_out_of_line, entry.bot),
        )


def _take_out_of_line(bot: Bot) -> Deed:
    with transaction.atomic():
        current = Bot.objects.select_for_update().get(pk=bot.pk)
        if current.status == BotStatus.QUEUED:
            raise repairs.NothingToDo
        leave_line(current)
    return Deed(True, "Bot taken out of the line")


# --- Slots that deploy for ever --------------------------------------------------------------


def _stuck_in_deploying(now: datetime) -> Iterator[Sighting]:
    """Only time under way counts: whoever waits for an image or a build place is not stuck."""
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
    return None if _is_looked_after(deployment, now) else since


def _under_way_since(slot: Slot, deployment: Deployment | None) -> datetime | None:
    if deployment is None:
        return slot.status_since
    if deployment.status in WAITING:
        return None
    return deployment.building_since or deployment.start_asked_at or deployment.status_since


def _is_looked_after(deployment: Deployment | None, now: datetime) -> bool:
    """Its own deadline ends it in good order; stuck is what should have ended long ago."""
    deadline = deployment.deadline if deployment else None
    return deadline is not None and now < deadline + settings.DEPLOY_GRACE_PERIOD


def _stuck(
    slot: Slot, deployment: Deployment | None, *, since: datetime, now: datetime
) -> Sighting:
    reason = f"{slot} has been deploying for {(now - since).total_seconds() / 60:.0f} min"
    return Sighting(
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
    """Asked inside the lease, without which nobody starts it: it may have got going since. Once
    its start was asked for, its container may come up at any time: never beside another."""
    deployment = _deployment_of(slot)
    if _stuck_since(slot, deployment, now=database_now()) is None:
        raise repairs.NothingToDo
    return deployment is None or deployment.start_asked_at is None


def _of_bot(bot: Bot) -> dict[str, str | None]:
    return {"botStatus": bot.status, "since": _iso(bot.status_since)}


def _iso(moment: datetime | None) -> str | None:
    return moment.isoformat() if moment else None
