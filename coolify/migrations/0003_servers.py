from django.contrib.postgres.operations import AddConstraintNotValid
from django.db import migrations, models
from django.db.models import F, Q
from django.db.models.functions import Now


STATES = [
    ("healthy", "Healthy"),
    ("degraded", "Degraded"),
    ("unreachable", "Unreachable"),
    ("cordoned", "Cordoned"),
    ("draining", "Draining"),
    ("removed", "Removed"),
]
ORDERS = [
    ("cordoned", "No new bots"),
    ("draining", "No new bots, and its slots move elsewhere"),
]


def text(**options):
    return models.TextField(blank=True, db_default="", default="", **options)


def moment(**options):
    return models.DateTimeField(null=True, blank=True, **options)


def add(name, field):
    return migrations.AddField(model_name="server", name=name, field=field)


class Migration(migrations.Migration):
    dependencies = [("coolify", "0002_budget_functions")]

    operations = [
        # The table keeps its name: the old version uses it.
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.AlterModelTable("ServerReading", "coolify_serverreading"),
                migrations.RenameModel("ServerReading", "Server"),
                migrations.AlterField(
                    "server",
                    "read_at",
                    models.DateTimeField(
                        null=True, help_text="When Coolify last reported about it."
                    ),
                ),
            ],
        ),
        migrations.RunSQL(
            "ALTER TABLE coolify_serverreading ALTER COLUMN read_at DROP NOT NULL",
            reverse_sql=migrations.RunSQL.noop,
        ),
        add("unreachable_since", moment()),
        add(
            "state",
            models.CharField(
                max_length=20, choices=STATES, db_default="healthy", default="healthy"
            ),
        ),
        add("state_since", models.DateTimeField(db_default=Now())),
        add("state_reason", text()),
        add("state_evidence", models.JSONField(blank=True, db_default={}, default=dict)),
        add(
            "order",
            models.CharField(
                max_length=20,
                choices=ORDERS,
                blank=True,
                db_default="",
                default="",
                help_text="Operators'.",
            ),
        ),
        add("order_since", moment()),
        add("order_until", moment()),
        add("order_reason", text()),
        add(
            "order_by", models.CharField(max_length=150, blank=True, db_default="", default="")
        ),
        add("window_from", moment()),
        add("window_until", moment()),
        add("window_reason", text()),
        add(
            "window_by", models.CharField(max_length=150, blank=True, db_default="", default="")
        ),
        AddConstraintNotValid(
            "server",
            models.CheckConstraint(
                name="server_window_begins_before_it_ends",
                condition=Q(window_from__isnull=True, window_until__isnull=True)
                | Q(window_from__lt=F("window_until")),
            ),
        ),
    ]
