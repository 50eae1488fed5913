"""Records of notifications: channels, rules, conditions, and the messages about them."""

from datetime import datetime, timedelta

from django.db import models
from django.db.models import Q, QuerySet
from django.db.models.functions import Now

from bots.status import Platform
from bots.webhooks import HasWebhookSecret
from dashboard.overview.codes import AttentionCode, Severity, severity_of


class NotificationChannel(HasWebhookSecret):
    """Where messages go. Its address is a secret: only its sealed form is stored."""

    class Kind(models.TextChoices):
        SERVICE = "service", "Service"
        WEBHOOK = "webhook", "Webhook"

    name = models.CharField(max_length=80, unique=True)
    kind = models.CharField(max_length=10, choices=Kind)
    shown = models.CharField(max_length=200, help_text="What may be shown of the address.")
    sealed_url = models.TextField(editable=False)
    enabled = models.BooleanField(default=True)
    created_at = models.DateTimeField(db_default=Now())

    sent_at = models.DateTimeField(null=True, help_text="When a message last arrived.")
    failing_since = models.DateTimeField(null=True)
    failures = models.PositiveIntegerField(default=0, help_text="Failed tries in a row.")
    last_error = models.CharField(max_length=300, blank=True, default="")

    class Meta(HasWebhookSecret.Meta):
        app_label = "botpool"  # the table belongs to the botpool migrations

    def __str__(self) -> str:
        return self.name


def failing_channels() -> QuerySet[NotificationChannel]:
    """Those through which the last try to send failed."""
    channels = NotificationChannel.objects.filter(enabled=True, failing_since__isnull=False)
    return channels.order_by("name")


def _label(code: str) -> str:
    """A code of another version is its own label."""
    return dict(AttentionCode.choices).get(code, code)


class NotificationRule(models.Model):
    """What is told, after how long, to which channels, and when not."""

    name = models.CharField(max_length=80, unique=True)
    enabled = models.BooleanField(default=True)
    codes = models.JSONField(default=list, blank=True, help_text="Empty for all.")
    severity = models.CharField(max_length=10, choices=Severity, blank=True, default="")
    platform = models.CharField(max_length=20, choices=Platform, blank=True, default="")
    lasting = models.DurationField(default=timedelta)
    # Ids. A list, so that a rule whose channel is deleted does not become a rule for all channels.
    channels = models.JSONField(default=list, blank=True, help_text="Empty for all.")
    repeat = models.DurationField(null=True, blank=True, help_text="Empty for never.")
    tell_resolved = models.BooleanField(default=True)
    quiet_from = models.TimeField(null=True, blank=True)
    quiet_until = models.TimeField(null=True, blank=True)
    zone = models.CharField(max_length=60, default="UTC")
    urgent_anyway = models.BooleanField(default=True)

    class Meta:
        app_label = "botpool"  # the table belongs to the botpool migrations
        constraints = [
            models.CheckConstraint(
                name="quiet_hours_have_both_ends",
                condition=Q(quiet_from__isnull=True, quiet_until__isnull=True)
                | Q(quiet_from__isnull=False, quiet_until__isnull=False),
            )
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def code_labels(self) -> list[str]:
        return [_label(code) for code in self.codes]


class Condition(models.Model):
    """Something that needs attention: identified by code, platform and subject while it lasts."""

    code = models.CharField(max_length=40)  # AttentionCode; a new one needs no migration
    platform = models.CharField(max_length=20, choices=Platform, blank=True, default="")
    subject = models.CharField(max_length=200, blank=True, default="")
    words = models.TextField()
    link = models.CharField(max_length=500)
    first_seen_at = models.DateTimeField()
    last_seen_at = models.DateTimeField()
    resolved_at = models.DateTimeField(null=True)

    class Meta:
        app_label = "botpool"  # the table belongs to the botpool migrations
        constraints = [
            models.UniqueConstraint(
                name="one_open_condition_per_code_platform_and_subject",
                fields=["code", "platform", "subject"],
                condition=Q(resolved_at__isnull=True),
            )
        ]
        indexes = [models.Index(name="condition_by_end", fields=["resolved_at"])]

    def __str__(self) -> str:
        return self.words

    @property
    def severity(self) -> Severity:
        return severity_of(self.code)

    @property
    def label(self) -> str:
        return _label(self.code)

    @property
    def identity(self) -> tuple[str, str, str]:
        return self.code, self.platform, self.subject

    def lasted(self, *, at: datetime) -> timedelta:
        return at - self.first_seen_at


class Message(models.Model):
    """One message to one channel: waiting, sent or failed. The log of what was sent."""

    class Kind(models.TextChoices):
        NOTICE = "notice", "Notice"
        TEST = "test", "Test"

    class Status(models.TextChoices):
        WAITING = "waiting", "Waiting"
        SENT = "sent", "Sent"
        FAILED = "failed", "Failed"

    channel = models.ForeignKey(
        NotificationChannel, on_delete=models.CASCADE, related_name="messages", db_index=False
    )
    kind = models.CharField(max_length=10, choices=Kind, default=Kind.NOTICE)
    status = models.CharField(max_length=10, choices=Status, default=Status.WAITING)
    created_at = models.DateTimeField(db_default=Now())
    title = models.CharField(max_length=200)
    body = models.TextField()
    items = models.JSONField(default=list)
    attempts = models.PositiveSmallIntegerField(default=0)
    due_at = models.DateTimeField(null=True, db_default=Now())
    ended_at = models.DateTimeField(null=True)
    error = models.CharField(max_length=300, blank=True, default="")

    class Meta:
        app_label = "botpool"  # the table belongs to the botpool migrations
        constraints = [
            models.UniqueConstraint(
                name="one_waiting_notice_per_channel",
                fields=["channel"],
                condition=Q(status="waiting", kind="notice"),
            ),
            models.CheckConstraint(
                name="message_is_due_while_it_waits",
                condition=Q(status="waiting", due_at__isnull=False)
                | (~Q(status="waiting") & Q(due_at__isnull=True)),
            ),
        ]
        indexes = [
            models.Index(name="message_due", fields=["due_at"], condition=Q(status="waiting")),
            models.Index(name="message_by_channel", fields=["channel", "-created_at"]),
            models.Index(name="message_by_end", fields=["ended_at"]),
        ]

    def __str__(self) -> str:
        return self.title


class Notice(models.Model):
    """What a channel was last told of a condition. `message` is that message; retention may have
    deleted it."""

    class Said(models.TextChoices):
        OPEN = "open", "Open"
        RESOLVED = "resolved", "Resolved"

    condition = models.ForeignKey(Condition, on_delete=models.CASCADE, related_name="notices")
    channel = models.ForeignKey(NotificationChannel, on_delete=models.CASCADE, related_name="+")
    message = models.ForeignKey(
        Message, on_delete=models.DO_NOTHING, db_constraint=False, related_name="notices"
    )
    said = models.CharField(max_length=10, choices=Said)
    at = models.DateTimeField()

    class Meta:
        app_label = "botpool"  # the table belongs to the botpool migrations
        constraints = [
            models.UniqueConstraint(
                name="one_notice_per_condition_and_channel", fields=["condition", "channel"]
            )
        ]

    def __str__(self) -> str:
        return f"{self.condition} to {self.channel}"
