"""Send each status change to clients, at least once.

The history of bots is the outbox: it is written with each change, so nothing is lost. A pass
creates a delivery for each event that has none, claims the deliveries that are due, sends them
outside any transaction and records the results. A claim postpones the due time: if the worker
dies, another one sends the delivery again.
"""

import json
import logging
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import F, QuerySet
from django.db.models.functions import Now

from api.webhooks.sending import Result, post
from api.webhooks.signatures import SIGNATURE_HEADER, TIMESTAMP_HEADER, sign
from bots.models import BotEvent, Webhook, WebhookDelivery
from bots.status import TERMINAL
from core.correlation import correlated

logger = logging.getLogger(__name__)

AT_ONCE = 16
LONGEST_PASS = 20.0
CLAIM = timedelta(seconds=120)
FIRST_PAUSE = timedelta(seconds=5)
LONGEST_PAUSE = timedelta(hours=1)


def deliver_webhooks() -> int:
    """Run one pass, for a limited time; return how many deliveries were sent."""
    note_events()
    end, sent = time.monotonic() + LONGEST_PASS, 0
    while time.monotonic() < end:
        deliveries = _claim_due()
        if not deliveries:
            break
        _send(deliveries)
        sent += len(deliveries)
    return sent


def note_events() -> None:
    """Create a delivery for each event that needs one.

    It starts from open webhooks: the cost does not grow with history. Two concurrent passes may see
    the same event; the unique index lets one of them insert it.
    """
    told = BotEvent.objects.filter(bot__webhook__is_open=True, delivery=None)
    events = told.exclude(from_status=F("to_status")).order_by("pk")
    WebhookDelivery.objects.bulk_create(
        [
            WebhookDelivery(webhook_id=webhook, event_id=event)
            for event, webhook in events.values_list("pk", "bot__webhook__pk")
        ],
        ignore_conflicts=True,
    )
    # A terminal event is a bot's last: no other can follow.
    finished = Webhook.objects.filter(
        is_open=True, deliveries__event__to_status__in=[status.value for status in TERMINAL]
    )
    finished.update(is_open=False)


def _claim_due() -> list[WebhookDelivery]:
    due = WebhookDelivery.objects.filter(due_at__lte=Now()).order_by("due_at", "pk")
    with transaction.atomic():
        claimed = list(
            due.select_for_update(skip_locked=True).values_list("pk", flat=True)[:AT_ONCE]
        )
        deliveries: QuerySet[WebhookDelivery] = WebhookDelivery.objects.filter(pk__in=claimed)
        deliveries.update(due_at=Now() + CLAIM, attempts=F("attempts") + 1, last_attempt_at=Now())
    return list(deliveries.select_related("event__bot", "webhook__api_key").order_by("event_id"))


def _send(deliveries: list[WebhookDelivery]) -> None:
    with ThreadPoolExecutor(max_workers=AT_ONCE) as senders:
        results: Iterable[Result] = senders.map(_post, deliveries)
        for delivery, result in zip(deliveries, results, strict=True):
            _record(delivery, result)


def _post(delivery: WebhookDelivery) -> Result:
    """Runs in its own thread, where a query would open another database connection."""
    body = json.dumps(payload(delivery), separators=(",", ":")).encode()
    timestamp = int(time.time())
    secret = delivery.webhook.api_key.key_hash
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "Botpool",
        "X-Botpool-Delivery": str(delivery.event_id),
        TIMESTAMP_HEADER: str(timestamp),
        SIGNATURE_HEADER: sign(body, secret=secret, timestamp=timestamp),
    }
    return post(delivery.webhook.url, body, headers=headers)


def payload(delivery: WebhookDelivery) -> dict[str, Any]:
    event, bot = delivery.event, delivery.event.bot
    return {
        "event": "bot.status",
        "eventId": event.pk,
        "at": event.at.isoformat().replace("+00:00", "Z"),
        "botId": bot.pk,
        "correlationId": bot.correlation_id,
        "platform": bot.platform,
        "meetingUrl": bot.meeting_url,
        "fromStatus": event.from_status or None,
        "status": event.to_status,
        "reason": event.reason,
    }


def _record(delivery: WebhookDelivery, result: Result) -> None:
    row = WebhookDelivery.objects.filter(pk=delivery.pk, delivered_at__isnull=True)
    if result.delivered:
        row.update(delivered_at=Now(), due_at=None, last_answer=result.answer)
        return
    gives_up = delivery.attempts >= settings.WEBHOOK_ATTEMPTS
    row.update(
        due_at=None if gives_up else Now() + pause_after(delivery.attempts),
        last_answer=result.answer,
    )
    bot = delivery.event.bot
    with correlated(bot.correlation_id, bot=bot.pk):
        logger.warning(
            "Webhook for %s, event %s: attempt %d failed%s: %s",
            bot,
            delivery.event_id,
            delivery.attempts,
            ", giving up" if gives_up else "",
            result.answer,
        )


def pause_after(attempts: int) -> timedelta:
    return min(FIRST_PAUSE * 2 ** min(attempts - 1, 20), LONGEST_PAUSE)
