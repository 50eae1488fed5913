from django.db import migrations, models

from core.migration_operations import AddIndexConcurrently, drop_field_index


class Migration(migrations.Migration):
    """Each index costs time whenever a bot moves."""

    atomic = False  # for indexes without a lock on the table

    dependencies = [("bots", "0014_words_of_bots")]

    operations = [
        # Instead of two: `db_index` also makes one for LIKE, which no query uses.
        AddIndexConcurrently(
            "bot", models.Index(name="bot_by_correlation", fields=["correlation_id"])
        ),
        drop_field_index(
            "bot",
            "correlation_id",
            models.CharField(max_length=64),
            "bots_bot_correlation_id_2679c02f_like",
            "bots_bot_correlation_id_2679c02f",
        ),
        drop_field_index(
            "botevent",
            "bot",
            models.ForeignKey(
                "bots.bot",
                on_delete=models.DO_NOTHING,
                related_name="events",
                db_constraint=False,
                db_index=False,
            ),
            "bots_botevent_bot_id_399b9679",
        ),
    ]
