"""Pagination cursors. Opaque to clients."""

from typing import Annotated

from pydantic import Field

Cursor = Annotated[
    str, Field(pattern=r"^[0-9a-f]{1,15}$", description="`nextCursor` of the previous page.")
]


def cursor_after(row_id: int) -> str:
    return f"{row_id:x}"


def read_cursor(cursor: str) -> int:
    return int(cursor, 16)
