from datetime import datetime, timedelta

from django.conf import settings
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now

from bots.models import Bot
from bots.status import Platform
from core.constraints import allowed_moves
from core.lease_waits import LeaseWait
from core.leases import Lease
from slots.deployment import Deployment, WarmImage, Watch
from slots.finding import Finding, Uptime
from slots.images import ImageSwitch, PlatformImage, Prepull
from slots.logs import KeptLog, LogReading
from slots.status import HELD, MOVES, ContainerStatus, SlotStatus

__all__ = [
    "Deployment",
    "Finding",
    "ImageSwitch",
    "KeptLog",
    "Lease",
    "LeaseWait",
    "LogReading",
    "PlatformImage",
    "Pool",
    "Prepull",
    "Slot",
    "SlotTransition",
    "Uptime",
    "WarmImage",
    "Watch",
]


class Pool(models.Model):
    """What operators set for the pool of one platform; what is not set comes from the settings."""

    platform = models.CharField(max_length=20, choices=Platform, primary_key=True)
    max_size = models.PositiveIntegerField(null=True, blank=True)
    fitted_size = models.PositiveIntegerField(
        null=True, blank=True, help_text="The size that its slots were last fitted to."
    )
    paused_at = models.DateTimeField(null=True, blank=True, help_text="Waiters get no slot since.")
    paused_until = models.DateTimeField(null=True, blank=True)
    paused_by = models.CharField(max_length=150, blank=True, db_default="")
    pause_reason = models.TextField(blank=True, db_default="")

    def __str__(self) -> str:
        return f"Pool {self.platform}"


class Slot(models.Model):
    """A ready-made Coolify application that bots take turns in.

    `assigned_bot` is the only truth about who holds it. Each assignment and each release raises
    `epoch`: a Slot instance in hand means the slot *as it was read*, and the functions in
    pool.lifecycle change nothing if it has moved on since.
    """

    platform = models.CharField(max_length=20, choices=Platform)
    number = models.PositiveIntegerField()
    name = models.CharField(max_length=100)
    coolify_uuid = models.CharField(max_length=64, blank=True, db_default="")
    server_uuid = models.CharField(max_length=64, blank=True, db_default="")
    image = models.CharField(
        max_length=300, blank=True, db_default="", help_text="Of its application, where known."
    )

    settings_version = models.PositiveSmallIntegerField(
        db_default=0, help_text="Of the settings that its application has in Coolify."
    )

    status = models.CharField(max_length=20, choices=SlotStatus)
    previous_status = models.CharField(max_length=20, choices=SlotStatus, blank=True, db_default="")
    status_since = models.DateTimeField(db_default=Now())
    previous_lasted = models.DurationField(null=True, blank=True)
    # db_constraint: a migration adds a stronger one, which includes the platform.
    assigned_bot = models.OneToOneField(
        Bot,
        null=True,
        blank=True,
        on_delete=models.PROTECT,
        related_name="slot",
        db_constraint=False,
    )
    epoch = models.BigIntegerField(db_default=0)
    # A trigger writes these to the history (SlotTransition) with each change of status.
    status_reason = models.TextField(blank=True, db_default="")
    status_actor = models.CharField(max_length=150, blank=True, db_default="")
    # Of the bot that holds the slot or held it last.
    last_bot_id = models.BigIntegerField(null=True, blank=True)
    correlation_id = models.CharField(max_length=64, blank=True, db_default="")

    cordoned = models.BooleanField(db_default=False, help_text="Given to no further bot.")
    beyond_size = models.BooleanField(
        db_default=False, help_text="Cordoned because the pool was made smaller."
    )
    quarantined = models.BooleanField(
        db_default=False, help_text="Cordoned because its starts failed again and again."
    )
    recreate = models.BooleanField(
        db_default=False,
        help_text="Its application is to be replaced by a new one before it is idle.",
    )
    error = models.TextField(blank=True, db_default="")
    recovery_attempts = models.PositiveSmallIntegerField(db_default=0)

    # What was last observed in Coolify. Written only when it changes; Watch says how fresh it is.
    container_status = models.CharField(
        max_length=20, choices=ContainerStatus, db_default=ContainerStatus.IDLE
    )
    container_seen_at = models.DateTimeField(
        null=True, blank=True, help_text="When it was first observed so."
    )
    application_state = models.CharField(
        max_length=30, blank=True, db_default="", help_text="In Coolify's words, such as `exited`."
    )
    application_missing = models.BooleanField(
        db_default=False, help_text="Not in Coolify's last list of applications."
    )
    server_unreachable = models.BooleanField(
        db_default=False, help_text="Coolify could not reach its server: its statuses are old."
    )
    description_written = models.CharField(max_length=255, blank=True, db_default="")

    application_asked_at = models.DateTimeField(
        null=True, blank=True, help_text="A new application was asked for; its answer is awaited."
    )
    deletion_asked_at = models.DateTimeField(
        null=True,
        blank=True,
        help_text="When Coolify was first asked to delete its application. It may have done so.",
    )
    # While its container is brought down:
    stop_asked_at = models.DateTimeField(null=True, blank=True)
    stop_attempts = models.PositiveSmallIntegerField(db_default=0)
    next_try_at = models.DateTimeField(null=True, blank=True)
    stopped_while_running = models.BooleanField(db_default=False)
    docker_asked_at = models.DateTimeField(
        null=True, blank=True, help_text="Docker was asked whether the container runs."
    )
    stop_refused_at = models.DateTimeField(
        null=True,
        blank=True,
        help_text="Found alive after its last stop, although Coolify says `exited`.",
    )
    # Calls of a container whose assignment is over. Such a call is told to leave.
    late_call_at = models.DateTimeField(null=True, blank=True)
    told_epoch = models.BigIntegerField(
        null=True, blank=True, help_text="The last assignment whose bot knows that it is over."
    )

    created_at = models.DateTimeField(db_default=Now())
    last_used_at = models.DateTimeField(null=True, blank=True)
    last_assigned_at = models.DateTimeField(null=True, blank=True)
    last_released_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(name="slot_name_is_unique", fields=["name"]),
            models.UniqueConstraint(
                name="slot_number_is_unique_in_its_platform", fields=["platform", "number"]
            ),
            models.UniqueConstraint(
                name="slot_owns_its_application",
                fields=["coolify_uuid"],
                condition=~Q(coolify_uuid=""),
            ),
            models.CheckConstraint(
                name="slot_platform_is_known", condition=Q(platform__in=Platform.values)
            ),
            models.CheckConstraint(name="slot_numbers_start_at_one", condition=Q(number__gte=1)),
            models.CheckConstraint(
                name="slot_is_held_if_and_only_if_a_bot_is_assigned",
                condition=Q(status__in=HELD, assigned_bot__isnull=False)
                | (~Q(status__in=HELD) & Q(assigned_bot__isnull=True)),
            ),
            models.CheckConstraint(
                name="slot_move_is_allowed",
                condition=allowed_moves(MOVES, start=[SlotStatus.IDLE, SlotStatus.DEPLOYING]),
            ),
            models.CheckConstraint(
                name="slot_beyond_the_size_is_cordoned",
                condition=Q(beyond_size=False) | Q(cordoned=True),
            ),
            models.CheckConstraint(
                name="slot_in_error_says_why",
                condition=~Q(status=SlotStatus.ERROR) | ~Q(error=""),
            ),
        ]
        indexes = [
            # The order in which idle slots are given out; see pool.claim.
            models.Index(
                F("platform"),
                F("last_used_at").asc(nulls_first=True),
                F("number"),
                name="slot_next_idle",
                condition=Q(status=SlotStatus.IDLE, cordoned=False),
            ),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def container_is_of_before(self) -> bool:
        """Whether the container was last observed before the slot got its current bot."""
        if self.assigned_bot_id is None or self.last_assigned_at is None:
            return False
        return self.container_seen_at is None or self.container_seen_at < self.last_assigned_at

    @property
    def busy_since(self) -> datetime:
        """Of a slot that was busy before its present status."""
        return self.status_since - (self.previous_lasted or timedelta())

    @property
    def status_has_settled_at(self) -> datetime:
        """Coolify shows `running` only some time after the container has started. Until then,
        `exited` is left over from before: if it were believed, the stop could remove the next
        bot's container. A slot that was not busy may have a container that has just started.
        """
        was_busy = self.previous_status == SlotStatus.BUSY
        began = self.busy_since if was_busy else self.status_since
        return began + settings.STATUS_SETTLES_AFTER

    @property
    def stop_problem(self) -> str:
        """What is wrong with its container's end, for people; empty if all is as it should be."""
        late = self.late_call_at
        if self.status == SlotStatus.IDLE and late is not None and late > self.status_since:
            return "The container of its last bot still calls. It is told to leave."
        if self.status != SlotStatus.STOPPING:
            return ""
        if self.server_unreachable:
            return "Coolify cannot reach the server, so nothing is stopped there."
        if self.stop_refused_at is not None:
            return "Coolify reports the container as stopped, but it still runs."
        if self.stop_attempts > 1:
            return "An earlier stop was not carried out: it is asked for again."
        return ""


class SlotTransition(models.Model):
    """A line of a slot's history. Moves are written by a trigger, notes by slots.history; a row is
    never changed."""

    class Kind(models.TextChoices):
        """What happened, for machines. People read the reason."""

        MOVE = "move", "Moved"
        NOTE = "note", "Note"
        APPLICATION_CREATED = "application_created", "Application created"
        APPLICATION_DELETED = "application_deleted", "Application deleted"
        APPLICATION_GONE = "application_gone", "Application gone"

    slot = models.ForeignKey(
        Slot,
        on_delete=models.DO_NOTHING,
        related_name="transitions",
        db_constraint=False,
        db_index=False,  # transition_by_slot begins with it
    )
    slot_name = models.CharField(max_length=100)
    at = models.DateTimeField(db_default=Now())
    from_status = models.CharField(max_length=20, blank=True)
    to_status = models.CharField(max_length=20)
    kind = models.CharField(max_length=30, choices=Kind, db_default=Kind.MOVE)
    lasted = models.DurationField(null=True, help_text="How long the state before it lasted.")
    reason = models.TextField()
    bot = models.ForeignKey(
        Bot,
        null=True,
        on_delete=models.DO_NOTHING,
        related_name="slot_transitions",
        db_constraint=False,
    )
    epoch = models.BigIntegerField()
    coolify_uuid = models.CharField(max_length=64, blank=True)
    actor = models.CharField(max_length=150)
    correlation_id = models.CharField(max_length=64, blank=True)

    class Meta:
        indexes = [models.Index(name="transition_by_slot", fields=["slot", "id"])]

    def __str__(self) -> str:
        return f"{self.slot_name}: {self.from_status or 'new'} → {self.to_status}"
