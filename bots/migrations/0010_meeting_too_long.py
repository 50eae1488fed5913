from django.contrib.postgres.operations import AddConstraintNotValid
from django.db import migrations, models
from django.db.models import Q

CAUSES = [
    ("reported_by_bot", "Reported by the bot"),
    ("queue_timeout", "Waited too long"),
    ("start_refused", "Start refused"),
    ("start_timed_out", "Start timed out"),
    ("deployment_failed", "Deployment failed"),
    ("container_failed", "Container failed"),
    ("container_gone", "Container gone"),
    ("application_gone", "Application gone"),
    ("heartbeat_lost", "Heartbeat lost"),
    ("meeting_too_long", "Meeting too long"),
    ("stop_failed", "Stop failed"),
    ("operator", "Ended by an operator"),
    ("inconsistent", "Records contradicted each other"),
    ("unknown", "Not recorded"),
]
RULE = models.CheckConstraint(
    condition=Q(failure_cause="")
    | Q(failure_cause__in=[cause for cause, _ in CAUSES], status="FAILED"),
    name="bot_failure_cause_is_known_and_of_a_failure",
)
# It allows one value more: rows that obey the old rule obey this one, too.
REPLACE = [
    migrations.RemoveConstraint(model_name="bot", name=RULE.name),
    AddConstraintNotValid(model_name="bot", constraint=RULE),
]


class Migration(migrations.Migration):
    dependencies = [("bots", "0009_several_webhooks_per_bot")]

    operations = [
        migrations.SeparateDatabaseAndState(
            database_operations=REPLACE,
            state_operations=[
                migrations.AlterField(
                    model_name="bot",
                    name="failure_cause",
                    field=models.CharField(
                        blank=True, choices=CAUSES, db_default="", default="", max_length=30
                    ),
                ),
                *REPLACE,
            ],
        ),
    ]
