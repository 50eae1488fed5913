"""One row per platform and minute, the data of the charts."""

from datetime import timedelta

from django.db import connection
from django.db.models.functions import Now

from botpool.telemetry import queries
from bots.status import Platform
from dashboard.models import PoolSample

KEEP = timedelta(days=2)


def sample_pools() -> None:
    """Write this minute's rows, unless they exist, and delete the oldest ones."""
    with connection.cursor() as cursor:
        cursor.execute(queries.SAMPLE, {"platforms": Platform.values})
    PoolSample.objects.filter(minute__lt=Now() - KEEP).delete()
