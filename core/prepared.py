"""ORM statements that are compiled once and then run with new values.

Django takes several times as long to build a statement as PostgreSQL takes to carry it out. On the
path of every bot (claim, assign, move, release) that costs more than half of what a node can do:
see `make bench ARGS=acquire`. What stands here says the same in the ORM's words and keeps the SQL.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from types import SimpleNamespace
from typing import Any, Generic, TypeVar

from django.db import connection, models
from django.db.models.expressions import DatabaseDefault, Expression
from django.db.models.sql import InsertQuery, UpdateQuery
from django.db.transaction import TransactionManagementError

from core.sql import counted

M = TypeVar("M", bound=models.Model)


class Parameter(Expression):
    """The place of a value. The compiler hands it back among the parameters of the SQL."""

    def __init__(self, name: str, field: "models.Field[Any, Any] | None" = None) -> None:
        super().__init__(output_field=field)
        self.name = name

    def as_sql(self, compiler: Any, connection: Any) -> Any:
        return "%s", [self]


# --- INSERT and UPDATE ------------------------------------------------------------------------
#
# The key of a compiled statement is its shape: names, expressions, and which values are NULL. Make
# an expression a constant of the module, with a Parameter for a value that changes.

_compiled: dict[tuple[Any, ...], tuple[str, tuple[Any, ...]]] = {}


def update_rows(model: type[models.Model], where: Mapping[str, Any], **values: Any) -> int:
    """As `model.objects.filter(**where).update(**values)`. `where` takes names of fields; None
    means IS NULL."""
    shape = (model, *_shape(where), "set", *_shape(values))
    if shape not in _compiled:
        _compile_update(shape, model, where, values)
    return _run(shape, {**_prepared(model, where, "where "), **_prepared(model, values)})


def update_returning(
    model: type[models.Model], where: Mapping[str, Any], *, columns: Sequence[str], **values: Any
) -> tuple[Any, ...] | None:
    """As `update_rows` for one row at most; returns these columns of it, as they are now."""
    shape = (model, *_shape(where), "set", *_shape(values))
    if shape not in _compiled:
        _compile_update(shape, model, where, values)
    sql, params = _compiled[shape]
    names = ", ".join(connection.ops.quote_name(name) for name in columns)
    given = {**_prepared(model, where, "where "), **_prepared(model, values)}
    with connection.cursor() as cursor:
        cursor.execute(f"{sql} RETURNING {names}", _filled(params, given))
        row: tuple[Any, ...] | None = cursor.fetchone()
    return row


def _compile_update(
    shape: tuple[Any, ...],
    model: type[models.Model],
    where: Mapping[str, Any],
    values: Mapping[str, Any],
) -> None:
    rows = model._default_manager.filter(**_places(model, where, "where "))
    query: UpdateQuery = rows.query.chain(UpdateQuery)  # type: ignore[assignment]
    query.add_update_values(_places(model, values))
    _compiled[shape] = query.get_compiler(connection=connection).as_sql()


def insert_row(
    model: type[models.Model], *, parameters: Mapping[str, Any] | None = None, **values: Any
) -> None:
    """As `model.objects.create(**values)`, by the names of columns (`slot_id`); the database's
    defaults fill in the others. `parameters`: of expressions among the values."""
    shape = (model, "insert", *_shape(values))
    if shape not in _compiled:
        _compile_insert(shape, model, values)
    _run(shape, {**_prepared(model, values), **(parameters or {})})


def insert_instance(instance: models.Model) -> None:
    """As `instance.save(force_insert=True)`, without signals."""
    model, fields = type(instance), instance._meta.concrete_fields
    given = {field.attname: field.pre_save(instance, add=True) for field in fields}
    left = [name for name, value in given.items() if _is_left_to_database(model, name, value)]
    for name in left:
        del given[name]
    shape = (model, "insert", *_shape(given), *left)
    if shape not in _compiled:
        _compile_insert(shape, model, given, returning=left)
    sql, params = _compiled[shape]
    with connection.cursor() as cursor:
        cursor.execute(sql, _filled(params, _prepared(model, given)))
        for name, value in zip(left, cursor.fetchone(), strict=True):
            setattr(instance, name, value)
    instance._state.adding, instance._state.db = False, connection.alias


def _is_left_to_database(model: type[models.Model], name: str, value: Any) -> bool:
    return isinstance(value, DatabaseDefault) or (value is None and _field(model, name).primary_key)


def _compile_insert(
    shape: tuple[Any, ...],
    model: type[models.Model],
    values: Mapping[str, Any],
    *,
    returning: Sequence[str] = (),
) -> None:
    query = InsertQuery(model)
    row: Any = SimpleNamespace(**_places(model, values))  # an instance, for the compiler
    query.insert_values([_field(model, name) for name in values], [row], raw=True)
    compiler = query.get_compiler(connection=connection)
    compiler.returning_fields = [_field(model, name) for name in returning] or None
    _compiled[shape] = compiler.as_sql()[0]


def _field(model: type[models.Model], name: str) -> "models.Field[Any, Any]":
    field = model._meta.get_field(name)
    assert isinstance(field, models.Field)
    return field


def _shape(values: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(
        (name, value if _is_in_text(value) else Parameter) for name, value in values.items()
    )


def _is_in_text(value: Any) -> bool:
    """Whether the SQL itself depends on it."""
    return value is None or hasattr(value, "resolve_expression")


def _places(
    model: type[models.Model], values: Mapping[str, Any], prefix: str = ""
) -> dict[str, Any]:
    return {
        name: value if _is_in_text(value) else Parameter(prefix + name, _field(model, name))
        for name, value in values.items()
    }


def _prepared(
    model: type[models.Model], values: Mapping[str, Any], prefix: str = ""
) -> dict[str, Any]:
    return {
        prefix + name: _field(model, name).get_db_prep_save(value, connection)
        for name, value in values.items()
        if not _is_in_text(value)
    }


def _run(shape: tuple[Any, ...], values: Mapping[str, Any]) -> int:
    sql, params = _compiled[shape]
    with connection.cursor() as cursor:
        cursor.execute(sql, _filled(params, values))
        count: int = cursor.rowcount
    return count


def _filled(params: tuple[Any, ...], values: Mapping[str, Any]) -> list[Any]:
    return [values[p.name] if isinstance(p, Parameter) else p for p in params]


# --- SELECT -----------------------------------------------------------------------------------

Compiled = tuple[str, tuple[Any, ...]]


class Prepared(Generic[M]):
    """A queryset that is compiled at its first use. Decorates the function that builds it, which
    may only filter by its parameters."""

    def __init__(self, build: Callable[..., "models.QuerySet[M]"]) -> None:
        self._build = build
        self._names = list(inspect.signature(build).parameters)

    def first(self, *values: Any) -> M | None:
        """The first row, for these values of the parameters."""
        if self._queryset.query.select_for_update and not connection.in_atomic_block:
            raise TransactionManagementError("A row can be locked only in a transaction")
        found = self._fetch(self._first, values)
        return self._instance(list(found[0])) if found else None

    def exists(self, *values: Any) -> bool:
        return self.first(*values) is not None

    def count(self, *values: Any) -> int:
        [(count,)] = self._fetch(self._count, values)
        return int(count)

    def rows(self, *values: Any) -> list[tuple[Any, ...]]:
        """As they are in the database, of a queryset that names its columns (`values_list`)."""
        return self._fetch(self._all, values)

    def _fetch(self, compiled: Compiled, values: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        sql, params = compiled
        with connection.cursor() as cursor:
            cursor.execute(sql, _filled(params, dict(zip(self._names, values, strict=True))))
            found: list[tuple[Any, ...]] = cursor.fetchall()
        return found

    @cached_property
    def _queryset(self) -> "models.QuerySet[M]":
        return self._build(*(Parameter(name) for name in self._names))

    @cached_property
    def _first(self) -> Compiled:
        return _sql_of(self._queryset[:1])

    @cached_property
    def _all(self) -> Compiled:
        return _sql_of(self._queryset)

    @cached_property
    def _count(self) -> Compiled:
        sql, params = _sql_of(self._queryset.order_by().values("pk"))
        return counted(sql), params

    def _instance(self, values: list[Any]) -> M:
        for position, convert in self._converters:  # JSON arrives as text
            values[position] = convert(values[position], None, connection)
        instance: M = self._queryset.model.from_db("default", self._columns, values)
        return instance

    @cached_property
    def _columns(self) -> list[str]:
        return [field.attname for field in self._queryset.model._meta.concrete_fields]

    @cached_property
    def _converters(self) -> list[tuple[int, Callable[..., Any]]]:
        fields = enumerate(self._queryset.model._meta.concrete_fields)
        return [(n, field.from_db_value) for n, field in fields if hasattr(field, "from_db_value")]


def _sql_of(queryset: "models.QuerySet[Any]") -> Compiled:
    sql, params = queryset.query.get_compiler(connection=connection).as_sql()
    return sql, params
