"""Send messages: claim, commit, send, record.

A claim postpones the due time. If the process dies, another one sends the message again; it may
then arrive twice. Each channel is called in a thread of its own, with a time limit: one that does
not answer delays no other.
"""

import logging
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta

from django.db import transaction
from django.db.models import F, QuerySet
from django.db.models.functions import Coalesce, Now

from dashboard.notifications.delivery import Outcome, deliver
from dashboard.notifications.records import Message, Notice, NotificationChannel

logger = logging.getLogger(__name__)

AT_ONCE = 8
ATTEMPTS = 5
CLAIM = timedelta(minutes=2)
FIRST_PAUSE, LONGEST_PAUSE = timedelta(seconds=30), timedelta(minutes=30)


def send_due() -> int:
    """Try each message that is due once; return how many."""
    claimed = _claim()
    if claimed:
        with ThreadPoolExecutor(max_workers=AT_ONCE) as senders:
            _record_all({senders.submit(deliver, message): message for message in claimed})
    return len(claimed)


def _record_all(sending: Mapping[Future[Outcome], Message]) -> None:
    for future, message in sending.items():
        record(message, future.result())


def _claim() -> list[Message]:
    """Those of channels that work go first."""
    with transaction.atomic():
        due = Message.objects.filter(
            status=Message.Status.WAITING, due_at__lte=Now(), channel__enabled=True
        ).order_by("channel__failures", "due_at")
        chosen = list(
            due.select_for_update(skip_locked=True, of=("self",)).values_list("pk", flat=True)[
                :AT_ONCE
            ]
        )
        mine = Message.objects.filter(pk__in=chosen)
        mine.update(due_at=Now() + CLAIM, attempts=F("attempts") + 1)
    return list(mine.select_related("channel"))


def send_test(channel: NotificationChannel, *, by: str) -> Outcome:
    """Send a test message now, in the caller's process."""
    message = Message.objects.create(
        channel=channel,
        kind=Message.Kind.TEST,
        title="Botpool: a test",
        body=f"{by} sent this test. Messages to this channel arrive.",
        attempts=ATTEMPTS,  # it is tried once
        due_at=Now() + CLAIM,
    )
    outcome = deliver(message)
    record(message, outcome)
    return outcome


def record(message: Message, outcome: Outcome) -> None:
    if outcome.sent:
        _end(message, Message.Status.SENT)
        _channel(message).update(sent_at=Now(), failing_since=None, failures=0, last_error="")
        return
    error = outcome.error[:300]
    _channel(message).update(
        failing_since=Coalesce("failing_since", Now()),
        failures=F("failures") + 1,
        last_error=error,
    )
    gives_up = message.attempts >= ATTEMPTS
    logger.warning(
        "Message %s to channel %s: attempt %d failed%s: %s",
        message.pk,
        message.channel.name,
        message.attempts,
        ", giving up" if gives_up else "",
        error,
    )
    if gives_up:
        give_up(message, error=error)
    else:
        pause = Now() + pause_after(message.attempts)
        _waiting(message).update(due_at=pause, error=error)


@transaction.atomic
def give_up(message: Message, *, error: str) -> None:
    """What it told is news again: a later message tells it, if it still holds."""
    _end(message, Message.Status.FAILED, error=error)
    notices = Notice.objects.filter(message=message)
    notices.filter(said=Notice.Said.OPEN).delete()
    notices.update(said=Notice.Said.OPEN)


def _end(message: Message, status: Message.Status, *, error: str = "") -> None:
    _waiting(message).update(status=status, ended_at=Now(), due_at=None, error=error)


def _waiting(message: Message) -> QuerySet[Message]:
    return Message.objects.filter(pk=message.pk, status=Message.Status.WAITING)


def _channel(message: Message) -> QuerySet[NotificationChannel]:
    return NotificationChannel.objects.filter(pk=message.channel_id)


def pause_after(failures: int) -> timedelta:
    return min(FIRST_PAUSE * 2 ** min(failures - 1, 20), LONGEST_PAUSE)
