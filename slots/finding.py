import json
from hashlib import sha256

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from bots.status import Platform

# A container that crashes again and again is no new evidence each time.
VOLATILE = frozenset({"restartCount"})


class FindingKind(models.TextChoices):
    # What the rows themselves show …
    ENDED_BOT_HOLDS_SLOT = "ended_bot_holds_slot", "A bot that has ended holds its slot"
    BOT_WITHOUT_SLOT = "bot_without_slot", "A bot that should hold a slot has none"
    BOT_WAITS_NOWHERE = "bot_waits_nowhere", "A bot waits and stands in no line"
    ENTRY_WITHOUT_WAITER = "entry_without_waiter", "A place in line of a bot that does not wait"
    STUCK_DEPLOYING = "stuck_deploying", "A slot deploys for too long"
    HEARTBEAT_LOST = "heartbeat_lost", "A bot has fallen silent"
    MEETING_TOO_LONG = "meeting_too_long", "A bot stays in its meeting beyond the limit"
    # … and what they show together with Coolify.
    CONTAINER_GONE = "container_gone", "A held slot without a container"
    CRASH_LOOP = "crash_loop", "A container crashes again and again"
    CONTAINER_LEFT = "container_left", "A container in an idle slot"
    STUCK_STOPPING = "stuck_stopping", "A slot stops for too long"
    SLOT_IN_ERROR = "slot_in_error", "A slot in error"
    APPLICATION_GONE = "application_gone", "The application of a slot is gone"
    APPLICATION_UNKNOWN = "application_unknown", "An application of no slot"
    DESCRIPTION_DIFFERS = "description_differs", "A description that is not ours"
    # Why an answer of Coolify is not believed.
    WRONG_TEAM = "wrong_team", "Coolify does not show our project"
    SHORT_LIST = "short_list", "Coolify's list lacks too many applications"
    # What a pass says of itself.
    UNHEARD = "unheard", "No proof that bots can reach Botpool"
    TOO_MANY = "too_many", "Repairs are held back"


class Finding(models.Model):
    """Something that is wrong, from the first pass that saw it to its end.

    An open finding was seen in every good pass since `first_seen_at`. `epoch` is the slot's: in the
    next epoch, the same problem is a new finding.
    """

    kind = models.CharField(max_length=30, choices=FindingKind)
    subject = models.CharField(max_length=150, help_text="slot:7, bot:12, application:…")
    name = models.CharField(max_length=150, blank=True, help_text="The subject as people know it.")
    epoch = models.BigIntegerField(default=0)
    slot = models.ForeignKey(
        "slots.Slot",
        null=True,
        on_delete=models.DO_NOTHING,
        related_name="findings",
        db_constraint=False,
    )
    bot = models.ForeignKey(
        "bots.Bot",
        null=True,
        on_delete=models.DO_NOTHING,
        related_name="findings",
        db_constraint=False,
    )

    platform = models.CharField(max_length=20, choices=Platform, blank=True, db_default="")

    reason = models.TextField()
    evidence = models.JSONField(default=dict)
    decision = models.TextField(blank=True, default="")
    outcome = models.TextField(blank=True, default="")
    actor = models.CharField(max_length=150, blank=True, default="")

    sightings = models.PositiveIntegerField(default=1)
    first_seen_at = models.DateTimeField(db_default=Now())
    last_seen_at = models.DateTimeField(db_default=Now())
    acted_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)

    held_back = models.TextField(
        blank=True, db_default="", help_text="Why its repair waits for an operator."
    )
    approved_at = models.DateTimeField(null=True, blank=True)
    approved_by = models.CharField(max_length=150, blank=True, db_default="")
    approval_reason = models.TextField(blank=True, db_default="")
    approved_evidence = models.CharField(
        max_length=32, blank=True, db_default="", help_text="Its fingerprint then."
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(
                name="one_open_finding_of_a_kind",
                fields=["kind", "subject", "epoch"],
                condition=Q(ended_at__isnull=True),
            )
        ]
        indexes = [
            models.Index(name="finding_by_slot", fields=["slot", "-id"]),
            models.Index(name="finding_by_age", fields=["ended_at"]),
        ]

    def __str__(self) -> str:
        return f"{self.get_kind_display()}: {self.name or self.subject}"

    @property
    def fingerprint(self) -> str:
        """Changes with the evidence, except for what changes all the time."""
        lasting = {name: value for name, value in self.evidence.items() if name not in VOLATILE}
        text = json.dumps([self.kind, self.subject, self.epoch, lasting], sort_keys=True)
        return sha256(text.encode()).hexdigest()[:32]

    @property
    def batch(self) -> str:
        """Repairs that are held back together."""
        return f"{self.get_kind_display()} · {self.get_platform_display() or 'no platform'}"

    @property
    def is_approved(self) -> bool:
        return self.approved_at is not None and self.approved_evidence == self.fingerprint


class Uptime(models.Model):
    """A period without a break in which Botpool is known to have answered at its address: a bot's
    silence is evidence only then."""

    since = models.DateTimeField()
    until = models.DateTimeField(db_index=True)

    def __str__(self) -> str:
        return f"{self.since} to {self.until}"
