"""Endpoints: the receivers of webhooks, which bots they hear of, and what happens if one fails."""

import logging
from datetime import timedelta

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import F, Q
from django.db.models.functions import Coalesce, Now

from api.webhooks.addresses import check_webhook_address, receiver_of
from api.webhooks.sending import Result
from bots.models import ApiKey, Bot, Webhook, WebhookDelivery, WebhookEndpoint

logger = logging.getLogger(__name__)

FIRST_PAUSE = timedelta(seconds=5)
LONGEST_PAUSE = timedelta(hours=1)
GONE = 410


class EndpointExists(Exception):
    """The key already has an endpoint with this address."""


def create_endpoint(key: ApiKey, url: str, *, statuses: list[str] | None = None) -> WebhookEndpoint:
    """It hears of the bots that are requested from now on."""
    try:
        with transaction.atomic():
            return WebhookEndpoint.objects.create(
                api_key=key, url=check_webhook_address(url), statuses=statuses or []
            )
    except IntegrityError:
        raise EndpointExists(f"{key} already has an endpoint with this address") from None


# --- Which bots it hears of ---------------------------------------------------------------------


def subscribe(bot: Bot, key: ApiKey, *, url: str) -> None:
    """Send the bot's events to `url` if the request named one, else to the key's endpoints."""
    if url:
        endpoint = _endpoint_for_requests(key.pk, url)
        Webhook.objects.create(bot=bot, api_key=key, endpoint=endpoint, url=url)
        return
    Webhook.objects.bulk_create(
        Webhook(bot=bot, api_key=key, endpoint=endpoint, url=endpoint.url)
        for endpoint in WebhookEndpoint.objects.filter(api_key=key, is_named=True)
    )


def _endpoint_for_requests(key_id: int, url: str) -> WebhookEndpoint:
    """The endpoint of all addresses on this host that the key's requests name."""
    host = receiver_of(url)
    return WebhookEndpoint.objects.get_or_create(api_key_id=key_id, is_named=False, url=host)[0]


def adopt_strays() -> None:
    """Give an endpoint to rows that the version before has written."""
    for webhook in Webhook.objects.filter(endpoint=None, is_open=True).order_by("pk")[:1000]:
        named = WebhookEndpoint.objects.filter(
            api_key_id=webhook.api_key_id, is_named=True, url=webhook.url
        )
        webhook.endpoint = named.first() or _endpoint_for_requests(webhook.api_key_id, webhook.url)
        webhook.save(update_fields=["endpoint"])
    due = WebhookDelivery.objects.filter(endpoint=None, due_at__isnull=False)
    for delivery in due.select_related("webhook").order_by("pk")[:1000]:
        webhook = delivery.webhook
        endpoint = webhook.endpoint or _endpoint_for_requests(webhook.api_key_id, webhook.url)
        WebhookDelivery.objects.filter(pk=delivery.pk).update(endpoint=endpoint)


# --- How it fares -------------------------------------------------------------------------------


def note_success(endpoint: WebhookEndpoint) -> None:
    was_failing = Q(failing_since__isnull=False) | Q(failures__gt=0)
    WebhookEndpoint.objects.filter(was_failing, pk=endpoint.pk).update(
        failing_since=None, failures=0, paused_until=None
    )


def note_failure(endpoint: WebhookEndpoint, result: Result) -> None:
    """Pause a receiver that is down; disable one that has failed for too long, or is gone."""
    row = WebhookEndpoint.objects.filter(pk=endpoint.pk, disabled_at=None)
    row.update(failing_since=Coalesce("failing_since", Now()), last_answer=result.answer)
    if result.receiver_is_down:
        # Several deliveries that fail together are one round.
        no_longer_paused = Q(paused_until=None) | Q(paused_until__lte=Now())
        pause = pause_after(endpoint.failures + 1)
        row.filter(no_longer_paused).update(failures=F("failures") + 1, paused_until=Now() + pause)
    if result.status == GONE:
        disable_endpoint(endpoint, because="It answered 410 Gone")
    elif row.filter(failing_since__lte=Now() - settings.WEBHOOK_DISABLE_AFTER).exists():
        disable_endpoint(
            endpoint, because=f"Nothing was delivered for a long time: {result.answer}"
        )


def pause_after(failures: int) -> timedelta:
    return min(FIRST_PAUSE * 2 ** min(failures - 1, 20), LONGEST_PAUSE)


def disable_endpoint(endpoint: WebhookEndpoint, *, because: str) -> bool:
    """Send it nothing more; its events are kept. False if it was disabled."""
    row = WebhookEndpoint.objects.filter(pk=endpoint.pk, disabled_at=None)
    if not row.update(disabled_at=Now(), disabled_because=because[:500]):
        return False
    logger.error(
        "[Webhooks] The endpoint %s of key %s is disabled: %s",
        endpoint.pk,
        endpoint.api_key.name,
        because,
    )
    return True


def enable_endpoint(endpoint: WebhookEndpoint) -> bool:
    """Send what was kept while it was disabled, and what comes. False if it was not disabled."""
    row = WebhookEndpoint.objects.filter(pk=endpoint.pk, disabled_at__isnull=False)
    with transaction.atomic():
        enabled = row.update(
            disabled_at=None, disabled_because="", failing_since=None, failures=0, paused_until=None
        )
        if enabled:
            kept = WebhookDelivery.objects.filter(
                endpoint=endpoint, delivered_at=None, attempts__lt=settings.WEBHOOK_ATTEMPTS
            )
            kept.update(due_at=Now())
    return bool(enabled)


def send_again(delivery: WebhookDelivery) -> None:
    """Send a delivery once more, whether it arrived or not."""
    row = WebhookDelivery.objects.filter(pk=delivery.pk)
    row.update(due_at=Now(), delivered_at=None, attempts=0)
