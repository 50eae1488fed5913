from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("slots", "0013_history_and_wakes_by_trigger")]

    operations = [
        migrations.AddField(
            model_name="lease",
            name="failures",
            field=models.PositiveIntegerField(
                db_default=0,
                default=0,
                help_text="Runs that failed since the last that did not.",
            ),
        ),
    ]
