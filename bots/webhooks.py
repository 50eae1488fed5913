"""Webhooks: where events of bots are sent, and how each delivery went."""

from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now

from bots.masking import host_of


class HasWebhookSecret(models.Model):
    """Signs webhooks. The secret itself is not stored: api.webhooks.signatures derives it from the
    version and SECRET_KEY."""

    secret_version = models.PositiveIntegerField(db_default=1, editable=False)
    # Until then the version before signs, too: receivers have time to change to the new secret.
    old_secret_until = models.DateTimeField(null=True, editable=False)

    class Meta:
        abstract = True


class WebhookEndpoint(HasWebhookSecret):
    """A receiver of webhooks. Its failures delay its own events only.

    One that an operator named has an address and may choose which statuses it receives. For
    addresses that are given with a request for a bot (`webhookUrl`), there is one endpoint per API
    key and host.
    """

    api_key = models.ForeignKey("bots.ApiKey", on_delete=models.CASCADE, related_name="endpoints")
    url = models.CharField("address", max_length=2000)
    is_named = models.BooleanField(db_default=True)
    statuses = models.JSONField(
        default=list, blank=True, help_text="The statuses to send; empty for all."
    )
    created_at = models.DateTimeField(db_default=Now())

    failing_since = models.DateTimeField(null=True, help_text="Nothing was delivered since then.")
    failures = models.PositiveIntegerField(db_default=0, help_text="Rounds of tries in a row.")
    paused_until = models.DateTimeField(null=True)
    last_answer = models.CharField(max_length=300, blank=True, db_default="")
    disabled_at = models.DateTimeField(null=True)
    disabled_because = models.CharField(max_length=500, blank=True, db_default="")

    class Meta(HasWebhookSecret.Meta):
        constraints = [
            models.UniqueConstraint(
                name="webhook_endpoint_is_unique_to_its_key",
                fields=["api_key", "is_named", "url"],
            )
        ]

    def __str__(self) -> str:
        return f"Endpoint {self.pk} at {host_of(self.url)}"

    @property
    def signer(self) -> HasWebhookSecret:
        """Addresses given with requests share the secret of their key."""
        return self if self.is_named else self.api_key

    def receives(self, status: str) -> bool:
        return not self.statuses or status in self.statuses


class Webhook(models.Model):
    """One bot's status changes go to one endpoint, at this address."""

    bot = models.ForeignKey(
        "bots.Bot", on_delete=models.CASCADE, related_name="webhooks", db_index=False
    )
    api_key = models.ForeignKey("bots.ApiKey", on_delete=models.CASCADE, related_name="webhooks")
    # Null only in rows of the version before; api.webhooks.endpoints adopts these.
    endpoint = models.ForeignKey(
        WebhookEndpoint,
        null=True,
        on_delete=models.CASCADE,
        related_name="webhooks",
        db_index=False,
    )
    url = models.CharField(max_length=2000)
    is_open = models.BooleanField(
        default=True, help_text="Not every event of its bot has its delivery yet."
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(
                F("bot"), F("endpoint"), name="webhook_is_unique_to_bot_and_endpoint"
            )
        ]
        indexes = [
            models.Index(name="webhook_open", fields=["bot"], condition=Q(is_open=True)),
            models.Index(name="webhook_by_endpoint", fields=["endpoint"]),
        ]

    def __str__(self) -> str:
        return f"Webhook of bot #{self.bot_id}"


class WebhookDelivery(models.Model):
    """One event on its way to a client: due, delivered or given up, with the last answer."""

    webhook = models.ForeignKey(Webhook, on_delete=models.CASCADE, related_name="deliveries")
    endpoint = models.ForeignKey(
        WebhookEndpoint,
        null=True,
        on_delete=models.CASCADE,
        related_name="deliveries",
        db_index=False,
    )
    event = models.ForeignKey(
        "bots.BotEvent",
        on_delete=models.CASCADE,
        related_name="deliveries",
        db_constraint=False,
        db_index=False,
    )
    attempts = models.PositiveSmallIntegerField(db_default=0)
    due_at = models.DateTimeField(null=True, blank=True, db_default=Now())
    last_attempt_at = models.DateTimeField(null=True, blank=True)
    last_answer = models.CharField(max_length=300, blank=True, db_default="")
    delivered_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        verbose_name_plural = "webhook deliveries"
        constraints = [
            models.CheckConstraint(
                name="delivery_is_not_due_once_delivered",
                condition=Q(delivered_at__isnull=True) | Q(due_at__isnull=True),
            ),
            models.UniqueConstraint(
                F("webhook"), F("event"), name="delivery_is_unique_to_webhook_and_event"
            ),
        ]
        indexes = [
            models.Index(name="delivery_due", fields=["due_at"], condition=Q(due_at__isnull=False)),
            models.Index(
                name="delivery_due_by_endpoint",
                fields=["endpoint", "due_at"],
                condition=Q(due_at__isnull=False),
            ),
            models.Index(name="delivery_by_endpoint", fields=["endpoint", "-id"]),
            models.Index(name="delivery_by_age", fields=["created_at"]),
        ]

    def __str__(self) -> str:
        return f"Event {self.event_id} to {self.webhook}"
