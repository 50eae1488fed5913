from django.db import migrations, models
from django.db.models import Q

from core.migration_operations import AddFieldOnce

RULE = models.UniqueConstraint(
    name="bot_request_key_is_unique", fields=["request_key"], condition=~Q(request_key="")
)
DROP = "DROP INDEX CONCURRENTLY IF EXISTS bot_request_key_is_unique"
# As Django makes it for the constraint, but without a lock on the table.
CREATE = """
CREATE UNIQUE INDEX CONCURRENTLY bot_request_key_is_unique
    ON bots_bot (request_key) WHERE NOT (request_key = '')
"""


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("bots", "0016_shown_addresses")]

    operations = [
        AddFieldOnce(
            "bot",
            "request_key",
            models.CharField(blank=True, db_default="", default="", editable=False, max_length=80),
        ),
        migrations.SeparateDatabaseAndState(
            database_operations=[migrations.RunSQL([DROP, CREATE], DROP)],
            state_operations=[migrations.AddConstraint("bot", RULE)],
        ),
    ]
