"""Operations for migrations with `atomic = False`, safe to repeat after an interruption.

Nothing undoes a part of such a migration when its process is killed, and an index whose
CONCURRENTLY was interrupted stays behind, invalid.
"""

from django.contrib.postgres import operations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor as Editor
from django.db.migrations import AddField, AlterField, RunSQL, SeparateDatabaseAndState
from django.db.migrations.state import ProjectState as State
from django.db.models import Field


class AddIndexConcurrently(operations.AddIndexConcurrently):
    """Replace an index of this name that an interrupted migration has left."""

    def database_forwards(
        self, app_label: str, schema_editor: Editor, from_state: State, to_state: State
    ) -> None:
        schema_editor.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {self.index.name}")
        super().database_forwards(app_label, schema_editor, from_state, to_state)


class AddFieldOnce(AddField):
    """Leave a column that an interrupted migration has added."""

    def database_forwards(
        self, app_label: str, schema_editor: Editor, from_state: State, to_state: State
    ) -> None:
        model = to_state.apps.get_model(app_label, self.model_name)
        with schema_editor.connection.cursor() as cursor:
            table = schema_editor.connection.introspection.get_table_description(
                cursor, model._meta.db_table
            )
        if model._meta.get_field(self.name).column not in [column.name for column in table]:
            super().database_forwards(app_label, schema_editor, from_state, to_state)


def drop_index(name: str) -> RunSQL:
    return RunSQL(f"DROP INDEX CONCURRENTLY IF EXISTS {name}", RunSQL.noop)


def drop_field_index(
    model: str, name: str, field: Field, *indexes: str
) -> SeparateDatabaseAndState:
    """Drop what `db_index` made for a field, which is to have it no longer."""
    return SeparateDatabaseAndState(
        database_operations=[drop_index(index) for index in indexes],
        state_operations=[AlterField(model, name, field)],
    )
