"""Helpers for hand-written SQL, which does in one round trip what the ORM does in several."""

from collections.abc import Mapping
from typing import Any, TypeVar

from django.db import connection, models

M = TypeVar("M", bound=models.Model)


def fetch_one(sql: str, params: Mapping[str, Any]) -> tuple[Any, ...] | None:
    with connection.cursor() as cursor:
        cursor.execute(sql, params)
        return cursor.fetchone()


def fetch_all(sql: str, params: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql, params)
        return cursor.fetchall()


def columns(model: type[models.Model]) -> str:
    """Return the model's columns in the order that `instance` expects."""
    return ", ".join(str(field.column) for field in model._meta.concrete_fields)


def instance(model: type[M], row: tuple[Any, ...]) -> M:
    fields = model._meta.concrete_fields
    values = [_converted(field, value) for field, value in zip(fields, row, strict=True)]
    return model.from_db("default", [field.attname for field in fields], values)


def _converted(field: "models.Field[Any, Any]", value: Any) -> Any:
    """Convert the value as the ORM would: JSON arrives as text."""
    convert = getattr(field, "from_db_value", None)
    return convert(value, None, connection) if convert else value
