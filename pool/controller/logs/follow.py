"""The log of a running container, for pages that follow it.

However many pages are open, in however many processes, Coolify is asked once in LOG_INTERVAL for
all followed slots together: anyone who may see a page can cause these calls.
"""

from datetime import timedelta

from django.conf import settings
from django.db.models import Q
from django.db.models.functions import Now

from coolify.client.errors import BudgetExhausted, CoolifyError, NotRunning
from coolify.shared import shared_coolify
from pool.controller.logs.text import LINES, clean_log
from slots.logs import LogReading
from slots.models import Slot
from slots.status import ContainerStatus, SlotStatus

# Seconds: shorter than a page waits for its answer.
TIMEOUT = 6.0
FOLLOWED = timedelta(minutes=1)
STOPPED = (ContainerStatus.STOPPED, ContainerStatus.FAILED, ContainerStatus.IDLE)

NO_APPLICATION = "The slot has no application in Coolify yet."
NO_BUDGET = "The calls to Coolify are needed for starts and stops."
TOO_MANY = "The logs of many slots are followed. This one is read when its turn comes."
NOT_RUNNING = "No container is running, so there is no log to follow."


def follow_log(slot: Slot) -> LogReading:
    """The log as last read. If that is long ago, this process reads it again."""
    reading, _ = LogReading.objects.get_or_create(pk=slot.pk)
    if reading.epoch != slot.epoch:
        _forget_earlier(slot)
    if problem := _why_not(slot):
        LogReading.objects.filter(pk=slot.pk).exclude(problem=problem).update(problem=problem)
    elif _is_mine_to_read(slot):
        LogReading.objects.filter(pk=slot.pk).update(**_read(slot), epoch=slot.epoch)
    reading.refresh_from_db()
    if reading.asked_at is None and not reading.problem:
        reading.problem = TOO_MANY
    return reading


def pause_between_readings() -> timedelta:
    """Longer, the more slots are followed."""
    return _pause(_readings_lately())


def _pause(followed: int) -> timedelta:
    pause: timedelta = settings.LOG_INTERVAL * max(followed, 1)
    return min(pause, FOLLOWED)


def _readings_lately() -> int:
    return LogReading.objects.filter(asked_at__gt=Now() - FOLLOWED).count()


def _forget_earlier(slot: Slot) -> None:
    """What the container of an earlier bot wrote is not shown with this one."""
    earlier = LogReading.objects.filter(pk=slot.pk).exclude(epoch=slot.epoch)
    earlier.update(epoch=slot.epoch, text="", problem="", read_at=None, is_cut=False)


def _is_mine_to_read(slot: Slot) -> bool:
    """True for one of the processes that find it due."""
    lately = _readings_lately()
    if lately >= max(FOLLOWED // settings.LOG_INTERVAL, 1):
        return False
    due = Q(asked_at=None) | Q(asked_at__lt=Now() - _pause(lately))
    return bool(LogReading.objects.filter(due, pk=slot.pk).update(asked_at=Now()))


def _read(slot: Slot) -> dict[str, object]:
    try:
        raw = shared_coolify().logs(
            slot.coolify_uuid, lines=LINES, timeout=TIMEOUT, with_times=True
        )
    except NotRunning:
        return {"problem": NOT_RUNNING}
    except BudgetExhausted as error:
        wait = error.retry_after or 0.0
        return {"problem": f"{NO_BUDGET} The next try is in {max(wait, 5.0):.0f} s or later."}
    except CoolifyError as error:
        return {"problem": f"Coolify did not give the log: {error}"}
    found = clean_log(raw, bot=slot.assigned_bot)
    return {"text": found.text, "is_cut": found.is_cut, "problem": "", "read_at": Now()}


def _why_not(slot: Slot) -> str:
    """What is known without asking."""
    if not slot.coolify_uuid:
        return NO_APPLICATION
    is_at_rest = slot.status == SlotStatus.IDLE and slot.container_status in STOPPED
    return NOT_RUNNING if is_at_rest else ""
