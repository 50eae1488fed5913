"""Pagination cursors. Opaque to clients."""

from typing import Annotated

from pydantic import Field

from api.schemas.words import explained

Cursor = Annotated[
    str,
    Field(
        pattern=explained(r"^[0-9a-f]{1,15}$", "Must be the `nextCursor` of a previous page."),
        description="`nextCursor` of the previous page.",
    ),
]


def cursor_after(row_id: int) -> str:
    return f"{row_id:x}"


def read_cursor(cursor: str) -> int:
    return int(cursor, 16)
