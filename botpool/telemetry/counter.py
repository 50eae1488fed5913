from django.db import models


class Tally(models.Model):
    """A counter of events since the beginning. It never decreases.

    For a histogram, `labels` holds the bucket's upper bound as `le`. Buckets are not cumulative.
    """

    name = models.CharField(max_length=100)
    labels = models.JSONField(default=dict)
    total = models.FloatField(default=0)

    class Meta:
        app_label = "botpool"
        verbose_name_plural = "tallies"
        constraints = [
            models.UniqueConstraint(name="one_tally_per_name_and_labels", fields=["name", "labels"])
        ]

    def __str__(self) -> str:
        return f"{self.name} {self.labels}: {self.total:g}"


class TallyMark(models.Model):
    """The time up to which one kind of history has been counted."""

    source = models.CharField(max_length=40, primary_key=True)
    counted_until = models.DateTimeField(null=True)

    class Meta:
        app_label = "botpool"

    def __str__(self) -> str:
        return f"{self.source} until {self.counted_until}"
