"""Filters of the admin's lists that say what they find."""

from collections.abc import Iterator
from typing import Any

from django.contrib import admin


def by_time(*, set_as: str, empty_as: str) -> type[admin.EmptyFieldListFilter]:
    """For a time that is only set once something has happened, such as `revoked_at`."""

    class ByTime(admin.EmptyFieldListFilter):
        def choices(self, changelist: Any) -> Iterator[Any]:
            words = (None, empty_as, set_as)  # in Django's order: all, empty, not empty
            for word, choice in zip(words, super().choices(changelist), strict=True):
                yield {**choice, "display": word} if word else choice

    return ByTime
