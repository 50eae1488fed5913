"""Migrations run while the previous version uses the same tables (docs/scaling.md)."""

import re

import pytest
from django.contrib.postgres.operations import (
    AddConstraintNotValid,
    AddIndexConcurrently,
    RemoveIndexConcurrently,
    ValidateConstraint,
)
from django.db import connection, migrations, models
from django.db.migrations.loader import MigrationLoader

OUR_APPS = ("botpool", "bots", "slots", "queues", "coolify")
# Migrations that are older than the first release.
BEFORE_THE_FIRST_RELEASE = {
    "botpool": 4,
    "bots": 4,
    "coolify": 2,
    "queues": 2,
    "slots": 6,
}
SAFE = (
    migrations.CreateModel,
    migrations.AlterModelOptions,
    migrations.AlterModelManagers,
    migrations.SeparateDatabaseAndState,
    migrations.RunPython,
    AddIndexConcurrently,
    RemoveIndexConcurrently,
    AddConstraintNotValid,
    ValidateConstraint,
)


def complaint(operation: migrations.operations.base.Operation) -> str:
    """Why the operation would block or break the running version; empty if it is safe."""
    if isinstance(operation, SAFE):
        return ""
    if isinstance(operation, migrations.AddField):
        return _complaint_about_field(operation.field)
    if isinstance(operation, migrations.RunSQL):
        return _complaint_about_sql(str(operation.sql))
    return f"{type(operation).__name__} locks the table or removes what the old version uses"


def _complaint_about_field(field: models.Field) -> str:
    if field.null or field.has_db_default():
        return ""
    return "The old version writes rows without this column: give it null or db_default"


def _complaint_about_sql(sql: str) -> str:
    if re.search(r"CREATE (UNIQUE )?INDEX (?!CONCURRENTLY)", sql, re.IGNORECASE):
        return "An index is created without CONCURRENTLY"
    constraint = re.search(r"ADD CONSTRAINT", sql, re.IGNORECASE)
    if constraint and not re.search(r"NOT VALID", sql, re.IGNORECASE):
        return "A constraint is checked under a lock: add it NOT VALID and validate it later"
    if re.search(r"DROP (TABLE|COLUMN)|RENAME|ALTER COLUMN \w+ TYPE", sql, re.IGNORECASE):
        return "The old version still uses it"
    return ""


def later_migrations() -> list[migrations.Migration]:
    loader = MigrationLoader(None)
    return [
        migration
        for (app, name), migration in sorted(loader.disk_migrations.items())
        if app in OUR_APPS and int(name[:4]) > BEFORE_THE_FIRST_RELEASE[app]
    ]


def test_no_migration_blocks_or_breaks_the_running_version():
    complaints = {
        f"{migration.app_label}.{migration.name}": found
        for migration in later_migrations()
        for operation in migration.operations
        if (found := complaint(operation))
    }
    assert complaints == {}


@pytest.mark.parametrize(
    ("operation", "is_safe"),
    [
        (migrations.AddField("bot", "x", models.IntegerField(null=True)), True),
        (migrations.AddField("bot", "x", models.IntegerField(db_default=0)), True),
        (migrations.AddField("bot", "x", models.IntegerField(default=0)), False),
        (migrations.RemoveField("bot", "x"), False),
        (migrations.RenameField("bot", "x", "y"), False),
        (migrations.AlterField("bot", "x", models.TextField()), False),
        (migrations.AddIndex("bot", models.Index(fields=["x"], name="x")), False),
        (migrations.RunSQL("CREATE INDEX x ON y (z)"), False),
        (migrations.RunSQL("CREATE INDEX CONCURRENTLY x ON y (z)"), True),
        (migrations.RunSQL("ALTER TABLE x ADD CONSTRAINT y CHECK (z) NOT VALID"), True),
        (migrations.RunSQL("ALTER TABLE x ADD CONSTRAINT y CHECK (z)"), False),
    ],
)
def test_the_rule_recognises_safe_operations(operation, is_safe):
    assert (complaint(operation) == "") is is_safe


def interruptible() -> list[tuple[str, str]]:
    """Migrations of which a part stays when they are interrupted."""
    found = MigrationLoader(None).disk_migrations.items()
    return [key for key, migration in sorted(found) if not migration.atomic]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("key", interruptible(), ids=".".join)
def test_a_migration_that_is_not_atomic_can_be_repeated(key):
    loader = MigrationLoader(None)
    before = loader.project_state(key, at_end=False)
    with connection.schema_editor(atomic=False) as editor:
        loader.disk_migrations[key].apply(before, editor)
