from django.db import migrations

from core.migration_operations import drop_index

# Counting and pruning read history by age. BRIN indexes are tiny and cost almost nothing per
# inserted row.
INDEXES = {
    "event_by_age": "bots_botevent (at)",
    "transition_by_age": "slots_slottransition (at)",
    "deployment_by_end": "slots_deployment (ended_at)",
    "bot_by_end": "bots_bot (ended_at)",
}


def _index(name, columns):
    table, column = columns.split()
    return migrations.RunSQL(
        sql=f"CREATE INDEX CONCURRENTLY {name} ON {table} USING brin {column}"
        " WITH (pages_per_range = 32, autosummarize = on)",
        reverse_sql=f"DROP INDEX CONCURRENTLY IF EXISTS {name}",
    )


class Migration(migrations.Migration):
    atomic = False  # CREATE INDEX CONCURRENTLY cannot run in a transaction
    dependencies = [
        ("botpool", "0003_tallies"),
        ("bots", "0004_request_names_webhooks_and_lists"),
        ("slots", "0006_findings_and_uptime"),
    ]

    operations = [
        operation
        for name, columns in INDEXES.items()
        for operation in (drop_index(name), _index(name, columns))
    ]
