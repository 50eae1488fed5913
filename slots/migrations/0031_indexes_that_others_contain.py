from django.db import migrations, models

from core.migration_operations import drop_field_index


class Migration(migrations.Migration):
    """Each index costs time whenever a slot moves."""

    atomic = False  # for indexes without a lock on the table

    dependencies = [
        ("bots", "0015_indexes_that_others_contain"),
        ("slots", "0030_logs_of_failures"),
    ]

    operations = [
        drop_field_index(
            "deployment",
            "slot",
            models.ForeignKey(
                "slots.slot",
                on_delete=models.DO_NOTHING,
                related_name="deployments",
                db_constraint=False,
                db_index=False,
            ),
            "slots_deployment_slot_id_f3193f8f",
        ),
        drop_field_index(
            "deployment",
            "bot",
            models.ForeignKey(
                "bots.bot",
                on_delete=models.DO_NOTHING,
                related_name="deployments",
                db_constraint=False,
                db_index=False,
            ),
            "slots_deployment_bot_id_61f92711",
        ),
        drop_field_index(
            "slottransition",
            "slot",
            models.ForeignKey(
                "slots.slot",
                on_delete=models.DO_NOTHING,
                related_name="transitions",
                db_constraint=False,
                db_index=False,
            ),
            "slots_slottransition_slot_id_b5e18f88",
        ),
    ]
