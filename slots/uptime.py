from django.db import models


class Uptime(models.Model):
    """A period without a break in which Botpool is known to have answered at its address."""

    since = models.DateTimeField()
    until = models.DateTimeField(db_index=True)

    def __str__(self) -> str:
        return f"{self.since} to {self.until}"
