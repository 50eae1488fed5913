"""Who calls the API: keys, and the names that clients give to their requests."""

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from bots.webhooks import HasWebhookSecret

LARGEST_SHARE = 100
# The client of bots that are requested in the dashboard.
OPERATORS = "Operators"


class Client(models.Model):
    """A tenant: its keys see its own bots only, and it has limits and a share of its own."""

    name = models.CharField(max_length=100)
    max_bots = models.PositiveIntegerField(
        "most bots at once", null=True, blank=True, help_text="Empty: no limit."
    )
    max_waiting = models.PositiveIntegerField(
        "most bots waiting", null=True, blank=True, help_text="Empty: no limit."
    )
    share = models.PositiveSmallIntegerField(
        db_default=1, default=1, help_text="How many slots it gets for each one of a share of 1."
    )
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [
            models.UniqueConstraint(name="client_name_is_unique", fields=["name"]),
            models.CheckConstraint(
                name="client_share_is_in_range",
                condition=Q(share__gte=1, share__lte=LARGEST_SHARE),
            ),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def is_limited(self) -> bool:
        return self.max_bots is not None or self.max_waiting is not None


class ApiKey(HasWebhookSecret):
    """A key of a client for the API. It is shown once; only the hash is stored."""

    class Role(models.TextChoices):
        CLIENT = "client", "Client"
        OPERATOR = "operator", "Operator"

    name = models.CharField(max_length=100, help_text="Who uses it; part of the history.")
    # Null only in rows of the version before; api.keys gives these a client of their name.
    client = models.ForeignKey(
        Client, null=True, blank=True, on_delete=models.PROTECT, related_name="keys"
    )
    role = models.CharField(max_length=20, choices=Role, default=Role.CLIENT)
    key_hash = models.CharField(max_length=64, editable=False)
    created_at = models.DateTimeField(db_default=Now())
    revoked_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True)
    # For the rate limit: when the calls made so far are paid off at the allowed rate.
    paid_off_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta(HasWebhookSecret.Meta):
        verbose_name = "API key"
        verbose_name_plural = "API keys"
        constraints = [
            models.UniqueConstraint(name="api_key_is_unique", fields=["key_hash"]),
            models.UniqueConstraint(
                name="api_key_name_is_unique_among_those_in_use",
                fields=["name"],
                condition=Q(revoked_at__isnull=True),
            ),
            models.CheckConstraint(
                name="api_key_role_is_known", condition=Q(role__in=["client", "operator"])
            ),
        ]

    # Read with each use of the key (api.keys): whether it has webhook endpoints, whether its client
    # has limits, and how many seconds of calls at its rate it has left.
    has_endpoints = False
    is_limited = True
    seconds_left = 0.0

    def __str__(self) -> str:
        return self.name


class RequestName(models.Model):
    """A client's name for its request. Repeating the request returns the same bot.

    An idempotency key names one request for ever, a dedupe key one live bot at a time.
    """

    class Kind(models.TextChoices):
        IDEMPOTENCY = "idempotency", "Idempotency key"
        DEDUPE = "dedupe", "Dedupe key"

    api_key = models.ForeignKey(ApiKey, on_delete=models.CASCADE, related_name="request_names")
    kind = models.CharField(max_length=20, choices=Kind)
    name = models.CharField(max_length=255)
    body_hash = models.CharField(max_length=64, blank=True, default="")
    # Null only inside the transaction that creates the bot.
    bot = models.ForeignKey(
        "bots.Bot", null=True, on_delete=models.CASCADE, related_name="request_names"
    )
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [
            models.UniqueConstraint(
                name="request_name_is_unique_to_its_key", fields=["api_key", "kind", "name"]
            )
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"
