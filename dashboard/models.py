"""Records of the dashboard: operator actions, failed logins and samples for the charts."""

from django.conf import settings
from django.db import models
from django.db.models.functions import Now


class OperatorAction(models.Model):
    """An action of an operator on one target, with its reason and outcome."""

    at = models.DateTimeField(db_default=Now())
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    username = models.CharField(max_length=150)
    action = models.CharField(max_length=40)
    target = models.CharField(max_length=200)
    reason = models.TextField()
    done = models.BooleanField(help_text="No if the action was skipped.")
    outcome = models.TextField(blank=True)

    class Meta:
        app_label = "botpool"  # the table belongs to the botpool migrations
        indexes = [models.Index(name="operator_action_by_target", fields=["target", "-id"])]
        permissions = [
            ("view_pool", "Can see the pool"),
            ("operate_pool", "Can act on slots, bots and the queue"),
            ("administer_pool", "Can change pools, delete slots and break leases"),
        ]

    def __str__(self) -> str:
        return f"{self.username}: {self.action} {self.target}"


class PoolSample(models.Model):
    """The state of one pool in one minute, for the charts."""

    platform = models.CharField(max_length=20)
    minute = models.DateTimeField()
    idle = models.PositiveIntegerField(default=0)
    deploying = models.PositiveIntegerField(default=0)
    busy = models.PositiveIntegerField(default=0)
    stopping = models.PositiveIntegerField(default=0)
    error = models.PositiveIntegerField(default=0)
    waiting = models.PositiveIntegerField(default=0)
    wait_p50 = models.FloatField(null=True, help_text="Seconds, for bots that got a slot.")
    wait_p95 = models.FloatField(null=True)
    start_warm = models.FloatField(
        null=True, help_text="Median seconds from assignment to running."
    )
    start_cold = models.FloatField(null=True)
    capacity = models.PositiveIntegerField(db_default=0, help_text="The pool's size.")
    # In the minute before:
    requested = models.PositiveIntegerField(db_default=0)
    warm_starts = models.PositiveIntegerField(db_default=0)
    cold_starts = models.PositiveIntegerField(db_default=0)
    failures = models.JSONField(db_default={}, help_text="Failed bots by cause.")

    class Meta:
        app_label = "botpool"  # the table belongs to the botpool migrations
        constraints = [
            models.UniqueConstraint(
                name="one_sample_per_pool_and_minute", fields=["platform", "minute"]
            )
        ]
        indexes = [models.Index(name="sample_by_minute", fields=["minute"])]

    def __str__(self) -> str:
        return f"{self.platform} at {self.minute:%H:%M}"


class PoolRollup(models.Model):
    """An hour or a day of one pool: a year of history stays small."""

    class Period(models.TextChoices):
        HOUR = "hour", "Hour"
        DAY = "day", "Day"

    platform = models.CharField(max_length=20)
    period = models.CharField(max_length=10, choices=Period)
    at = models.DateTimeField(help_text="Its begin, in UTC.")
    in_use = models.FloatField(help_text="The mean.")
    capacity = models.PositiveIntegerField()
    waiting = models.FloatField(help_text="The highest number.")
    wait_p50 = models.FloatField(null=True)
    wait_p95 = models.FloatField(null=True, help_text="The highest of its minutes.")
    start_warm = models.FloatField(null=True)
    start_cold = models.FloatField(null=True)
    requested = models.PositiveIntegerField()
    warm_starts = models.PositiveIntegerField()
    cold_starts = models.PositiveIntegerField()
    failures = models.JSONField(default=dict)

    class Meta:
        app_label = "botpool"  # the table belongs to the botpool migrations
        constraints = [
            models.UniqueConstraint(
                name="one_rollup_per_pool_and_period", fields=["platform", "period", "at"]
            )
        ]
        indexes = [models.Index(name="rollup_by_time", fields=["period", "at"])]

    def __str__(self) -> str:
        return f"{self.platform}, {self.period} of {self.at:%Y-%m-%d %H:%M}"


class LoginFailure(models.Model):
    """A failed login, counted against its username and address."""

    at = models.DateTimeField(db_default=Now())
    username = models.CharField(max_length=150)
    address = models.CharField(max_length=64)

    class Meta:
        app_label = "botpool"  # the table belongs to the botpool migrations
        indexes = [
            models.Index(name="login_failure_by_name", fields=["username", "at"]),
            models.Index(name="login_failure_by_address", fields=["address", "at"]),
        ]

    def __str__(self) -> str:
        return f"Login from {self.address}"  # the name may be a password in the wrong field
