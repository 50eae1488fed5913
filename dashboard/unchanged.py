"""A short cut for open pages while nothing changes, which is most of the time.

When one page is found unchanged, other requests for the same version get that answer without a
query for less than a second. A user's permission to view is remembered for some seconds.
"""

from hashlib import sha256

from django.conf import settings
from django.core.cache import cache
from django.http import HttpRequest

SAME_FOR = 0.6
ADMITTED_FOR = 15.0


def is_known_unchanged(request: HttpRequest) -> bool:
    return bool(cache.get(_page_key(request)))


def was_admitted(request: HttpRequest, *, permission: str) -> bool:
    """Good only for an answer without content. Pages with content need the full check."""
    return bool(cache.get(_session_key(request, permission)))


def remember_unchanged(request: HttpRequest) -> None:
    cache.set(_page_key(request), True, SAME_FOR)


def remember_admitted(request: HttpRequest, *, permission: str) -> None:
    cache.set(_session_key(request, permission), True, ADMITTED_FOR)


def _page_key(request: HttpRequest) -> str:
    """The full path includes the version that the page shows."""
    return f"unchanged:{_digest(request.get_full_path())}"


def _session_key(request: HttpRequest, permission: str) -> str:
    session = request.COOKIES.get(settings.SESSION_COOKIE_NAME, "")
    return f"admitted:{permission}:{_digest(session)}"


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()
