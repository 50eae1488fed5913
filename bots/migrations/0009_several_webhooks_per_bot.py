import django.db.models.deletion
from django.db import migrations, models
from django.db.models import F, Q

from core.migration_operations import AddIndexConcurrently, drop_index

BOT_AND_ENDPOINT = models.UniqueConstraint(
    F("bot"), F("endpoint"), name="webhook_is_unique_to_bot_and_endpoint"
)
WEBHOOK_AND_EVENT = models.UniqueConstraint(
    F("webhook"), F("event"), name="delivery_is_unique_to_webhook_and_event"
)


class Migration(migrations.Migration):
    atomic = False  # for indexes without a lock on the table

    dependencies = [("bots", "0008_webhook_endpoints")]

    operations = [
        AddIndexConcurrently(
            "webhook", models.Index(fields=["endpoint"], name="webhook_by_endpoint")
        ),
        AddIndexConcurrently(
            "webhookdelivery",
            models.Index(
                condition=Q(due_at__isnull=False),
                fields=["endpoint", "due_at"],
                name="delivery_due_by_endpoint",
            ),
        ),
        AddIndexConcurrently(
            "webhookdelivery",
            models.Index(fields=["endpoint", "-id"], name="delivery_by_endpoint"),
        ),
        # The new rule first, then the old one goes: no moment is without either.
        migrations.SeparateDatabaseAndState(
            database_operations=[
                drop_index("webhook_is_unique_to_bot_and_endpoint"),
                migrations.RunSQL(
                    "CREATE UNIQUE INDEX CONCURRENTLY webhook_is_unique_to_bot_and_endpoint"
                    " ON bots_webhook (bot_id, endpoint_id)",
                    "DROP INDEX webhook_is_unique_to_bot_and_endpoint",
                ),
                migrations.RunSQL(
                    "ALTER TABLE bots_webhook DROP CONSTRAINT IF EXISTS bots_webhook_bot_id_key",
                    "ALTER TABLE bots_webhook ADD CONSTRAINT bots_webhook_bot_id_key"
                    " UNIQUE (bot_id)",
                ),
                drop_index("delivery_is_unique_to_webhook_and_event"),
                migrations.RunSQL(
                    "CREATE UNIQUE INDEX CONCURRENTLY delivery_is_unique_to_webhook_and_event"
                    " ON bots_webhookdelivery (webhook_id, event_id)",
                    "DROP INDEX delivery_is_unique_to_webhook_and_event",
                ),
                migrations.RunSQL(
                    "ALTER TABLE bots_webhookdelivery"
                    " DROP CONSTRAINT IF EXISTS bots_webhookdelivery_event_id_key",
                    "ALTER TABLE bots_webhookdelivery"
                    " ADD CONSTRAINT bots_webhookdelivery_event_id_key UNIQUE (event_id)",
                ),
            ],
            state_operations=[
                migrations.AlterField(
                    model_name="webhook",
                    name="bot",
                    field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name="webhooks", to="bots.bot"),
                ),
                migrations.AddConstraint(model_name="webhook", constraint=BOT_AND_ENDPOINT),
                migrations.AlterField(
                    model_name="webhookdelivery",
                    name="event",
                    field=models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name="deliveries", to="bots.botevent"),
                ),
                migrations.AddConstraint(
                    model_name="webhookdelivery", constraint=WEBHOOK_AND_EVENT
                ),
            ],
        ),
    ]
