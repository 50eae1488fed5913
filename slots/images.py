"""Images: which one bots use on which server, and pulls beforehand."""

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from bots.status import Platform


class PlatformImage(models.Model):
    """The image of a platform's bots. Only pool.images writes it.

    `image` is in use, except on servers that have switched to `wanted` already (ImageSwitch).
    `named` is what the environment named last; while `restored_at` is set, it is not followed.
    """

    platform = models.CharField(max_length=20, choices=Platform, primary_key=True)
    image = models.CharField(max_length=300)
    previous = models.CharField(max_length=300, blank=True, db_default="", default="")
    since = models.DateTimeField(db_default=Now(), help_text="When `image` came into use.")

    named = models.CharField(max_length=300, help_text="By the environment.")
    named_at = models.DateTimeField(help_text="When the process that named it was started.")
    wanted = models.CharField(
        max_length=300, blank=True, db_default="", default="", help_text="Replaces `image`."
    )
    wanted_since = models.DateTimeField(null=True, blank=True)

    restored_at = models.DateTimeField(null=True, blank=True)
    restored_by = models.CharField(max_length=150, blank=True, db_default="", default="")
    restored_reason = models.TextField(blank=True, db_default="", default="")

    def __str__(self) -> str:
        return f"{self.image} for {self.platform}"


class ImageSwitch(models.Model):
    """A server that uses the wanted image of a platform already."""

    platform = models.CharField(max_length=20, choices=Platform)
    server_uuid = models.CharField(max_length=64, blank=True)
    image = models.CharField(max_length=300)
    at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [
            models.UniqueConstraint(
                name="a_server_switches_once", fields=["platform", "server_uuid"]
            )
        ]

    def __str__(self) -> str:
        return f"{self.image} for {self.platform} on {self.server_uuid}"


class PrepullStatus(models.TextChoices):
    WAITING = "waiting", "Waiting"
    STARTING = "starting", "Starting"
    PULLING = "pulling", "Pulling"
    DONE = "done", "Done"
    FAILED = "failed", "Failed"
    GIVEN_UP = "given_up", "Given up"
    CANCELLED = "cancelled", "Cancelled"


_P = PrepullStatus

UNDER_WAY = (_P.STARTING, _P.PULLING)
OPEN = (_P.WAITING, *UNDER_WAY)


class Prepull(models.Model):
    """A pull of an image on a server before a bot needs it.

    Its container is that of an application of its own, which is deleted afterwards.
    """

    image = models.CharField(max_length=300)
    server_uuid = models.CharField(max_length=64, blank=True)
    status = models.CharField(max_length=20, choices=PrepullStatus, db_default=_P.WAITING)
    status_since = models.DateTimeField(db_default=Now())
    detail = models.TextField(blank=True, db_default="", default="", help_text="What it waits for.")
    asked_by = models.CharField(max_length=150)
    reason = models.TextField(blank=True, db_default="", default="")
    deadline = models.DateTimeField(help_text="Of its status.")
    next_try_at = models.DateTimeField(null=True, blank=True)
    pulling = models.BooleanField(db_default=False, help_text="Coolify may pull it at this moment.")

    coolify_uuid = models.CharField(max_length=64, blank=True, db_default="", default="")
    application_asked_at = models.DateTimeField(null=True, blank=True)
    start_asked_at = models.DateTimeField(null=True, blank=True)
    deployment_uuid = models.CharField(max_length=64, blank=True, db_default="", default="")

    created_at = models.DateTimeField(db_default=Now())
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                name="one_open_prepull_per_image_and_server",
                fields=["image", "server_uuid"],
                condition=Q(status__in=OPEN),
            ),
            models.CheckConstraint(
                name="prepull_has_an_end_if_and_only_if_over",
                condition=Q(status__in=OPEN, ended_at__isnull=True)
                | (~Q(status__in=OPEN) & Q(ended_at__isnull=False)),
            ),
        ]
        indexes = [models.Index(name="prepull_by_image", fields=["image", "server_uuid", "-id"])]

    def __str__(self) -> str:
        return f"Pre-pull {self.pk} of {self.image} on {self.server_uuid}"

    @property
    def is_open(self) -> bool:
        return self.status in OPEN
