from django.contrib.postgres.operations import ValidateConstraint
from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("bots", "0010_meeting_too_long")]

    operations = [
        ValidateConstraint("bot", "bot_failure_cause_is_known_and_of_a_failure"),
    ]
