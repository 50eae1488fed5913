from django.contrib.postgres.operations import AddConstraintNotValid
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("slots", "0006_findings_and_uptime"),
    ]

    operations = [
        migrations.AddField(
            model_name="slot",
            name="beyond_size",
            field=models.BooleanField(
                db_default=False, help_text="Cordoned because the pool was made smaller."
            ),
        ),
        AddConstraintNotValid(
            model_name="slot",
            constraint=models.CheckConstraint(
                condition=models.Q(("beyond_size", False), ("cordoned", True), _connector="OR"),
                name="slot_beyond_the_size_is_cordoned",
            ),
        ),
    ]
