from django.contrib.postgres.indexes import GinIndex
from django.core.validators import MaxValueValidator
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from bots.clients import ApiKey, Client, RequestName
from bots.search import ShownAddress, document
from bots.status import BOTS_FAIL_BY, MOVES, TERMINAL, BotStatus, FailureKind, Platform
from bots.webhooks import Webhook, WebhookDelivery, WebhookEndpoint
from core.constraints import allowed_moves

__all__ = [
    "ApiKey",
    "Bot",
    "BotEvent",
    "Client",
    "RequestName",
    "Webhook",
    "WebhookDelivery",
    "WebhookEndpoint",
]

HIGHEST_PRIORITY_NUMBER = 1000


class Bot(models.Model):
    """A requested meeting bot, from the request to its end.

    Only bots.moves writes `status`. `Slot.assigned_bot` says where the bot runs now. `slot_name`
    and `coolify_service_uuid` say where it last ran, and stay after its release.
    """

    # Null: requested before there were clients, by a user. Operators see it.
    client = models.ForeignKey(
        Client, null=True, on_delete=models.PROTECT, related_name="bots", db_index=False
    )
    correlation_id = models.CharField(max_length=64)
    # Set by Botpool only, unlike the correlation id: see pool.request.request_bot_once.
    request_key = models.CharField(
        max_length=80, blank=True, default="", db_default="", editable=False
    )
    platform = models.CharField(max_length=20, choices=Platform)
    meeting_url = models.CharField("meeting address", max_length=2000)
    shown_address = ShownAddress(editable=False, db_default="")
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
        max_length=30,
        choices=[(cause.value, cause.label) for cause in BOTS_FAIL_BY],
        blank=True,
        default="",
        db_default="",
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
                | Q(status=BotStatus.FAILED, failure_cause__in=BOTS_FAIL_BY),
            ),
            models.CheckConstraint(
                name="bot_priority_is_in_range",
                condition=Q(priority__lte=HIGHEST_PRIORITY_NUMBER),
            ),
            # Slots refer to both, so a slot can only have a bot of its own platform.
            models.UniqueConstraint(name="bot_id_and_platform", fields=["id", "platform"]),
            models.UniqueConstraint(
                name="bot_request_key_is_unique",
                fields=["request_key"],
                condition=~Q(request_key=""),
            ),
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
            models.Index(name="bot_by_correlation", fields=["correlation_id"]),
            # For the lists of bots: newest first, filtered by status, platform or both.
            models.Index(name="bot_list_by_status", fields=["status", "-id"]),
            models.Index(name="bot_list_by_platform", fields=["platform", "-id"]),
            models.Index(name="bot_list_by_client", fields=["client", "-id"]),
            models.Index(name="bot_list_by_both", fields=["platform", "status", "-id"]),
            GinIndex(document(), name="bot_by_shown_words"),
        ]

    def __str__(self) -> str:
        return f"Bot #{self.pk}"

    @property
    def is_terminal(self) -> bool:
        return self.status in TERMINAL


class BotEvent(models.Model):
    """A line of a bot's history, written in the transaction of its change and never updated."""

    bot = models.ForeignKey(
        Bot,
        on_delete=models.DO_NOTHING,
        related_name="events",
        db_constraint=False,
        db_index=False,  # event_by_bot begins with it
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
