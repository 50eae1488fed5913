"""Pages that stay up to date while they are open.

A page consists of a frame and a live part, the template `…_live.html`. The open page asks its
own address again every second or two and says which version of the live part it shows: the
answer is 204 when that is still the newest, else the new live part. The version is made of the
rows shown, so that nobody has to remember to raise a counter; the HTML is kept per version, so
that many open pages cost one rendering.
"""

from collections.abc import Callable
from hashlib import sha256
from typing import Any
from urllib.parse import urlencode

from django.core.cache import cache
from django.db.models import Model, QuerySet
from django.db.models.expressions import RawSQL
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.template.loader import render_to_string
from django.utils.safestring import SafeString, mark_safe

from core.permissions import ADMINISTER, OPERATE
from dashboard.permissions import is_live_request
from dashboard.unchanged import remember_unchanged

Context = Callable[[], dict[str, Any]]

KEEP_HTML = 60.0


def live_page(
    request: HttpRequest,
    *,
    template: str,
    version: str,
    live: Context,
    frame: Context = dict,
) -> HttpResponse:
    """`live` and `frame` make the contexts of the two parts, and only when they are needed."""
    version = _digest([version, request.path, _parameters(request)])
    if is_live_request(request):
        if request.GET.get("live") == version:
            remember_unchanged(request)
            return HttpResponse(status=204)
        return HttpResponse(_live_part(request, template, version, live))
    context = {
        **frame(),
        **what_the_user_may(request),
        "live_part": _live_part(request, template, version, live),
    }
    return render(request, template, context)


def _parameters(request: HttpRequest) -> str:
    given = request.GET.copy()
    given.pop("live", None)
    return given.urlencode()


def _live_part(request: HttpRequest, template: str, version: str, live: Context) -> SafeString:
    may = what_the_user_may(request)
    key = f"live:{template}:{version}:{sorted(may.items())}".replace(" ", "")
    html: str | None = cache.get(key)
    if html is None:
        part = template.replace(".html", "_live.html")
        own = {"version": version, "parameters": f"?{_parameters(request)}"}
        html = render_to_string(part, {**live(), **may, **own, **_way_back(request)}, request)
        cache.set(key, html, KEEP_HTML)
    return mark_safe(html)  # noqa: S308 (a template made it)


def _way_back(request: HttpRequest) -> dict[str, str]:
    """For actions, which lead back here: the address for a form, and for the end of a link."""
    parameters = _parameters(request)
    here = f"{request.path}?{parameters}" if parameters else request.path
    return {"here": here, "and_back": f"&{urlencode({'next': here})}"}


def what_the_user_may(request: HttpRequest) -> dict[str, bool]:
    return {
        "may_operate": request.user.has_perm(OPERATE),
        "may_administer": request.user.has_perm(ADMINISTER),
    }


def version_of(*shown: QuerySet[Any] | object) -> str:
    """Changes whenever a row of the querysets, or one of the other things shown, does."""
    return _digest([_rows(each) if isinstance(each, QuerySet) else each for each in shown])


def _rows(rows: QuerySet[Model]) -> list[Any]:
    table = rows.model._meta.db_table
    # PostgreSQL's own mark of the last change of a row; the table's name is not from outside.
    last_change = RawSQL(f'"{table}"."xmin"::text', ())  # noqa: S611
    return list(rows.values_list("pk", last_change))


def _digest(parts: list[Any]) -> str:
    return sha256(repr(parts).encode()).hexdigest()[:20]
