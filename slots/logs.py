"""Logs of containers and deployments: kept when an assignment fails, and read for open pages."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

_TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,6})?Z) ?(.*)", re.ASCII)


class LogSource(models.TextChoices):
    CONTAINER = "container", "Container"
    DEPLOYMENT = "deployment", "Coolify's deployment"


class LogStatus(models.TextChoices):
    WANTED = "wanted", "To be read"
    KEPT = "kept", "Kept"
    NOT_KEPT = "not_kept", "Not kept"


class NotKept(models.TextChoices):
    """Why a log was not kept, for machines, and the sentence that people read."""

    NO_CONTAINER = "no_container", "The start did not get as far as a container."
    NO_DEPLOYMENT = "no_deployment", "Coolify accepted the start and named no deployment."
    NOT_RUNNING = (
        "not_running",
        "The container had exited before its log was read. Coolify shows the log of a running "
        "container only.",
    )
    GONE = "gone", "It no longer existed in Coolify when its log was read."
    SERVER_UNREACHABLE = "server_unreachable", "Coolify could not reach the server."
    TOO_SLOW = "too_slow", "Coolify did not give logs in time, and the stop could not wait."
    TOO_MANY = "too_many", "Too many failed at once, and the stops could not wait."
    NO_BUDGET = "no_budget", "The calls to Coolify were needed for starts and stops."
    NO_ABILITY = (
        "no_ability",
        "Coolify shows the log of a deployment only to a token with the ability read:sensitive.",
    )
    REFUSED = "refused", "Coolify did not give the log."
    INTERRUPTED = "interrupted", "The process that read it was interrupted."
    TOO_LATE = "too_late", "It could not be read in time."


class KeptLog(models.Model):
    """The last lines of one log of a failed assignment, or why they were not kept.

    A row with the status `wanted` is work: the controller reads the log, at the latest until
    `deadline`. The text has no secrets and no control characters (pool.controller.logs.text).
    """

    slot = models.ForeignKey(
        "slots.Slot",
        on_delete=models.DO_NOTHING,
        related_name="logs",
        db_constraint=False,
        db_index=False,
    )
    slot_name = models.CharField(max_length=100)
    bot = models.ForeignKey(
        "bots.Bot",
        on_delete=models.DO_NOTHING,
        related_name="logs",
        db_constraint=False,
        db_index=False,
    )
    epoch = models.BigIntegerField()
    source = models.CharField(max_length=20, choices=LogSource)
    coolify_uuid = models.CharField(max_length=64, help_text="Of the application or deployment.")
    server_uuid = models.CharField(max_length=64, blank=True, db_default="")
    failure_cause = models.CharField(max_length=30, help_text="A FailureCause.")

    status = models.CharField(max_length=20, choices=LogStatus, db_default=LogStatus.WANTED)
    because = models.CharField(max_length=20, blank=True, db_default="", help_text="A NotKept.")
    detail = models.TextField(blank=True, db_default="", help_text="What Coolify answered.")
    text = models.TextField(blank=True, db_default="")
    lines = models.PositiveIntegerField(db_default=0)
    is_cut = models.BooleanField(db_default=False, help_text="Only the end was kept.")

    created_at = models.DateTimeField(db_default=Now())
    deadline = models.DateTimeField()
    tries = models.PositiveSmallIntegerField(db_default=0)
    reading_since = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True, help_text="It was read, or given up.")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                name="one_log_of_each_source_per_epoch", fields=["slot", "epoch", "source"]
            ),
            models.CheckConstraint(
                name="log_that_was_not_kept_says_why",
                condition=Q(status=LogStatus.NOT_KEPT) ^ Q(because=""),
            ),
        ]
        indexes = [
            models.Index(name="log_by_bot", fields=["bot", "id"]),
            models.Index(name="log_by_slot", fields=["slot", "-id"]),
            models.Index(name="log_by_age", fields=["created_at"]),
            models.Index(name="log_wanted", fields=["slot"], condition=Q(status=LogStatus.WANTED)),
            models.Index(
                name="log_too_slow",
                fields=["server_uuid", "ended_at"],
                condition=Q(because=NotKept.TOO_SLOW),
            ),
        ]

    def __str__(self) -> str:
        return f"Log {self.pk} of {self.slot_name}"

    @property
    def problem(self) -> str:
        """Why there is no text, for people; empty if there is."""
        if self.status == LogStatus.KEPT:
            return "" if self.text else "The log was empty."
        if self.status == LogStatus.WANTED:
            return "It is being read."
        return f"Not kept: {NotKept(self.because).label} {self.detail}".strip()


class LogReading(models.Model):
    """The log of a slot's container as pages show it: read once for all viewers."""

    slot = models.OneToOneField(
        "slots.Slot",
        primary_key=True,
        on_delete=models.DO_NOTHING,
        related_name="log_reading",
        db_constraint=False,
    )
    epoch = models.BigIntegerField(db_default=0)
    asked_at = models.DateTimeField(null=True)
    read_at = models.DateTimeField(null=True)
    text = models.TextField(blank=True, db_default="")
    is_cut = models.BooleanField(db_default=False)
    problem = models.TextField(blank=True, db_default="")

    def __str__(self) -> str:
        return f"Log of slot {self.pk}, read at {self.read_at}"


@dataclass(frozen=True, kw_only=True)
class LogLine:
    at: datetime | None
    text: str


def lines_of(text: str) -> Iterator[LogLine]:
    """The lines of a cleaned log, each with its time where it has one."""
    for line in text.split("\n") if text else ():
        found = _TIME.fullmatch(line)
        at = _moment(found[1]) if found else None
        yield LogLine(at=at, text=found[2] if found and at else line)


def _moment(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text)
    except ValueError:  # no such date
        return None
