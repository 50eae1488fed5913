from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("slots", "0019_settings_of_applications"),
    ]

    operations = [
        migrations.AddField(
            model_name="finding",
            name="approval_reason",
            field=models.TextField(blank=True, db_default=""),
        ),
        migrations.AddField(
            model_name="finding",
            name="approved_at",
            field=models.DateTimeField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name="finding",
            name="approved_by",
            field=models.CharField(blank=True, db_default="", max_length=150),
        ),
        migrations.AddField(
            model_name="finding",
            name="approved_evidence",
            field=models.CharField(
                blank=True, db_default="", help_text="Its fingerprint then.", max_length=32
            ),
        ),
        migrations.AddField(
            model_name="finding",
            name="held_back",
            field=models.TextField(
                blank=True, db_default="", help_text="Why its repair waits for an operator."
            ),
        ),
        migrations.AddField(
            model_name="finding",
            name="platform",
            field=models.CharField(
                blank=True,
                choices=[
                    ("google-meet", "Google Meet"),
                    ("teams", "Microsoft Teams"),
                    ("zoom", "Zoom"),
                ],
                db_default="",
                max_length=20,
            ),
        ),
    ]
