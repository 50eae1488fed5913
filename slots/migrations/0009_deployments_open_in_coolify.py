from django.db import migrations, models

from core.migration_operations import AddIndexConcurrently


class Migration(migrations.Migration):
    atomic = False

    dependencies = [
        ("slots", "0008_validate_slots_beyond_the_size"),
    ]

    operations = [
        AddIndexConcurrently(
            model_name="deployment",
            index=models.Index(
                condition=models.Q(
                    ("coolify_ended_at__isnull", True), ("start_asked_at__isnull", False)
                ),
                fields=["slot"],
                name="deployment_open_in_coolify",
            ),
        ),
    ]
