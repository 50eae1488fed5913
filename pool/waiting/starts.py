"""Starts that are not over: the deployments of bots, and what those depend on."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from django.conf import settings
from django.db.models import Exists, F, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Now

from coolify.budget.report import BudgetReport, budget_report
from coolify.models import Budget
from core.prepared import Prepared
from core.sql import CountOf
from pool.images.warmth import being_prepulled
from pool.waiting.measurements import TypicalStart, typical_starts
from servers.limits import concurrent_deployments
from servers.models import Server
from slots.deployment import ACTIVE, Deployment, DeploymentStatus, Watch

_AWAY = Budget.objects.filter(open_until__isnull=False)


@dataclass(frozen=True, kw_only=True)
class Start:
    """A deployment, with its slot, as of `now`.

    While it waits, `position` of `line_length` is its place among those that wait for the same
    thing, and `puller` is the deployment that pulls its image, or will, if there is one.
    """

    deployment: Deployment
    now: datetime
    position: int
    line_length: int
    puller: Deployment | None
    # False if the puller's bot is of another client, which this one must not learn of.
    may_name_puller: bool = True
    is_prepulled: bool = False  # its image is pulled beforehand, by no bot
    is_coolify_away: bool = False  # read with the rest: a new start costs one query

    @property
    def next_try_at(self) -> datetime | None:
        """When the next step is taken; None if nothing holds it back."""
        return self.if_ahead(self.deployment.next_try_at)

    def if_ahead(self, moment: datetime | None) -> datetime | None:
        return moment if moment is not None and moment > self.now else None


def starts_of(bot_ids: Iterable[int]) -> dict[int, Start]:
    """Those of these bots that have a slot and do not run in it yet, by the bots' ids."""
    active = Deployment.objects.filter(bot_id__in=list(bot_ids), status__in=ACTIVE)
    found = active.select_related("slot").annotate(
        now=Now(),
        position=CountOf(_same_line().filter(_NOT_BEHIND)),
        line_length=CountOf(_same_line()),
        puller_id=Subquery(_pulls()[:1]),
        client_id=F("bot__client"),
        is_prepulled=being_prepulled(),
        is_coolify_away=Exists(_AWAY),
    )
    rows = list(found.order_by("pk"))
    pulls = Deployment.objects.annotate(client_id=F("bot__client"))
    pullers = pulls.in_bulk({each.puller_id for each in rows if each.puller_id})
    clients = {pk: puller.client_id for pk, puller in pullers.items()}
    return {
        each.bot_id: Start(
            deployment=each,
            now=each.now,
            position=each.position,
            line_length=each.line_length,
            puller=pullers.get(each.puller_id),
            may_name_puller=not settings.TENANT_ISOLATION
            or clients.get(each.puller_id) == each.client_id,
            is_prepulled=each.is_prepulled,
            is_coolify_away=each.is_coolify_away,
        )
        for each in rows
    }


def is_about_to_start(bot_id: int) -> bool:
    """Whether nothing holds up this bot's start: a quick answer for one that was just placed."""
    return _unhindered.exists(bot_id)


@Prepared
def _unhindered(bot_id: int) -> QuerySet[Deployment]:
    new = Deployment.objects.filter(bot_id=bot_id, status=DeploymentStatus.WAITING_FOR_IMAGE)
    return new.exclude(Exists(_pulls())).exclude(being_prepulled()).exclude(Exists(_AWAY))


# In the order in which places are given out; see pool.controller.places.
_NOT_BEHIND = Q(turn__lt=OuterRef("turn")) | Q(turn=OuterRef("turn"), pk__lte=OuterRef("pk"))


def _same_line() -> QuerySet[Deployment]:
    """Those that wait for the same image on the same server, or for a build place there."""
    same = {"status": OuterRef("status"), "server_uuid": OuterRef("server_uuid")}
    needs_image = Q(status=DeploymentStatus.WAITING_FOR_IMAGE)
    # They are active like the one that asks: saying so lets the index of active ones be used.
    active = Deployment.objects.filter(status__in=ACTIVE)
    return active.filter(~needs_image | Q(image=OuterRef("image")), **same)


def _pulls() -> QuerySet[Deployment, int]:
    """The one that pulls the same image on the same server. At most one does."""
    same = {"image": OuterRef("image"), "server_uuid": OuterRef("server_uuid")}
    return Deployment.objects.filter(pulling=True, **same).values_list("pk", flat=True)


class Surroundings:
    """What starts depend on. Each part is read once, and only if it is asked for."""

    def __init__(self, server_uuids: Iterable[str]) -> None:
        self._server_uuids = set(server_uuids)

    @cached_property
    def budget(self) -> BudgetReport:
        return budget_report()

    @cached_property
    def watch(self) -> Watch | None:
        return Watch.objects.first()

    def build_places(self, server_uuid: str) -> int:
        return self._build_places[server_uuid]

    def server_name(self, server_uuid: str) -> str:
        return self._server_names.get(server_uuid) or server_uuid

    def typical_start(self, image: str) -> TypicalStart:
        return self._typical_starts.get(image) or TypicalStart()

    @cached_property
    def _build_places(self) -> dict[str, int]:
        return concurrent_deployments(self._server_uuids)

    @cached_property
    def _server_names(self) -> dict[str, str]:
        readings = Server.objects.filter(uuid__in=self._server_uuids)
        return dict(readings.values_list("uuid", "name"))

    @cached_property
    def _typical_starts(self) -> dict[str, TypicalStart]:
        return typical_starts()
