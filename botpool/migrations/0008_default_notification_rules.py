from datetime import timedelta

from django.db import migrations

# They go to every channel: nothing is sent before there is one.
RULES = (
    {"name": "Urgent", "severity": "urgent", "lasting": timedelta(minutes=1), "repeat": timedelta(hours=4)},
    {"name": "Warnings that last", "severity": "warning", "lasting": timedelta(minutes=10), "repeat": timedelta(days=1)},
    {"name": "Forgotten pauses", "codes": ["platform_paused"], "lasting": timedelta(hours=4), "repeat": timedelta(days=1), "tell_resolved": False},
)


def make_default_rules(apps, schema_editor):
    rules = apps.get_model("botpool", "NotificationRule")
    for rule in RULES:
        rules.objects.create(**rule)


class Migration(migrations.Migration):

    dependencies = [
        ("botpool", "0007_notifications"),
    ]

    operations = [
        migrations.RunPython(make_default_rules, migrations.RunPython.noop),
    ]
