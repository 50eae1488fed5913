"""The deployments page: active ones by image and server, then recent ones."""

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from django.db.models import Q
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.views.decorators.http import require_safe

from bots.status import Platform
from core.permissions import VIEW
from dashboard.lists.csv_export import MOST_EXPORTED, csv_file, wants_csv
from dashboard.live import estimates, live_page, version_of
from dashboard.paging import older
from dashboard.permissions import needs
from pool.waiting.waiting_for import each_start_waits_for
from servers.models import Server
from slots.deployment import ACTIVE, Deployment, DeploymentStatus, WarmImage

CHOICES: dict[str, list[tuple[str, str]]] = {
    "platform": [(each.value, each.label) for each in Platform],
    "status": [(each.value, each.label) for each in DeploymentStatus],
}

COLUMNS = (
    "id", "slot_name", "bot_id", "status", "failure_cause", "reason", "image", "server_uuid",
    "leader", "waited_for_image", "attempt", "deployment_uuid", "created_at", "start_asked_at",
    "building_since", "coolify_ended_at", "ended_at",
)  # fmt: skip

# Those in progress, oldest first. More than these at once are of no use to a reader.
MOST_ACTIVE = 100


@dataclass(frozen=True, kw_only=True)
class Row:
    deployment: Deployment
    why: str


@dataclass
class ImageOnServer:
    """The active deployments of one image on one server. One leader pulls; the others wait."""

    image: str
    server: str
    is_warm: bool
    rows: list[Row] = field(default_factory=list)


@require_safe
@needs(VIEW)
def deployment_list(request: HttpRequest) -> HttpResponseBase:
    matching = _matching(request)
    if wants_csv(request.GET):
        rows = matching.order_by("-pk").values_list(*COLUMNS)[:MOST_EXPORTED]
        return csv_file("deployments", COLUMNS, rows.iterator(chunk_size=2_000))
    active = matching.filter(status__in=ACTIVE).order_by("pk")
    recent = older(matching.exclude(status__in=ACTIVE), request.GET)
    warm = WarmImage.objects.all()

    def live() -> dict[str, Any]:
        rows, before = recent.shown()
        hidden = max(active.count() - MOST_ACTIVE, 0)
        images = _by_image(active, warm)
        return {"images": images, "hidden": hidden, "deployments": rows, "before": before}

    return live_page(
        request,
        template="slots/deployments.html",
        version=version_of(active, recent.rows, warm, estimates()),
        live=live,
        frame=lambda: {"choices": CHOICES, "given": request.GET, "exports": True},
    )


def _matching(request: HttpRequest) -> Any:
    deployments = Deployment.objects.all()
    if request.GET.get("platform"):
        deployments = deployments.filter(slot__platform=request.GET["platform"])
    if request.GET.get("status"):
        deployments = deployments.filter(status=request.GET["status"])
    if request.GET.get("slot"):
        # By the index of the slot's id; a search for its name reads the whole table.
        deployments = deployments.filter(slot__name=request.GET["slot"])
    words = request.GET.get("q", "").strip()
    if words:
        found = Q(slot_name__icontains=words) | Q(deployment_uuid=words) | Q(image__icontains=words)
        deployments = deployments.filter(found)
    return deployments


def _by_image(active: Any, warm: Any) -> list[ImageOnServer]:
    known = {(each.image, each.server_uuid) for each in warm if each.state == "warm"}
    deployments = list(active.order_by("-pulling", "pk")[:MOST_ACTIVE])
    waiting = each_start_waits_for(each.bot_id for each in deployments)
    names = dict(Server.objects.exclude(name="").values_list("uuid", "name"))
    groups: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for each in deployments:
        found = waiting.get(each.bot_id)
        row = Row(deployment=each, why=found.message if found else each.reason)
        groups[each.image, each.server_uuid].append(row)
    return [
        ImageOnServer(
            image=image,
            server=names.get(server, server),
            is_warm=(image, server) in known,
            rows=rows,
        )
        for (image, server), rows in sorted(groups.items())
    ]
