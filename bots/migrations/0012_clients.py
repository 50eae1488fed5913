import django.db.models.deletion
from django.db import migrations, models
from django.db.models import Q
from django.db.models.functions import Now


class Migration(migrations.Migration):
    dependencies = [("bots", "0011_validate_meeting_too_long")]

    operations = [
        migrations.CreateModel(
            name="Client",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=100)),
                ("max_bots", models.PositiveIntegerField(blank=True, help_text="Empty: no limit.", null=True, verbose_name="most bots at once")),
                ("max_waiting", models.PositiveIntegerField(blank=True, help_text="Empty: no limit.", null=True, verbose_name="most bots waiting")),
                ("share", models.PositiveSmallIntegerField(db_default=1, default=1, help_text="How many slots it gets for each one of a share of 1.")),
                ("created_at", models.DateTimeField(db_default=Now())),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("name",), name="client_name_is_unique"),
                    models.CheckConstraint(condition=Q(("share__gte", 1), ("share__lte", 100)), name="client_share_is_in_range"),
                ],
            },
        ),
        migrations.AddField(
            model_name="apikey",
            name="client",
            field=models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name="keys", to="bots.client"),
        ),
        migrations.AddField(
            model_name="bot",
            name="client",
            field=models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name="bots", to="bots.client"),
        ),
    ]
