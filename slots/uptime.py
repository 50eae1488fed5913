from django.db import models


class Uptime(models.Model):
    """A time without a break in which the web is known to have answered."""

    since = models.DateTimeField()
    until = models.DateTimeField(db_index=True)

    def __str__(self) -> str:
        return f"{self.since} to {self.until}"
