"""Columns of the admin's lists that are easier to read than Django's."""

from collections.abc import Callable
from typing import Any

from django.contrib import admin
from django.core.exceptions import FieldDoesNotExist
from django.db.models import BooleanField, Field, Model
from django.utils.safestring import SafeString

from core.administration.badges import badge

# A tick and a cross would call one of the two answers wrong.
YES, NO = "yes", "–"
_STATUSES = ("status", "state")


def readable_column(model: type[Model], name: Any) -> Any:
    """The name itself, unless it is a field with a status or with yes and no."""
    try:
        field = model._meta.get_field(name)
    except (FieldDoesNotExist, TypeError):
        return name
    if isinstance(field, BooleanField):
        return _column(field, lambda value: YES if value else NO)
    if str(name).endswith(_STATUSES):
        return _column(field, lambda value: badge(value) if value else NO)
    return name


def _column(field: Any, shown: Callable[[Any], str | SafeString]) -> Any:
    assert isinstance(field, Field)

    @admin.display(description=str(field.verbose_name), ordering=field.name)
    def column(row: Model) -> str | SafeString:
        return shown(getattr(row, field.name))

    column.__name__ = field.name
    return column
