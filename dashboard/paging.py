"""Paging of long lists."""

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from django.db.models import Model, QuerySet
from django.http import QueryDict

M = TypeVar("M", bound=Model)

PER_PAGE = 50


@dataclass(frozen=True, kw_only=True)
class Older(Generic[M]):
    """A page of rows, newest first, and where the next older page begins.

    Pages start from an id: they stay stable while rows are added, and cost the same at any depth.
    """

    rows: QuerySet[M]
    before: int | None

    def shown(self) -> tuple[list[M], int | None]:
        found = list(self.rows)
        page = found[:PER_PAGE]
        return page, page[-1].pk if len(found) > PER_PAGE else None


def older(rows: QuerySet[M], given: QueryDict) -> Older[M]:
    before = number(given, "before")
    if before is not None:
        rows = rows.filter(pk__lt=before)
    return Older(rows=rows.order_by("-pk")[: PER_PAGE + 1], before=before)


def number(given: QueryDict, name: str, default: Any = None) -> Any:
    text = given.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 18 else default
