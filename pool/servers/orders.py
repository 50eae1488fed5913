"""What operators ask of a server: cordon, drain, maintenance, and the return to service."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.db.models.functions import Now

from core.clock import database_now
from core.locks import advisory_lock
from pool.images.prepulls import NoImage, ask_prepull
from pool.lock_names import ORDER_SERVERS
from pool.servers.moves import move_idle_slots
from pool.servers.states import NO_ORDER, NO_WINDOW, refresh_servers
from servers.health import IN_SERVICE
from servers.models import Server
from servers.reports import named
from slots.images import Prepull

logger = logging.getLogger(__name__)


# Times outside of these are mistakes, and at the edges of the calendar they cannot be read again.
LONGEST_AGO = timedelta(days=365)
YEARS_AHEAD = 20


class OrderRefused(Exception):
    """The order does not make sense; nothing was changed. The message says why and what to do."""


class UnlikelyTime(OrderRefused):
    """`field` is too far from now: "until", "begins" or "ends"."""

    def __init__(self, message: str, *, field: str) -> None:
        super().__init__(message)
        self.field = field


def find_server(name: str) -> Server:
    """By name or uuid; raises OrderRefused."""
    server = named(name)
    if server is None:
        known = Server.objects.filter(uuid__in=settings.COOLIFY_SERVER_UUIDS).order_by("name")
        names = ", ".join(str(each) for each in known) or "none so far"
        raise OrderRefused(f"There is no server {name!r}, or several have that name. Ours: {names}")
    return server


def cordon_server(
    server: Server, *, reason: str, actor: str, until: datetime | None = None
) -> None:
    """Give it no new bots. Its slots stay."""
    _order(server, Server.Order.CORDONED, reason=reason, actor=actor, until=until)


def drain_server(server: Server, *, reason: str, actor: str, until: datetime | None = None) -> None:
    """Give it no new bots, and move its slots elsewhere: idle ones at once, the others when their
    meetings end."""
    _order(server, Server.Order.DRAINING, reason=reason, actor=actor, until=until)


def plan_maintenance(
    server: Server, *, begins: datetime, ends: datetime, reason: str, actor: str
) -> None:
    """Drain it by itself MAINTENANCE_LEAD before `begins`, and return it at `ends`."""
    begins, ends = check_window(begins, ends)
    with _ordering():
        _refuse_last(server)
        Server.objects.filter(pk=server.pk).update(
            window_from=begins, window_until=ends, window_reason=reason, window_by=actor
        )
    _carry_out(server, f"maintenance {begins:%Y-%m-%d %H:%M} UTC", reason=reason, actor=actor)


def warm_image(server: Server, *, image: str, reason: str, actor: str) -> Prepull:
    """Have an image pulled there before a bot needs it."""
    if server.uuid not in settings.COOLIFY_SERVER_UUIDS:
        raise OrderRefused(f"{server} is not in COOLIFY_SERVER_UUID: no bot starts there")
    try:
        return ask_prepull(image=image, server_uuid=server.uuid, actor=actor, reason=reason)
    except NoImage as error:
        raise OrderRefused(str(error)) from None


def return_server(server: Server, *, reason: str, actor: str) -> bool:
    """Undo orders and maintenance windows; False if there was none."""
    with transaction.atomic():
        same = Server.objects.select_for_update().filter(pk=server.pk)
        row = same.first()
        if row is None or not (row.order or row.window_from):
            return False
        Server.objects.filter(pk=server.pk).update(**NO_ORDER, **NO_WINDOW)
    _carry_out(server, "returned to service", reason=reason, actor=actor)
    return True


def _order(
    server: Server, order: Server.Order, *, reason: str, actor: str, until: datetime | None
) -> None:
    if until is not None:
        until = _check_until(until)
    with _ordering():
        _refuse_last(server)
        Server.objects.filter(pk=server.pk).update(
            order=order,
            order_since=Now(),
            order_until=until,
            order_reason=reason,
            order_by=actor,
        )
    _carry_out(server, order.value, reason=reason, actor=actor)


@contextmanager
def _ordering() -> Iterator[None]:
    """Two operators who drain two servers at the same time must not take out the last one."""
    with transaction.atomic():
        advisory_lock(ORDER_SERVERS)
        yield


def _refuse_last(server: Server) -> None:
    wanted = [uuid for uuid in settings.COOLIFY_SERVER_UUIDS if uuid != server.uuid]
    out = Server.objects.filter(uuid__in=wanted).exclude(state__in=IN_SERVICE, order="")
    if len(wanted) <= out.count():
        raise OrderRefused(
            f"{server} is the last server in service: no bot could start. Return another server "
            "to service first, or pause the platforms instead"
        )


def _carry_out(server: Server, what: str, *, reason: str, actor: str) -> None:
    fields = {"server": server.uuid, "what": what, "reason": reason, "actor": actor}
    line = f'[Servers] {server}: {what} | actor={actor} | reason="{reason}"'
    logger.info("%s", line, extra={"fields": fields})
    refresh_servers()
    move_idle_slots()
    server.refresh_from_db()


# --- Times -------------------------------------------------------------------------------------


def check_window(begins: datetime, ends: datetime) -> tuple[datetime, datetime]:
    """Both in UTC; raises OrderRefused."""
    now = database_now()
    if ends <= begins:
        raise OrderRefused("The maintenance window must end after it begins")
    if ends <= now:
        raise OrderRefused("The maintenance window is already over")
    return _check_time(begins, now, field="begins"), _check_time(ends, now, field="ends")


def _check_until(until: datetime) -> datetime:
    now = database_now()
    if until <= now:
        raise OrderRefused("The end must be in the future")
    return _check_time(until, now, field="until")


def _check_time(moment: datetime, now: datetime, *, field: str) -> datetime:
    """In UTC. Compared before the conversion, which fails at the edges of the calendar."""
    what = "The beginning" if field == "begins" else "The end"
    if moment < now - LONGEST_AGO:
        raise UnlikelyTime(f"{what} is more than a year ago", field=field)
    if moment > now + YEARS_AHEAD * timedelta(days=365.25):
        raise UnlikelyTime(f"{what} is more than {YEARS_AHEAD} years from now", field=field)
    return moment.astimezone(UTC)
