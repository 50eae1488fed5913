"""Permission checks for views."""

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec

from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseBase

from dashboard.unchanged import is_known_unchanged, remember_admitted, was_admitted

P = ParamSpec("P")
View = Callable[Concatenate[HttpRequest, P], HttpResponseBase]


def needs(permission: str) -> Callable[[View[P]], View[P]]:
    """Require a login with this permission."""

    def decorate(view: View[P]) -> View[P]:
        @wraps(view)
        def guarded(request: HttpRequest, *args: P.args, **kwargs: P.kwargs) -> HttpResponseBase:
            unchanged = is_live_request(request) and is_known_unchanged(request)
            if unchanged and was_admitted(request, permission=permission):
                return HttpResponse(status=204)
            if not request.user.is_authenticated:
                return _log_in_first(request)
            refuse_without(permission, request)
            if unchanged:
                remember_admitted(request, permission=permission)
                return HttpResponse(status=204)
            return view(request, *args, **kwargs)

        return guarded

    return decorate


def refuse_without(permission: str, request: HttpRequest) -> None:
    if not request.user.has_perm(permission):
        raise PermissionDenied(permission)


def _log_in_first(request: HttpRequest) -> HttpResponseBase:
    if is_live_request(request):
        return HttpResponse(
            "Log in again", status=401
        )  # an open page must not turn into a login form
    return redirect_to_login(request.get_full_path())


def is_live_request(request: Any) -> bool:
    return bool(request.htmx)
