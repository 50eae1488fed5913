"""Cursors: where a list goes on. What is in them is nobody's business but ours."""

from typing import Annotated

from pydantic import Field

Cursor = Annotated[
    str, Field(pattern=r"^[0-9a-f]{1,15}$", description="`nextCursor` of the page before.")
]


def cursor_after(row_id: int) -> str:
    return f"{row_id:x}"


def read_cursor(cursor: str) -> int:
    return int(cursor, 16)
