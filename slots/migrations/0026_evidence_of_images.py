from django.db import migrations, models

EVIDENCE = [("start", "A start finished"), ("pull", "A start pulled it")]


class Migration(migrations.Migration):
    dependencies = [("slots", "0025_when_starts_were_asked_for")]

    operations = [
        migrations.AddField(
            "warmimage",
            "evidence",
            models.CharField(blank=True, choices=EVIDENCE, db_default="", max_length=20),
        ),
        migrations.AddField(
            "warmimage", "confirmed_at", models.DateTimeField(blank=True, null=True)
        ),
        migrations.AddField(
            "warmimage",
            "trusted_until",
            models.DateTimeField(
                blank=True, help_text="When Coolify's clean-up may remove it.", null=True
            ),
        ),
        migrations.AddField("warmimage", "cold_since", models.DateTimeField(blank=True, null=True)),
        migrations.AddField(
            "warmimage", "cold_reason", models.TextField(blank=True, db_default="")
        ),
    ]
