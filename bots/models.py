from django.core.validators import MaxValueValidator
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from bots.status import MOVES, TERMINAL, BotStatus, FailureCause, FailureKind, Platform
from core.constraints import allowed_moves

HIGHEST_PRIORITY_NUMBER = 1000


class Bot(models.Model):
    """A requested meeting bot, from the request to its end.

    Only bots.moves writes `status`. `Slot.assigned_bot` says where the bot runs now. `slot_name`
    and `coolify_service_uuid` say where it last ran, and stay after its release.
    """

    correlation_id = models.CharField(max_length=64, db_index=True)
    platform = models.CharField(max_length=20, choices=Platform)
    meeting_url = models.CharField("meeting address", max_length=2000)
    display_name = models.CharField(max_length=255, default="Meeting Bot")
    config = models.JSONField(default=dict, blank=True)
    priority = models.PositiveSmallIntegerField(
        default=100, validators=[MaxValueValidator(HIGHEST_PRIORITY_NUMBER)]
    )
    queue_timeout = models.DurationField()

    status = models.CharField(max_length=20, choices=BotStatus, default=BotStatus.PENDING)
    previous_status = models.CharField(max_length=20, choices=BotStatus, blank=True, default="")
    status_since = models.DateTimeField(db_default=Now())
    # A trigger writes each change of status, with these two, to the history (BotEvent).
    status_reason = models.TextField(blank=True, default="", db_default="")
    status_actor = models.CharField(max_length=150, blank=True, default="", db_default="")
    failure_reason = models.TextField(blank=True, default="")
    failure_kind = models.CharField(max_length=20, choices=FailureKind, blank=True, default="")
    failure_cause = models.CharField(
        max_length=30, choices=FailureCause, blank=True, default="", db_default=""
    )

    placements = models.PositiveSmallIntegerField(default=0, help_text="How often it got a slot.")
    slot_name = models.CharField(max_length=100, blank=True, default="")
    coolify_service_uuid = models.CharField(max_length=64, blank=True, default="")
    last_heartbeat_at = models.DateTimeField(null=True, blank=True)

    created_at = models.DateTimeField(db_default=Now())
    queued_at = models.DateTimeField(null=True, blank=True)
    started_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                name="bot_platform_is_known", condition=Q(platform__in=Platform.values)
            ),
            models.CheckConstraint(
                name="bot_move_is_allowed",
                condition=allowed_moves(MOVES, start=[BotStatus.PENDING]),
            ),
            models.CheckConstraint(
                name="bot_has_an_end_if_and_only_if_terminal",
                condition=Q(status__in=TERMINAL, ended_at__isnull=False)
                | (~Q(status__in=TERMINAL) & Q(ended_at__isnull=True)),
            ),
            models.CheckConstraint(
                name="bot_failed_if_and_only_if_it_says_why",
                condition=(
                    Q(status=BotStatus.FAILED, failure_kind__in=FailureKind.values)
                    & ~Q(failure_reason="")
                )
                | (~Q(status=BotStatus.FAILED) & Q(failure_kind="", failure_reason="")),
            ),
            models.CheckConstraint(
                name="bot_failure_cause_is_known_and_of_a_failure",
                condition=Q(failure_cause="")
                | Q(status=BotStatus.FAILED, failure_cause__in=FailureCause.values),
            ),
            models.CheckConstraint(
                name="bot_priority_is_in_range",
                condition=Q(priority__lte=HIGHEST_PRIORITY_NUMBER),
            ),
            # Slots refer to both, so a slot can only have a bot of its own platform.
            models.UniqueConstraint(name="bot_id_and_platform", fields=["id", "platform"]),
        ]
        indexes = [
            models.Index(
                name="bot_not_ended", fields=["status"], condition=~Q(status__in=TERMINAL)
            ),
            models.Index(
                name="bot_by_container",
                fields=["coolify_service_uuid", "-id"],
                condition=~Q(coolify_service_uuid=""),
            ),
            # For the lists of bots: newest first, filtered by status, platform or both.
            models.Index(name="bot_list_by_status", fields=["status", "-id"]),
            models.Index(name="bot_list_by_platform", fields=["platform", "-id"]),
            models.Index(name="bot_list_by_both", fields=["platform", "status", "-id"]),
        ]

    def __str__(self) -> str:
        return f"Bot #{self.pk}"

    @property
    def is_terminal(self) -> bool:
        return self.status in TERMINAL


class BotEvent(models.Model):
    """A line of a bot's history, written in the transaction of its change and never updated."""

    bot = models.ForeignKey(
        Bot, on_delete=models.DO_NOTHING, related_name="events", db_constraint=False
    )
    at = models.DateTimeField(db_default=Now())
    from_status = models.CharField(max_length=20, blank=True)
    to_status = models.CharField(max_length=20)
    reason = models.TextField()
    actor = models.CharField(max_length=150)
    correlation_id = models.CharField(max_length=64)
    slot_name = models.CharField(max_length=100, blank=True)
    coolify_uuid = models.CharField(max_length=64, blank=True)
    epoch = models.BigIntegerField(null=True)

    class Meta:
        indexes = [models.Index(name="event_by_bot", fields=["bot", "id"])]

    def __str__(self) -> str:
        return f"Bot #{self.bot_id}: {self.from_status or 'new'} → {self.to_status}"


class ApiKey(models.Model):
    """A client of the API. Its key is shown once; only the hash is stored."""

    class Role(models.TextChoices):
        CLIENT = "client", "Client"
        OPERATOR = "operator", "Operator"

    name = models.CharField(max_length=100, help_text="Who uses it; part of the history.")
    role = models.CharField(max_length=20, choices=Role, default=Role.CLIENT)
    key_hash = models.CharField(max_length=64, editable=False)
    webhook_url = models.CharField(
        max_length=2000,
        blank=True,
        default="",
        help_text="Where each change of status of this key's bots is sent.",
    )
    created_at = models.DateTimeField(db_default=Now())
    revoked_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True)
    # For the rate limit: when the calls made so far are paid off at the allowed rate.
    paid_off_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
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
    bot = models.ForeignKey(Bot, null=True, on_delete=models.CASCADE, related_name="request_names")
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [
            models.UniqueConstraint(
                name="request_name_is_unique_to_its_key", fields=["api_key", "kind", "name"]
            )
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


class Webhook(models.Model):
    """Where one bot's status changes are sent."""

    bot = models.OneToOneField(Bot, on_delete=models.CASCADE, related_name="webhook")
    api_key = models.ForeignKey(ApiKey, on_delete=models.CASCADE, related_name="webhooks")
    url = models.CharField(max_length=2000)
    is_open = models.BooleanField(
        default=True, help_text="Not every event of its bot has its delivery yet."
    )

    class Meta:
        indexes = [models.Index(name="webhook_open", fields=["bot"], condition=Q(is_open=True))]

    def __str__(self) -> str:
        return f"Webhook of bot #{self.bot_id}"


class WebhookDelivery(models.Model):
    """One event on its way to a client: due, delivered or given up, with the last answer."""

    webhook = models.ForeignKey(Webhook, on_delete=models.CASCADE, related_name="deliveries")
    event = models.OneToOneField(
        BotEvent, on_delete=models.CASCADE, related_name="delivery", db_constraint=False
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
            )
        ]
        indexes = [
            models.Index(name="delivery_due", fields=["due_at"], condition=Q(due_at__isnull=False)),
            models.Index(name="delivery_by_age", fields=["created_at"]),
        ]

    def __str__(self) -> str:
        return f"Event {self.event_id} to {self.webhook}"
