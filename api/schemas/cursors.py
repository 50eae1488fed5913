"""Pagination cursors. Opaque to clients."""

from typing import Annotated, TypeVar

from django.db.models import Model, QuerySet
from pydantic import Field

from api.schemas.words import explained

Row = TypeVar("Row", bound=Model)
Cursor = Annotated[
    str,
    Field(
        pattern=explained(r"^[0-9a-f]{1,15}$", "Must be the `nextCursor` of a previous page."),
        description="`nextCursor` of the previous page.",
    ),
]


def page_of(rows: QuerySet[Row], *, limit: int) -> tuple[list[Row], str | None]:
    """The first rows, and the cursor of the next page; None on the last one."""
    found = list(rows[: limit + 1])
    shown = found[:limit]
    return shown, f"{shown[-1].pk:x}" if len(found) > limit else None


def read_cursor(cursor: str) -> int:
    return int(cursor, 16)
