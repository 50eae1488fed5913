"""Pages that stay up to date while they are open.

A page consists of a frame and a live part, the template `…_live.html`. An open page requests its
own URL every second or two and sends the version of the live part that it shows. The answer is
204 if that version is current, otherwise the new live part. The version is derived from the rows
shown, and the HTML is cached per version: many open pages cost one rendering.
"""

import time
from collections.abc import Callable, Iterable
from datetime import datetime
from hashlib import sha256
from typing import Any, NamedTuple
from urllib.parse import urlencode

from django.core.cache import cache
from django.core.exceptions import EmptyResultSet
from django.db.models import Model, QuerySet
from django.db.models.expressions import RawSQL
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.template.loader import render_to_string
from django.utils.safestring import SafeString, mark_safe

from core.permissions import ADMINISTER, OPERATE
from core.sql import fetch_one
from dashboard.permissions import is_live_request
from dashboard.unchanged import remember_unchanged
from pool.controller.belief.doubts import KINDS as DOUBTS
from slots.deployment import ACTIVE

Context = Callable[[], dict[str, Any]]

KEEP_HTML = 60.0
ESTIMATES_HOLD_FOR = 10  # seconds


def live_page(
    request: HttpRequest,
    *,
    template: str,
    version: str,
    live: Context,
    frame: Context = dict,
    settled: bool = False,
) -> HttpResponse:
    """`live` and `frame` return the contexts of the two parts. They are called only when needed.

    A page that is `settled` cannot change any more, and an open one stops asking.
    """
    live = _with(live, settled=settled)
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


def _with(live: Context, *, settled: bool) -> Context:
    return lambda: {**live(), "settled": settled}


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
    return mark_safe(html)  # noqa: S308 (rendered by a template)


def _way_back(request: HttpRequest) -> dict[str, str]:
    """This page's URL, for actions that return here: for a form field, and to append to a link."""
    parameters = _parameters(request)
    here = f"{request.path}?{parameters}" if parameters else request.path
    return {"here": here, "and_back": f"&{urlencode({'next': here})}"}


def what_the_user_may(request: HttpRequest) -> dict[str, bool]:
    return {
        "may_operate": request.user.has_perm(OPERATE),
        "may_administer": request.user.has_perm(ADMINISTER),
    }


def version_of(*shown: QuerySet[Any] | object) -> str:
    """A digest that changes when a row of a queryset or another value does. One query for all."""
    values = [each for each in shown if not isinstance(each, QuerySet)]
    return _digest([values, _last_changes([each for each in shown if isinstance(each, QuerySet)])])


# Everything that the overview shows, in one round trip. Not ORM: xmin, which changes with every
# update of a row.
_POOL_VERSION = """
SELECT
    (SELECT md5(string_agg(id || ':' || xmin, ',' ORDER BY id)) FROM slots_slot),
    (SELECT md5(string_agg(platform || ':' || xmin, ',' ORDER BY platform)) FROM slots_pool),
    (SELECT count(*) FROM slots_pool WHERE paused_until > clock_timestamp()),
    (SELECT md5(string_agg(id || ':' || xmin, ',' ORDER BY id)) FROM queues_queueentry),
    (SELECT count(*) FROM slots_deployment WHERE status = ANY(%(active)s)),
    (SELECT string_agg(uuid || state || state_reason, ',' ORDER BY uuid)
        FROM coolify_serverreading),
    (SELECT max(minute) FROM botpool_poolsample),
    (SELECT md5(string_agg(id || ':' || disabled_at, ',' ORDER BY id)) FROM bots_webhookendpoint),
    EXISTS (SELECT FROM coolify_refusal)
        OR EXISTS (SELECT FROM slots_watch WHERE failing_since IS NOT NULL)
        OR EXISTS (SELECT FROM slots_finding WHERE ended_at IS NULL AND kind = ANY(%(doubts)s))
"""


class PoolVersion(NamedTuple):
    slots: str | None
    pools: str | None
    paused: int
    waiters: str | None
    starts: int
    servers: str | None
    sampled_at: datetime | None
    webhooks: str | None
    may_miss_coolify: bool  # refused, not observed or not believed

    @property
    def has_waiters(self) -> bool:
        return self.waiters is not None


def version_of_pool() -> PoolVersion:
    known = {"active": list(ACTIVE), "doubts": list(DOUBTS)}
    return PoolVersion(*fetch_one(_POOL_VERSION, known) or ())


def estimates() -> float:
    """A value that changes every few seconds, for versions of pages that show estimates."""
    return time.time() // ESTIMATES_HOLD_FOR


def _last_changes(querysets: Iterable[QuerySet[Model]]) -> tuple[Any, ...] | None:
    """A hash of the rows of each. Not ORM: PostgreSQL hashes hundreds of rows faster than we do."""
    hashes: list[str] = []
    params: list[Any] = []
    for rows in querysets:
        try:
            statement, own = _row_versions(rows).query.sql_with_params()
        except EmptyResultSet:  # such as a filter by an empty list
            continue
        # Made by the ORM, with its values as parameters.
        hashes.append(f"(SELECT md5(string_agg(r::text, ',')) FROM ({statement}) AS r)")  # noqa: S608
        params += own
    return fetch_one(f"SELECT {', '.join(hashes)}", params) if hashes else None


def _row_versions(rows: QuerySet[Model]) -> QuerySet[Model, Any]:
    table = rows.model._meta.db_table
    # xmin changes with every update of the row. The table name is not user input.
    last_change = RawSQL(f'"{table}"."xmin"::text', ())  # noqa: S611
    return rows.values_list("pk", last_change)


def _digest(parts: list[Any]) -> str:
    return sha256(repr(parts).encode()).hexdigest()[:20]
