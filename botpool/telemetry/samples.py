"""One row per platform and minute, the data of the charts, and what they add up to."""

from datetime import timedelta
from typing import Any

from django.db import connection
from django.db.models.functions import Now

from botpool.telemetry import queries
from bots.status import Platform
from dashboard.models import PoolRollup, PoolSample
from pool.capacity import pool_sizes

KEEP = timedelta(days=2)
KEEP_HOURS = timedelta(days=100)


def sample_pools() -> None:
    """Write this minute's rows, unless they exist, add them up, and delete the oldest ones."""
    sizes = pool_sizes()
    parameters: dict[str, list[Any]] = {
        "platforms": Platform.values,
        "sizes": [sizes[platform] for platform in Platform.values],
    }
    with connection.cursor() as cursor:
        cursor.execute(queries.SAMPLE, parameters)
        if cursor.rowcount:
            roll_up()
    PoolSample.objects.filter(minute__lt=Now() - KEEP).delete()
    hours = PoolRollup.objects.filter(period=PoolRollup.Period.HOUR)
    hours.filter(at__lt=Now() - KEEP_HOURS).delete()


def roll_up() -> None:
    """Minutes to hours, hours to days; those that are not over are written again."""
    with connection.cursor() as cursor:
        cursor.execute(queries.ROLL_UP_HOURS)
        cursor.execute(queries.ROLL_UP_DAYS)
