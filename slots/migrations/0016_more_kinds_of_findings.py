from django.db import migrations, models

# A change of choices alters no column.


class Migration(migrations.Migration):
    dependencies = [("slots", "0015_evidence_of_stops")]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.AlterField(
                    model_name="finding",
                    name="kind",
                    field=models.CharField(
                        choices=[
                            ("ended_bot_holds_slot", "A bot that has ended holds its slot"),
                            ("bot_without_slot", "A bot that should hold a slot has none"),
                            ("bot_waits_nowhere", "A bot waits and stands in no line"),
                            ("entry_without_waiter", "A place in line of a bot that does not wait"),
                            ("stuck_deploying", "A slot deploys for too long"),
                            ("heartbeat_lost", "A bot has fallen silent"),
                            ("container_gone", "A held slot without a container"),
                            ("container_left", "A container in an idle slot"),
                            ("stuck_stopping", "A slot stops for too long"),
                            ("slot_in_error", "A slot in error"),
                            ("application_gone", "The application of a slot is gone"),
                            ("application_unknown", "An application of no slot"),
                            ("description_differs", "A description that is not ours"),
                            ("wrong_team", "Coolify does not show our project"),
                            ("short_list", "Coolify's list lacks too many applications"),
                            ("unheard", "No proof that bots can reach Botpool"),
                            ("too_many", "Repairs are held back"),
                        ],
                        max_length=30,
                    ),
                )
            ]
        )
    ]
