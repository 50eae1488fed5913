"""How long each statement of a request may take. Connected to Django's signals in botpool.apps.

The signals include what a streamed answer reads after its view has returned.
"""

from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs

from django.conf import settings

from core.statement_limit import limit_statements

LONGER = 6  # times: exports and the admin may read whole tables
LONGEST_OF_PROBE = timedelta(seconds=2)  # its caller does not wait longer


def begin(environ: dict[str, Any] | None = None, **kwargs: Any) -> None:
    given = environ or {}
    limit_statements(limit_for(given.get("PATH_INFO", ""), given.get("QUERY_STRING", "")))


def end(**kwargs: Any) -> None:
    limit_statements(None)


def limit_for(path: str, query: str) -> timedelta:
    limit: timedelta = settings.STATEMENT_LIMIT
    if path == "/readyz":
        return min(limit, LONGEST_OF_PROBE)
    reads_much = path.startswith(("/admin/", "/activity/export/"))
    return limit * LONGER if reads_much or "csv" in parse_qs(query).get("format", ()) else limit
