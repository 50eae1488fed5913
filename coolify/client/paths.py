"""Paths within Coolify's API."""

from __future__ import annotations

from urllib.parse import quote


def application_path(uuid: str) -> str:
    return f"/applications/{segment(uuid)}"


def segment(uuid: str) -> str:
    # An empty uuid would turn "delete this application" into a call on the whole collection.
    if not uuid or uuid in {".", ".."}:
        raise ValueError(f"{uuid!r} is not a uuid")
    return quote(uuid, safe="")
