from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from django.utils import timezone

from bots.status import FailureCause


class DeploymentStatus(models.TextChoices):
    WAITING_FOR_IMAGE = "waiting_for_image", "Waiting for the image"
    WAITING_FOR_PLACE = "waiting_for_place", "Waiting for a build place"
    STARTING = "starting", "Starting"
    IN_PROGRESS = "in_progress", "In progress"
    FINISHED = "finished", "Finished"
    FAILED = "failed", "Failed"
    TIMED_OUT = "timed_out", "Timed out"
    CANCELLED = "cancelled", "Cancelled"


_D = DeploymentStatus

WAITING = (_D.WAITING_FOR_IMAGE, _D.WAITING_FOR_PLACE)
UNDER_WAY = (_D.STARTING, _D.IN_PROGRESS)
ACTIVE = (*WAITING, *UNDER_WAY)


class Deployment(models.Model):
    """One start of a slot for one bot: made with the assignment, ended by the slot's next move.

    It belongs to one epoch of its slot. Once the slot has moved on, it is history.
    """

    slot = models.ForeignKey(
        "slots.Slot",
        on_delete=models.DO_NOTHING,
        related_name="deployments",
        db_constraint=False,
        db_index=False,  # deployment_by_slot begins with it
    )
    slot_name = models.CharField(max_length=100)
    bot = models.ForeignKey(
        "bots.Bot",
        on_delete=models.DO_NOTHING,
        related_name="deployments",
        db_constraint=False,
        db_index=False,  # deployment_by_bot begins with it
    )
    epoch = models.BigIntegerField()
    image = models.CharField(max_length=300)
    server_uuid = models.CharField(max_length=64, blank=True)

    status = models.CharField(
        max_length=20, choices=DeploymentStatus, db_default=_D.WAITING_FOR_IMAGE
    )
    status_since = models.DateTimeField(db_default=Now())
    reason = models.TextField(blank=True, db_default="")
    failure_cause = models.CharField(max_length=30, choices=FailureCause, blank=True, db_default="")
    # The order in which deployments get an image or a build place, as in the queue.
    turn = models.DateTimeField(db_default=Now())
    attempt = models.PositiveSmallIntegerField(db_default=0, help_text="Calls made to start it.")
    next_try_at = models.DateTimeField(null=True)
    deadline = models.DateTimeField(null=True)

    leader = models.BooleanField(db_default=False, help_text="Pulled the image for the others.")
    pulling = models.BooleanField(db_default=False, help_text="Pulls the image at this moment.")
    waited_for_image = models.BooleanField(db_default=False)

    deployment_uuid = models.CharField(max_length=64, blank=True, db_default="")
    queued_in_coolify = models.BooleanField(
        db_default=False, help_text="It waits behind others in Coolify's own queue."
    )
    coolify_status = models.CharField(max_length=30, blank=True, db_default="")

    created_at = models.DateTimeField(db_default=Now())
    image_at = models.DateTimeField(null=True, help_text="It no longer waited for its image.")
    place_at = models.DateTimeField(null=True, help_text="It got a build place.")
    start_asked_at = models.DateTimeField(null=True)
    building_since = models.DateTimeField(null=True)
    coolify_ended_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    ended_from = models.CharField(
        max_length=20, blank=True, db_default="", help_text="Its last status before the end."
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(
                name="one_active_deployment_per_slot",
                fields=["slot"],
                condition=Q(status__in=ACTIVE),
            ),
            models.UniqueConstraint(
                name="one_puller_per_image_and_server",
                fields=["image", "server_uuid"],
                condition=Q(pulling=True),
            ),
            models.CheckConstraint(
                name="deployment_has_an_end_if_and_only_if_over",
                condition=Q(status__in=ACTIVE, ended_at__isnull=True)
                | (~Q(status__in=ACTIVE) & Q(ended_at__isnull=False)),
            ),
        ]
        indexes = [
            models.Index(name="deployment_active", fields=["id"], condition=Q(status__in=ACTIVE)),
            models.Index(name="deployment_by_slot", fields=["slot", "-id"]),
            models.Index(
                name="deployment_open_in_coolify",
                fields=["slot"],
                condition=Q(start_asked_at__isnull=False, coolify_ended_at__isnull=True),
            ),
            models.Index(name="deployment_by_bot", fields=["bot", "id"]),
        ]

    def __str__(self) -> str:
        return f"Deployment {self.pk} of {self.slot_name}"


class WarmImage(models.Model):
    """An image on a server: the evidence that it is there, or since when and why it is not.

    `warmed_at` is its last pull, or for a pinned tag its last use.
    """

    class Evidence(models.TextChoices):
        START = "start", "A start finished"
        PULL = "pull", "A start pulled it"
        PREPULL = "prepull", "It was pulled beforehand"
        LISTED = "listed", "Coolify lists it"

    image = models.CharField(max_length=300)
    server_uuid = models.CharField(max_length=64, blank=True)
    warmed_at = models.DateTimeField(db_default=Now())
    evidence = models.CharField(max_length=20, choices=Evidence, blank=True, db_default="")
    confirmed_at = models.DateTimeField(null=True, blank=True)
    trusted_until = models.DateTimeField(
        null=True, blank=True, help_text="When Coolify's clean-up may remove it."
    )
    asked_at = models.DateTimeField(
        null=True, blank=True, help_text="When Coolify was last asked whether it is there."
    )
    cold_since = models.DateTimeField(null=True, blank=True)
    cold_reason = models.TextField(blank=True, db_default="")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                name="warm_image_is_known_once_per_server", fields=["image", "server_uuid"]
            )
        ]

    def __str__(self) -> str:
        return f"{self.image} on {self.server_uuid}"

    @property
    def state(self) -> str:
        """In words: warm; doubted, because a clean-up may have removed it; or cold."""
        if self.cold_since is not None:
            return "cold"
        is_doubted = self.trusted_until is not None and self.trusted_until <= timezone.now()
        return "doubted" if is_doubted else "warm"


class Watch(models.Model):
    """When Coolify was last observed, and how that went. One row."""

    id = models.BooleanField(primary_key=True, default=True)
    looked_at = models.DateTimeField(null=True, help_text="The last try.")
    starts_asked_at = models.DateTimeField(
        null=True, help_text="When Coolify was last asked which deployments are under way."
    )
    resources_asked_at = models.DateTimeField(
        null=True, help_text="When Coolify was last asked for the resources of servers instead."
    )
    wanted_at = models.DateTimeField(null=True, help_text="When one was asked for out of turn.")
    observed_at = models.DateTimeField(null=True, help_text="The last that succeeded.")
    failing_since = models.DateTimeField(null=True)
    error = models.TextField(blank=True, default="")

    class Meta:
        verbose_name_plural = "watch"
        constraints = [models.CheckConstraint(name="one_watch", condition=Q(id=True))]

    def __str__(self) -> str:
        return f"Coolify observed at {self.observed_at}"
