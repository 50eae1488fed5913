from __future__ import annotations

from datetime import UTC, datetime

from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now

from servers.health import ServerState

# PostgreSQL stores years that Python cannot read: one such row would stop all that reads servers.
_YEARS = datetime(2000, 1, 1, tzinfo=UTC), datetime(3000, 1, 1, tzinfo=UTC)


class Server(models.Model):
    """A server of Coolify: what was reported about it, what operators asked for, and the state
    that follows from both.

    `order` takes it out of service, and `window_from` to `window_until` is its maintenance window.
    Only pool.servers writes these.
    """

    class Order(models.TextChoices):
        CORDONED = ServerState.CORDONED.value, "No new bots"
        DRAINING = ServerState.DRAINING.value, "No new bots, and its slots move elsewhere"

    uuid = models.TextField(primary_key=True)
    name = models.TextField(default="", blank=True)
    is_reachable = models.BooleanField(null=True)
    is_usable = models.BooleanField(null=True)
    concurrent_builds = models.PositiveIntegerField(null=True)
    deployment_queue_limit = models.PositiveIntegerField(null=True)
    read_at = models.DateTimeField(null=True, help_text="When Coolify last reported about it.")

    unreachable_since = models.DateTimeField(null=True, blank=True)
    state = models.CharField(
        max_length=20, choices=ServerState, db_default=ServerState.HEALTHY, default="healthy"
    )
    state_since = models.DateTimeField(db_default=Now())
    state_reason = models.TextField(blank=True, db_default="", default="")
    state_evidence = models.JSONField(blank=True, db_default={}, default=dict)

    order = models.CharField(
        max_length=20, choices=Order, blank=True, db_default="", default="", help_text="Operators'."
    )
    order_since = models.DateTimeField(null=True, blank=True)
    order_until = models.DateTimeField(null=True, blank=True)
    order_reason = models.TextField(blank=True, db_default="", default="")
    order_by = models.CharField(max_length=150, blank=True, db_default="", default="")

    window_from = models.DateTimeField(null=True, blank=True)
    window_until = models.DateTimeField(null=True, blank=True)
    window_reason = models.TextField(blank=True, db_default="", default="")
    window_by = models.CharField(max_length=150, blank=True, db_default="", default="")

    class Meta:
        app_label = "coolify"
        db_table = "coolify_serverreading"
        constraints = [
            models.CheckConstraint(
                name="server_window_begins_before_it_ends",
                condition=Q(window_from__isnull=True, window_until__isnull=True)
                | Q(window_from__lt=F("window_until")),
            ),
            models.CheckConstraint(
                name="server_times_are_between_2000_and_3000",
                condition=Q(
                    order_until__range=_YEARS, window_from__range=_YEARS, window_until__range=_YEARS
                ),
            ),
        ]

    def __str__(self) -> str:
        return self.name or self.uuid
