import django.db.models.deletion
import django.db.models.functions.datetime
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("bots", "0014_words_of_bots"),
        ("slots", "0029_when_resources_were_asked_for"),
    ]

    operations = [
        migrations.CreateModel(
            name="LogReading",
            fields=[
                (
                    "slot",
                    models.OneToOneField(
                        db_constraint=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        primary_key=True,
                        related_name="log_reading",
                        serialize=False,
                        to="slots.slot",
                    ),
                ),
                ("epoch", models.BigIntegerField(db_default=0)),
                ("asked_at", models.DateTimeField(null=True)),
                ("read_at", models.DateTimeField(null=True)),
                ("text", models.TextField(blank=True, db_default="")),
                ("is_cut", models.BooleanField(db_default=False)),
                ("problem", models.TextField(blank=True, db_default="")),
            ],
        ),
        migrations.CreateModel(
            name="KeptLog",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("slot_name", models.CharField(max_length=100)),
                ("epoch", models.BigIntegerField()),
                (
                    "source",
                    models.CharField(
                        choices=[
                            ("container", "Container"),
                            ("deployment", "Coolify's deployment"),
                        ],
                        max_length=20,
                    ),
                ),
                (
                    "coolify_uuid",
                    models.CharField(help_text="Of the application or deployment.", max_length=64),
                ),
                ("server_uuid", models.CharField(blank=True, db_default="", max_length=64)),
                ("failure_cause", models.CharField(help_text="A FailureCause.", max_length=30)),
                (
                    "status",
                    models.CharField(
                        choices=[
                            ("wanted", "To be read"),
                            ("kept", "Kept"),
                            ("not_kept", "Not kept"),
                        ],
                        db_default="wanted",
                        max_length=20,
                    ),
                ),
                (
                    "because",
                    models.CharField(
                        blank=True, db_default="", help_text="A NotKept.", max_length=20
                    ),
                ),
                (
                    "detail",
                    models.TextField(blank=True, db_default="", help_text="What Coolify answered."),
                ),
                ("text", models.TextField(blank=True, db_default="")),
                ("lines", models.PositiveIntegerField(db_default=0)),
                (
                    "is_cut",
                    models.BooleanField(db_default=False, help_text="Only the end was kept."),
                ),
                (
                    "created_at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now()),
                ),
                ("deadline", models.DateTimeField()),
                ("tries", models.PositiveSmallIntegerField(db_default=0)),
                ("reading_since", models.DateTimeField(null=True)),
                (
                    "ended_at",
                    models.DateTimeField(help_text="It was read, or given up.", null=True),
                ),
                (
                    "bot",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="logs",
                        to="bots.bot",
                    ),
                ),
                (
                    "slot",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="logs",
                        to="slots.slot",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(fields=["bot", "id"], name="log_by_bot"),
                    models.Index(fields=["slot", "-id"], name="log_by_slot"),
                    models.Index(fields=["created_at"], name="log_by_age"),
                    models.Index(
                        condition=models.Q(("status", "wanted")), fields=["slot"], name="log_wanted"
                    ),
                    models.Index(
                        condition=models.Q(("because", "too_slow")),
                        fields=["server_uuid", "ended_at"],
                        name="log_too_slow",
                    ),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("slot", "epoch", "source"), name="one_log_of_each_source_per_epoch"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("status", "not_kept"), ("because", ""), _connector="XOR"
                        ),
                        name="log_that_was_not_kept_says_why",
                    ),
                ],
            },
        ),
    ]
