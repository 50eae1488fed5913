from django.db import migrations, models

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
    ("server_lost", "Server out of service"),
    ("stop_failed", "Stop failed"),
    ("operator", "Ended by an operator"),
    ("inconsistent", "Records contradicted each other"),
    ("unknown", "Not recorded"),
]


class Migration(migrations.Migration):
    dependencies = [("slots", "0016_more_kinds_of_findings")]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.AlterField(
                    model_name="deployment",
                    name="failure_cause",
                    field=models.CharField(
                        blank=True, choices=CAUSES, db_default="", max_length=30
                    ),
                ),
            ],
        ),
    ]
