"""The interactive page. Its policy allows scripts from this host only, and none inline."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.http import HttpResponse

POLICY = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    ]
)


def with_strict_policy(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    @wraps(view, assigned=())
    def wrapped(*args: Any, **kwargs: Any) -> HttpResponse:
        response = view(*args, **kwargs)
        response["Content-Security-Policy"] = POLICY
        return response

    return wrapped
