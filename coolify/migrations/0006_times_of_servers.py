from datetime import UTC, datetime

from django.contrib.postgres.operations import AddConstraintNotValid
from django.db import migrations, models
from django.db.models import Q

YEARS = datetime(2000, 1, 1, tzinfo=UTC), datetime(3000, 1, 1, tzinfo=UTC)

# Only a few rows, one for each server. An order without an end lasts until an operator ends it.
REPAIRS = [
    """
    UPDATE coolify_serverreading SET order_until = NULL
    WHERE order_until NOT BETWEEN '2000-01-01 00:00+00' AND '3000-01-01 00:00+00'
    """,
    """
    UPDATE coolify_serverreading
    SET window_from = NULL, window_until = NULL, window_reason = '', window_by = ''
    WHERE window_from >= '3000-01-01 00:00+00' OR window_until <= '2000-01-01 00:00+00'
    """,
    """
    UPDATE coolify_serverreading
    SET window_from = GREATEST(window_from, '2000-01-01 00:00+00'),
        window_until = LEAST(window_until, '3000-01-01 00:00+00')
    WHERE window_from < '2000-01-01 00:00+00' OR window_until > '3000-01-01 00:00+00'
    """,
]


class Migration(migrations.Migration):
    dependencies = [("coolify", "0005_refusals")]

    operations = [
        # Before the repairs: the old version cannot store another such time in between. An update
        # of a row is checked, so every row has to be right from now on.
        AddConstraintNotValid(
            "server",
            models.CheckConstraint(
                name="server_times_are_between_2000_and_3000",
                condition=Q(
                    order_until__range=YEARS, window_from__range=YEARS, window_until__range=YEARS
                ),
            ),
        ),
        migrations.RunSQL(REPAIRS, reverse_sql=migrations.RunSQL.noop),
    ]
