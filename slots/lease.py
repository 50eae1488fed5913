from django.db import models
from django.db.models.functions import Now


class Lease(models.Model):
    """The right to talk to Coolify about something for a while; see slots.leases.

    A row stays when its lease ends, so that `fence` only ever rises and its story can be read.
    """

    key = models.CharField(max_length=150, primary_key=True)
    holder = models.CharField(max_length=200, blank=True, default="")
    fence = models.BigIntegerField(default=0)
    acquired_at = models.DateTimeField(db_default=Now())
    expires_at = models.DateTimeField(db_default=Now())

    waits = models.PositiveIntegerField(default=0, help_text="Acquired only after waiting.")
    refusals = models.PositiveIntegerField(default=0, help_text="Not acquired after all tries.")
    takeovers = models.PositiveIntegerField(
        default=0, help_text="Taken from a holder that was lost."
    )
    longest_hold = models.DurationField(null=True)

    def __str__(self) -> str:
        return f"{self.key} (fence {self.fence})"
