"""Kept logs on the pages of bots and slots, and as text files."""

from collections.abc import Iterator
from dataclasses import dataclass

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.views.decorators.http import require_safe

from bots.models import Bot
from bots.status import BotStatus, FailureCause
from core.permissions import VIEW
from dashboard.permissions import needs
from slots.logs import KeptLog, LogLine, LogSource, lines_of
from slots.models import Slot

# Of a bot: both logs of each of its starts.
SHOWN = 12
# On a slot's page: both logs of its last failure, and links to those before.
IN_FULL, LINKED = 2, 20


@dataclass(frozen=True, kw_only=True)
class ShownLog:
    log: KeptLog
    lines: list[LogLine]
    title: str
    cause: str


def logs_of_bot(bot: Bot) -> QuerySet[KeptLog]:
    # Its starts were in different slots, whose epochs have nothing to do with each other.
    return KeptLog.objects.filter(bot=bot).order_by("-created_at", "slot_name", "source")[:SHOWN]


def logs_of_slot(slot: Slot) -> QuerySet[KeptLog]:
    return KeptLog.objects.filter(slot=slot).order_by("-epoch", "source")[:IN_FULL]


def earlier_logs_of_slot(slot: Slot) -> QuerySet[KeptLog]:
    logs = KeptLog.objects.filter(slot=slot).order_by("-epoch", "source")
    return logs.defer("text")[IN_FULL : IN_FULL + LINKED]


def shown(logs: QuerySet[KeptLog]) -> list[ShownLog]:
    return [
        ShownLog(
            log=log,
            lines=list(lines_of(log.text)),
            title=f"{LogSource(log.source).label} log",
            cause=FailureCause(log.failure_cause).label.lower(),
        )
        for log in logs
    ]


def why_no_log(bot: Bot) -> str:
    """Of a bot without kept logs."""
    if not bot.is_terminal:
        return "Nothing was kept so far: logs are kept when a bot or its start fails."
    if bot.status != BotStatus.FAILED:
        return "None: logs are kept when a bot or its start fails."
    if not bot.slot_name:
        return "None: the bot never got a slot."
    return "None: its start was not sent to Coolify, or the log is older than KEEP_LOGS_DAYS."


@require_safe
@needs(VIEW)
def download(request: HttpRequest, pk: int) -> HttpResponse:
    """As plain text that no browser renders."""
    log = get_object_or_404(KeptLog, pk=pk)
    name = f"bot-{log.bot_id}-{log.slot_name}-{log.source}.log"
    return as_file("\n".join(_file(log)), name)


def as_file(text: str, name: str) -> HttpResponse:
    answer = HttpResponse(f"{text}\n", content_type="text/plain; charset=utf-8")
    answer["Content-Disposition"] = f'attachment; filename="{name}"'
    return answer


def _file(log: KeptLog) -> Iterator[str]:
    what = f"{LogSource(log.source).label} log of bot {log.bot_id} in {log.slot_name}"
    yield f"# {what}, {log.failure_cause} at {log.created_at:%Y-%m-%dT%H:%M:%SZ}"
    if log.is_cut:
        yield f"# Only the last {log.lines} lines were kept."
    yield log.text or f"# {log.problem}"
