import django.db.models.deletion
from django.db import migrations, models
from django.db.models.functions import Now


def name_the_endpoint_of_each_key(apps, schema_editor):
    keys = apps.get_model("bots", "ApiKey").objects.exclude(webhook_url="")
    endpoints = apps.get_model("bots", "WebhookEndpoint").objects
    endpoints.bulk_create(endpoints.model(api_key=key, url=key.webhook_url) for key in keys)


class Migration(migrations.Migration):
    dependencies = [("bots", "0007_validate_failure_cause")]

    operations = [
        migrations.AddField(
            model_name="apikey",
            name="secret_version",
            field=models.PositiveIntegerField(db_default=1, editable=False),
        ),
        migrations.AddField(
            model_name="apikey",
            name="old_secret_until",
            field=models.DateTimeField(editable=False, null=True),
        ),
        migrations.CreateModel(
            name="WebhookEndpoint",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("secret_version", models.PositiveIntegerField(db_default=1, editable=False)),
                ("old_secret_until", models.DateTimeField(editable=False, null=True)),
                ("url", models.CharField(max_length=2000, verbose_name="address")),
                ("is_named", models.BooleanField(db_default=True)),
                ("statuses", models.JSONField(blank=True, default=list, help_text="The statuses to send; empty for all.")),
                ("created_at", models.DateTimeField(db_default=Now())),
                ("failing_since", models.DateTimeField(help_text="Nothing was delivered since then.", null=True)),
                ("failures", models.PositiveIntegerField(db_default=0, help_text="Rounds of tries in a row.")),
                ("paused_until", models.DateTimeField(null=True)),
                ("last_answer", models.CharField(blank=True, db_default="", max_length=300)),
                ("disabled_at", models.DateTimeField(null=True)),
                ("disabled_because", models.CharField(blank=True, db_default="", max_length=500)),
                ("api_key", models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name="endpoints", to="bots.apikey")),
            ],
            options={
                "abstract": False,
                "constraints": [
                    models.UniqueConstraint(
                        fields=("api_key", "is_named", "url"),
                        name="webhook_endpoint_is_unique_to_its_key",
                    )
                ],
            },
        ),
        migrations.AddField(
            model_name="webhook",
            name="endpoint",
            field=models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.CASCADE, related_name="webhooks", to="bots.webhookendpoint"),
        ),
        migrations.AddField(
            model_name="webhookdelivery",
            name="endpoint",
            field=models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.CASCADE, related_name="deliveries", to="bots.webhookendpoint"),
        ),
        migrations.RunPython(name_the_endpoint_of_each_key, migrations.RunPython.noop),
        # The version before still reads and writes the column; ours only leaves it empty.
        migrations.SeparateDatabaseAndState(
            database_operations=[
                migrations.RunSQL(
                    "ALTER TABLE bots_apikey ALTER COLUMN webhook_url SET DEFAULT ''",
                    "ALTER TABLE bots_apikey ALTER COLUMN webhook_url DROP DEFAULT",
                )
            ],
            state_operations=[migrations.RemoveField(model_name="apikey", name="webhook_url")],
        ),
    ]
