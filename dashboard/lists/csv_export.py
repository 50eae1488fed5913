"""Lists as CSV files: streamed, and safe to open in a spreadsheet."""

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.http import QueryDict, StreamingHttpResponse

MOST_EXPORTED = 100_000


def wants_csv(given: QueryDict) -> bool:
    return given.get("format") == "csv"


def csv_file(
    name: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]
) -> StreamingHttpResponse:
    response = StreamingHttpResponse(_lines(columns, rows), content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="botpool-{name}.csv"'
    return response


class _Echo:
    """A file whose write() returns the line."""

    def write(self, line: str) -> str:
        return line


def _lines(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> Iterator[str]:
    writer = csv.writer(_Echo())
    yield writer.writerow(columns)
    for row in rows:
        yield writer.writerow([_cell(value) for value in row])


# A formula may follow spaces. In some countries cells also end at a semicolon, and full-width signs
# count, too.
_FORMULA = re.compile(r"(^|[;\t\r\n])(?=\s*[=+@＝＋－＠-]|[\t\r\n])")


def _cell(value: Any) -> str:
    """Escape a value that a spreadsheet would run as a formula."""
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%dT%H:%M:%SZ}"
    if isinstance(value, timedelta):
        return f"{value.total_seconds():.3f}"
    if value is None or isinstance(value, bool | int | float):
        return "" if value is None else str(value)
    return _FORMULA.sub(r"\1'", str(value))
