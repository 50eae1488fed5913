from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("slots", "0031_indexes_that_others_contain")]

    operations = [
        migrations.AddField(
            model_name="slot",
            name="deletion_asked_at",
            field=models.DateTimeField(
                blank=True,
                help_text="When Coolify was first asked to delete its application. "
                "It may have done so.",
                null=True,
            ),
        ),
    ]
