"""The log of a deployment: Coolify keeps it as JSON in a string, one object for each entry."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from coolify.client.parsing import Item


def log_of(item: Item) -> str | None:
    """The lines of a deployment's log, each with its time; None if the token may not see them.

    Hidden entries are left out: those are Coolify's own commands, and one of them contains the
    whole environment.
    """
    if "logs" not in item:
        return None
    logs = item["logs"]
    if not isinstance(logs, str):
        return "\n".join(_lines(logs))
    try:
        return "\n".join(_lines(json.loads(logs)))
    except (ValueError, RecursionError):
        return logs


def _lines(entries: Any) -> Iterator[str]:
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict) and not entry.get("hidden"):
            at, output = entry.get("timestamp"), entry.get("output")
            for line in str(output or "").splitlines():
                yield f"{at} {line}" if isinstance(at, str) else line
