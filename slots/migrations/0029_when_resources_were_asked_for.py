from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("slots", "0028_images_and_prepulls")]

    operations = [
        migrations.AddField(
            model_name="watch",
            name="resources_asked_at",
            field=models.DateTimeField(
                help_text="When Coolify was last asked for the resources of servers instead.",
                null=True,
            ),
        ),
    ]
