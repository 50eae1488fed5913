from __future__ import annotations

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models.functions import Now


class Budget(models.Model):
    """The one budget of calls to Coolify, shared by all processes.

    Only the database functions `coolify_take` and `coolify_settle` write it. They lock its row.
    """

    THE_ONE = 1

    id = models.PositiveSmallIntegerField(primary_key=True, default=THE_ONE)

    # Calls granted in each second, newest first: ring[0] is the second `ring_second`.
    ring = ArrayField(models.IntegerField(), default=list)
    ring_second = models.BigIntegerField(default=0)

    # X-RateLimit-Limit, and the calls that other programs made as the same Coolify user.
    coolify_limit = models.IntegerField(null=True)
    spent_by_others = models.BigIntegerField(default=0)

    paused_until = models.DateTimeField(null=True)
    pause_reason = models.TextField(default="", blank=True)
    times_paused = models.BigIntegerField(default=0)

    # The circuit is closed while `open_until` is null. After that time, a probe may pass.
    failures = models.IntegerField(default=0)
    open_since = models.DateTimeField(null=True)
    open_until = models.DateTimeField(null=True)
    open_reason = models.TextField(default="", blank=True)
    failed_probes = models.IntegerField(default=0)
    probe_until = models.DateTimeField(null=True)
    times_opened = models.BigIntegerField(default=0)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=models.Q(id=1), name="there_is_one_coolify_budget"),
        ]

    def __str__(self) -> str:
        return "budget of calls to Coolify"


class Refusal(models.Model):
    """A kind of call that Coolify refused to a token (401 or 403). See coolify.budget.access."""

    token = models.TextField(help_text="A fingerprint; never the token itself.")
    ability = models.TextField()
    reason = models.TextField()
    since = models.DateTimeField(db_default=Now())
    probe_at = models.DateTimeField(null=True, help_text="When one call may try again.")
    probes = models.PositiveIntegerField(db_default=0)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["token", "ability"], name="one_refusal_per_token_and_ability"
            ),
        ]

    def __str__(self) -> str:
        return f"Coolify refuses {self.ability}: {self.reason}"


class CallCount(models.Model):
    """A counter for each call and outcome. It only grows.

    The outcome is `granted`, `refused:` and the reason, or the error kind of a granted call.
    The row HELD_BACK counts no call: its total is the milliseconds for which calls were held back.
    """

    HELD_BACK = ("", "held back", "milliseconds")

    call_class = models.TextField()
    name = models.TextField()
    outcome = models.TextField()
    total = models.BigIntegerField(default=0)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["call_class", "name", "outcome"], name="one_count_per_call_and_outcome"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name} ({self.call_class}) {self.outcome}: {self.total}"
