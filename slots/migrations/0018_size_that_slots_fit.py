from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("slots", "0017_server_lost")]

    operations = [
        migrations.AddField(
            model_name="pool",
            name="fitted_size",
            field=models.PositiveIntegerField(
                blank=True, help_text="The size that its slots were last fitted to.", null=True
            ),
        ),
    ]
