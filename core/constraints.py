"""Constraints that several models share."""

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from operator import or_
from typing import TypeVar

from django.db import IntegrityError, migrations
from django.db.models import Q

T = TypeVar("T", bound=str)


def allowed_moves(moves: Mapping[T, Sequence[T]], *, start: Iterable[str]) -> Q:
    """Return the condition that a row's last move, `previous_status` to `status`, is allowed.

    Each move is one UPDATE that sets `previous_status = status`, so PostgreSQL refuses a move that
    is not in the table, whatever code makes it.
    """
    pairs = [Q(previous_status="", status__in=sorted(start))]
    pairs += [
        Q(previous_status=before, status__in=sorted(after))
        for before, after in moves.items()
        if after
    ]
    return reduce(or_, pairs)


def append_only(table: str) -> migrations.RunSQL:
    """Return the SQL that makes the database refuse updates of history. Retention may delete."""
    return migrations.RunSQL(
        sql=f"""
            CREATE FUNCTION {table}_is_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN
                RAISE EXCEPTION '{table} is append-only: history is never changed'
                    USING ERRCODE = 'restrict_violation';
            END $$;
            CREATE TRIGGER {table}_is_append_only BEFORE UPDATE ON {table}
                FOR EACH ROW EXECUTE FUNCTION {table}_is_append_only();
        """,
        reverse_sql=f"""
            DROP TRIGGER {table}_is_append_only ON {table};
            DROP FUNCTION {table}_is_append_only();
        """,
    )


def violated_constraint(error: IntegrityError) -> str:
    """The name of the constraint that PostgreSQL saw broken; "" if it named none."""
    diagnosis = getattr(error.__cause__, "diag", None)
    return getattr(diagnosis, "constraint_name", None) or ""
