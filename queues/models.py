from datetime import timedelta

from django.conf import settings
from django.db import models
from django.db.models import DateTimeField, F, Func
from django.db.models.expressions import CombinedExpression

from bots.models import Bot
from bots.status import Platform


def ageing() -> timedelta:
    """Return how much waiting one step of priority is worth, for bots that join now."""
    step: timedelta = settings.QUEUE_AGEING
    return step


class InUtc(Func):
    """Remove or restore the time zone.

    PostgreSQL stores a generated column only if its expression is immutable, and adding an
    interval to a time with a zone is not.
    """

    template = "(%(expressions)s AT TIME ZONE 'UTC')"
    output_field = DateTimeField()


class QueueEntry(models.Model):
    """A bot that waits for a slot. Within a client, the order is by turn, then id.

    The turn is the time of the request, plus `ageing` for each step of priority. A lower priority
    number goes first, and equal numbers go first come, first served. No bot is overtaken for ever,
    and two waiters never change places while they wait.
    """

    bot = models.OneToOneField(Bot, on_delete=models.CASCADE, related_name="queue_entry")
    platform = models.CharField(max_length=20, choices=Platform)
    priority = models.PositiveSmallIntegerField(default=100)
    queued_at = models.DateTimeField()
    timeout_at = models.DateTimeField()
    # The id of the bot's client: clients share the slots fairly (pool.sharing.turns). 0 if it has
    # none, or if all wait in one line.
    lane = models.BigIntegerField(db_default=0)
    ageing = models.DurationField(default=ageing)
    turn = models.GeneratedField(
        expression=InUtc(
            CombinedExpression(
                InUtc(F("queued_at")),
                "+",
                CombinedExpression(
                    F("priority"), "*", F("ageing"), output_field=models.DurationField()
                ),
                output_field=DateTimeField(),
            )
        ),
        output_field=DateTimeField(),
        db_persist=True,
    )

    class Meta:
        verbose_name_plural = "queue entries"
        indexes = [
            models.Index(name="queue_order", fields=["platform", "turn", "id"]),
            models.Index(name="queue_order_by_lane", fields=["platform", "lane", "turn", "id"]),
            models.Index(name="queue_deadline", fields=["timeout_at"]),
        ]

    def __str__(self) -> str:
        return f"Bot #{self.bot_id} waits for {self.platform}"
