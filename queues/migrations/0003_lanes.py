from django.db import migrations, models

from core.migration_operations import AddFieldOnce, AddIndexConcurrently


class Migration(migrations.Migration):
    atomic = False  # for an index without a lock on the table

    dependencies = [("queues", "0002_turns")]

    operations = [
        AddFieldOnce(
            model_name="queueentry",
            name="lane",
            field=models.BigIntegerField(db_default=0),
        ),
        AddIndexConcurrently(
            "queueentry",
            models.Index(
                fields=["platform", "lane", "turn", "id"], name="queue_order_by_lane"
            ),
        ),
    ]
