"""Long selections of an operator, kept in the session: an address has a limited length."""

import secrets

from django.http import HttpRequest

AT_ONCE = 3  # for several open pages; the oldest is dropped
KEY = "selections"


def keep_selection(request: HttpRequest, items: list[str]) -> str:
    """Return the name under which this session finds the items again."""
    kept = request.session.get(KEY, [])
    name = secrets.token_urlsafe(6)
    request.session[KEY] = [*kept[1 - AT_ONCE :], [name, items]]
    return name


def kept_selection(request: HttpRequest, name: str) -> list[str] | None:
    found: dict[str, list[str]] = dict(request.session.get(KEY, []))
    return found.get(name)


def forget_selection(request: HttpRequest, name: str) -> None:
    if kept_selection(request, name) is not None:
        request.session[KEY] = [each for each in request.session[KEY] if each[0] != name]
