from django.db import models


class Tally(models.Model):
    """A count of what has happened since the beginning: it only ever grows.

    `labels` of a histogram hold the bucket's upper end as `le`; each bucket counts its own only.
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
    """Up to when the rows of one kind of history are in the tallies; later ones are not yet."""

    source = models.CharField(max_length=40, primary_key=True)
    counted_until = models.DateTimeField(null=True)

    class Meta:
        app_label = "botpool"

    def __str__(self) -> str:
        return f"{self.source} until {self.counted_until}"
