"""Keep the logs of failed assignments. Rows are the work queue: see slots.logs.KeptLog.

The container's log has to be read before the container is stopped, so a stop waits for it, for
LOG_TIMEOUT at most, and does not wait at all if many fail at once or Coolify is slow. It is a
single read, whose share of the budget leaves the calls that stops need. The log of a deployment
stays in Coolify and is read from what all other calls leave.
"""

import logging
import time
from datetime import timedelta

from django.conf import settings
from django.db.models import F
from django.db.models.functions import Now

from bots.models import Bot
from coolify.client.errors import (
    BudgetExhausted,
    CoolifyError,
    NotFound,
    NotRunning,
    Unavailable,
    Unreachable,
)
from core.jobs.jobs import ask
from pool.controller.containers.gone import UP
from pool.controller.context import SlotContext
from pool.controller.logs.text import LINES, clean_log
from slots.locks import slot_key
from slots.logs import KeptLog, LogSource, LogStatus, NotKept
from slots.models import Slot

logger = logging.getLogger(__name__)

# Stops that may wait for a log at the same time, in all processes.
MOST_AT_ONCE = 2
MOST_TRIES = 2
# After a log that took too long, others of that server are not tried for this long.
PAUSE_AFTER_SLOW = timedelta(minutes=1)
TRY_AGAIN = timedelta(seconds=5)
NEXT = timedelta(seconds=1)
# Seconds, in which Docker restarts a container that exited for the first time.
RESTART = 0.5


def keep_container_log(context: SlotContext, *, last_chance: bool) -> timedelta | None:
    """Keep the log of a failed bot's container, before it is stopped. Never raises CoolifyError.

    `last_chance`: the stop follows, so what cannot be had now is not kept. Otherwise returns when
    to try again.
    """
    slot = context.slot
    # No other container's: the slot, and the application, may have had another bot since.
    log = _wanted(slot, LogSource.CONTAINER, bot=slot.last_bot_id, coolify_uuid=slot.coolify_uuid)
    if log is None:
        return None
    obstacle = _obstacle(slot)
    if obstacle == NotKept.TOO_MANY and not last_chance:
        return TRY_AGAIN
    if obstacle is not None:
        _give_up(log, obstacle)
        return None
    context.lease.check()
    if not _claim(log):
        return None
    try:
        raw = _read(context)
    except BudgetExhausted as error:
        if not last_chance:
            return _put_off(log, error)
        _give_up(log, NotKept.NO_BUDGET)
    except CoolifyError as error:
        _give_up(log, _reason(error), detail=str(error))
    else:
        _keep(log, raw)
    return None


def keep_deployment_log(context: SlotContext) -> timedelta | None:
    """Keep the log of a deployment, if one is wanted. Returns when to come again."""
    log = _wanted(context.slot, LogSource.DEPLOYMENT)
    if log is None or not _claim(log):
        return None
    try:
        raw = context.coolify.deployment_log(log.coolify_uuid, timeout=_timeout())
    except BudgetExhausted as error:
        return _put_off(log, error)
    except CoolifyError as error:
        if _reason(error) == NotKept.TOO_SLOW and log.tries + 1 < MOST_TRIES:
            return TRY_AGAIN
        _give_up(log, _reason(error), detail=str(error))
    else:
        if raw is None:
            _give_up(log, NotKept.NO_ABILITY)
        else:
            _keep(log, raw)
    return NEXT  # a slot that failed twice has two


def sweep_logs() -> list[int]:
    """Give up logs that are late, and wake the slots whose logs are still wanted."""
    late = KeptLog.objects.filter(status=LogStatus.WANTED, deadline__lt=Now())
    late.update(status=LogStatus.NOT_KEPT, because=NotKept.TOO_LATE, ended_at=Now())
    wanted = KeptLog.objects.filter(status=LogStatus.WANTED).values("slot")
    found = list(Slot.objects.filter(pk__in=wanted).values_list("pk", flat=True))
    ask(slot_key(pk) for pk in found)
    return found


# --- Parts of the above -----------------------------------------------------------------------


def _timeout() -> float:
    seconds: float = settings.LOG_TIMEOUT.total_seconds()
    return seconds


def _wanted(slot: Slot, source: LogSource, **only: object) -> KeptLog | None:
    wanted = KeptLog.objects.filter(slot=slot, status=LogStatus.WANTED, source=source)
    return wanted.filter(**only).order_by("pk").first()


def _obstacle(slot: Slot) -> NotKept | None:
    """Why the container's log is not even asked for."""
    if slot.server_unreachable:
        return NotKept.SERVER_UNREACHABLE
    lately = Now() - PAUSE_AFTER_SLOW
    slow = KeptLog.objects.filter(because=NotKept.TOO_SLOW, server_uuid=slot.server_uuid)
    if slow.filter(ended_at__gt=lately).exists():
        return NotKept.TOO_SLOW
    reading = KeptLog.objects.filter(status=LogStatus.WANTED, source=LogSource.CONTAINER)
    under_way = reading.filter(reading_since__gt=Now() - 2 * settings.LOG_TIMEOUT)
    return NotKept.TOO_MANY if under_way.count() >= MOST_AT_ONCE else None


def _read(context: SlotContext) -> str:
    """Read twice if the container was observed running and does not run now: a bot that failed
    exits, and Docker restarts it after a moment, with its log."""
    until = time.monotonic() + _timeout()
    try:
        return _read_once(context, until=until)
    except NotRunning:
        if context.slot.container_status not in UP or time.monotonic() + RESTART > until:
            raise
    time.sleep(RESTART)
    return _read_once(context, until=until)


def _read_once(context: SlotContext, *, until: float) -> str:
    left = max(until - time.monotonic(), 0.1)
    uuid = context.slot.coolify_uuid
    return context.coolify.logs(uuid, lines=LINES, timeout=left, with_times=True)


def _claim(log: KeptLog) -> bool:
    """Count the try before it is made: a log that kills its reader is not read for ever."""
    if log.tries >= MOST_TRIES:
        _give_up(log, NotKept.INTERRUPTED)
        return False
    wanted = KeptLog.objects.filter(pk=log.pk, status=LogStatus.WANTED)
    return bool(wanted.update(tries=F("tries") + 1, reading_since=Now()))


def _put_off(log: KeptLog, error: BudgetExhausted) -> timedelta:
    """The budget refused the call; nothing was sent, so it was no try."""
    wanted = KeptLog.objects.filter(pk=log.pk, status=LogStatus.WANTED)
    wanted.update(tries=F("tries") - 1, reading_since=None)
    return max(timedelta(seconds=error.retry_after or 0), TRY_AGAIN)


def _reason(error: CoolifyError) -> NotKept:
    match error:
        case NotRunning():
            return NotKept.NOT_RUNNING
        case NotFound():
            return NotKept.GONE
        case Unreachable() | Unavailable():
            return NotKept.TOO_SLOW
        case _:
            return NotKept.REFUSED


def _keep(log: KeptLog, raw: str) -> None:
    found = clean_log(raw, bot=Bot.objects.filter(pk=log.bot_id).first())
    kept = {"status": LogStatus.KEPT, "text": found.text, "lines": found.lines}
    if _end(log, **kept, is_cut=found.is_cut):
        logger.info("[Pool] %s: kept %d lines of %s", log, found.lines, _name(log))


def _give_up(log: KeptLog, because: NotKept, *, detail: str = "") -> None:
    said = clean_log(detail).text if because == NotKept.REFUSED else ""
    if _end(log, status=LogStatus.NOT_KEPT, because=because, detail=said):
        logger.info("[Pool] %s: %s is not kept: %s", log, _name(log), because.label)


def _end(log: KeptLog, **fields: object) -> bool:
    wanted = KeptLog.objects.filter(pk=log.pk, status=LogStatus.WANTED)
    return bool(wanted.update(ended_at=Now(), reading_since=None, **fields))


def _name(log: KeptLog) -> str:
    return f"the {log.source}'s log ({log.coolify_uuid})"
