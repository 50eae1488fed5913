"""Send each status change to clients, at least once.

The history of bots is the outbox: it is written with each change, so nothing is lost. A pass
creates a delivery for each event that has none, claims the deliveries that are due, sends them
outside any transaction and records the results. A claim postpones the due time: if the worker
dies, another one sends the delivery again.

Each endpoint has few calls in flight at once, and one that does not answer is paused: it delays
its own events only. The endpoints of one client together have half of all calls at most.
"""

import json
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from datetime import UTC, datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, F, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Now

from api.webhooks.endpoints import adopt_strays, note_failure, note_success, pause_after
from api.webhooks.sending import Result, post
from api.webhooks.signatures import old_headers, secrets_of, signed_headers
from bots.models import BotEvent, Webhook, WebhookDelivery, WebhookEndpoint
from bots.status import TERMINAL
from core.correlation import correlated
from core.sql import ROWS_AT_ONCE, is_unavailable

logger = logging.getLogger(__name__)

AT_ONCE = 32
AT_ONCE_TO_FAILING = AT_ONCE // 2
PER_CLIENT = AT_ONCE // 2
PER_ENDPOINT = 4
LONGEST_PASS = 20.0
LAST_WAIT = 15.0  # seconds more for what is in flight then: longer than a call should take
NOTE_AGAIN_AFTER = 0.25  # seconds until new events are noted while others are in flight
CLAIM = timedelta(seconds=30)  # longer than a call takes; then it counts as lost

InFlight = dict[Future[Result], WebhookDelivery]


def deliver_webhooks() -> int:
    """Run one pass, for a limited time; return how many deliveries were sent."""
    adopt_strays()
    senders = ThreadPoolExecutor(max_workers=AT_ONCE)
    try:
        return _deliver(senders)
    finally:
        senders.shutdown(wait=False, cancel_futures=True)


def _deliver(senders: ThreadPoolExecutor) -> int:
    end, sent = time.monotonic() + LONGEST_PASS, 0
    in_flight: InFlight = {}
    while True:
        if time.monotonic() < end:
            note_events()
            for delivery in _claim_due(list(in_flight.values())):
                in_flight[senders.submit(_post, delivery)] = delivery
                sent += 1
        if not in_flight:
            return sent
        if time.monotonic() > end + LAST_WAIT:
            _abandon(in_flight)
            return sent
        _record_finished(in_flight)


# --- Noting events ------------------------------------------------------------------------------


@transaction.atomic
def note_events() -> None:
    """Create a delivery for each event that needs one.

    It starts from open webhooks: the cost does not grow with history. Two concurrent passes may see
    the same event; the unique index lets one of them insert it.
    """
    noted = WebhookDelivery.objects.filter(webhook=OuterRef("webhook_id"), event=OuterRef("pk"))
    told = BotEvent.objects.filter(bot__webhooks__is_open=True).exclude(from_status=F("to_status"))
    events = told.annotate(webhook_id=F("bot__webhooks__pk")).filter(~Exists(noted)).order_by("pk")
    pairs = list(events.values_list("pk", "to_status", "webhook_id"))
    if not pairs:
        return
    webhooks = Webhook.objects.select_related("endpoint").in_bulk({each[2] for each in pairs})
    WebhookDelivery.objects.bulk_create(
        [
            WebhookDelivery(webhook_id=webhook, endpoint=endpoint, event_id=event, due_at=Now())
            for event, status, webhook in pairs
            if (endpoint := webhooks[webhook].endpoint) is not None and endpoint.receives(status)
        ],
        ignore_conflicts=True,
        batch_size=ROWS_AT_ONCE,
    )
    # A terminal event is a bot's last: no other can follow.
    finished = {webhook for _, status, webhook in pairs if status in TERMINAL}
    Webhook.objects.filter(pk__in=finished).update(is_open=False)


# --- Claiming -----------------------------------------------------------------------------------


def _claim_due(in_flight: list[WebhookDelivery]) -> list[WebhookDelivery]:
    """As many as there is room for, with limits for each endpoint, each client and failing ones."""
    _hold_for_disabled()
    _give_up_without_results()
    busy = Counter(delivery.endpoint_id for delivery in in_flight)
    of_client = Counter(_client(_endpoint(delivery)) for delivery in in_flight)
    room = AT_ONCE - len(in_flight)
    failing_room = AT_ONCE_TO_FAILING - sum(_endpoint(each).failures > 0 for each in in_flight)
    claimed: list[WebhookDelivery] = []
    for endpoint in _with_something_due() if room else ():
        client = _client(endpoint)
        places = min(room, PER_ENDPOINT - busy[endpoint.pk], PER_CLIENT - of_client[client])
        if endpoint.failures:  # one try shows whether it is back
            places = min(places, failing_room, 1 - busy[endpoint.pk])
        batch = _claim(endpoint, places) if places > 0 else []
        room -= len(batch)
        of_client[client] += len(batch)
        failing_room -= len(batch) if endpoint.failures else 0
        claimed += batch
    return claimed


def _hold_for_disabled() -> None:
    disabled = WebhookEndpoint.objects.filter(disabled_at__isnull=False)
    held = WebhookDelivery.objects.filter(endpoint__in=disabled, due_at__isnull=False)
    held.update(due_at=None)


def _give_up_without_results() -> None:
    """Those whose attempts are used up, and whose last sender died before it stored a result."""
    lost = _due().filter(attempts__gte=settings.WEBHOOK_ATTEMPTS)
    lost.update(due_at=None, last_answer="No result of the last attempt was stored")


def _with_something_due() -> Iterator[WebhookEndpoint]:
    """Endpoints that are neither disabled nor paused: those that work first, then the one that
    waits longest."""
    ready = Q(paused_until=None) | Q(paused_until__lte=Now())
    first = _due().filter(endpoint=OuterRef("pk")).order_by("due_at").values("due_at")[:1]
    found = WebhookEndpoint.objects.filter(ready, disabled_at=None).select_related("api_key")
    found = found.annotate(first_due=Subquery(first))
    yield from found.filter(first_due__isnull=False).order_by("failures", "first_due")


def _claim(endpoint: WebhookEndpoint, places: int) -> list[WebhookDelivery]:
    with transaction.atomic():
        mine = _due().filter(endpoint=endpoint).order_by("due_at", "pk")
        chosen = list(
            mine.select_for_update(skip_locked=True).values_list("pk", flat=True)[:places]
        )
        claimed: QuerySet[WebhookDelivery] = WebhookDelivery.objects.filter(pk__in=chosen)
        claimed.update(due_at=Now() + CLAIM, attempts=F("attempts") + 1, last_attempt_at=Now())
    related = claimed.select_related("event__bot", "webhook__api_key", "endpoint__api_key")
    return list(related.order_by("event_id"))


def _due() -> QuerySet[WebhookDelivery]:
    return WebhookDelivery.objects.filter(due_at__lte=Now())


def _endpoint(delivery: WebhookDelivery) -> WebhookEndpoint:
    assert delivery.endpoint is not None, "only deliveries with an endpoint are claimed"
    return delivery.endpoint


def _client(endpoint: WebhookEndpoint) -> tuple[int | None, int]:
    """A key without a client (see ApiKey) counts as one."""
    client = endpoint.api_key.client_id
    return (client, 0) if client is not None else (None, endpoint.api_key_id)


# --- Sending ------------------------------------------------------------------------------------


def _post(delivery: WebhookDelivery) -> Result:
    """Runs in its own thread, where a query would open another database connection."""
    body = json.dumps(payload(delivery), separators=(",", ":")).encode()
    now = datetime.now(UTC)
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "Botpool",
        "X-Botpool-Delivery": str(delivery.event_id),
        **old_headers(body, at=now, key_hash=delivery.webhook.api_key.key_hash),
        **signed_headers(
            body,
            message_id=f"event_{delivery.event_id}",
            at=now,
            secrets=secrets_of(_endpoint(delivery).signer, now=now),
        ),
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


# --- Recording ----------------------------------------------------------------------------------


def _record_finished(in_flight: InFlight) -> None:
    finished, _ = wait(in_flight, timeout=NOTE_AGAIN_AFTER, return_when=FIRST_COMPLETED)
    for future in finished:
        _store(in_flight.pop(future), future.result)


def _abandon(in_flight: InFlight) -> None:
    """Resolving a host may take minutes; the threads of these calls end by themselves."""
    late = Result(False, "No answer in time: the host may not be resolvable")
    for delivery in in_flight.values():
        _store(delivery, lambda: late)


def _store(delivery: WebhookDelivery, result: Callable[[], Result]) -> None:
    """A result that cannot be had or stored must not cost the others theirs: it is sent again."""
    try:
        _record(delivery, result())
    except Exception as error:
        if is_unavailable(error):
            raise
        logger.exception("[Webhooks] No result of event %s was stored", delivery.event_id)


def _record(delivery: WebhookDelivery, result: Result) -> None:
    row = WebhookDelivery.objects.filter(pk=delivery.pk, delivered_at__isnull=True)
    if result.delivered:
        row.update(delivered_at=Now(), due_at=None, last_answer=result.answer)
        note_success(_endpoint(delivery))
        return
    gives_up = delivery.attempts >= settings.WEBHOOK_ATTEMPTS
    row.update(
        due_at=None if gives_up else Now() + pause_after(delivery.attempts),
        last_answer=result.answer,
    )
    note_failure(_endpoint(delivery), result)
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
