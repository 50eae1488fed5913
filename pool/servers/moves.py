"""Slots that leave their server: its application is deleted, the next start makes a new one where
there is the most room."""

from collections import Counter

from django.conf import settings
from django.db.models import Q, QuerySet
from django.db.models.functions import Now

from pool.capacity import WITHOUT_A_PLACE, may_grow
from pool.lifecycle import recover_slot
from servers.health import LEAVING, ServerState
from servers.models import Server
from slots.models import Slot
from slots.status import SlotStatus

ACTOR = "servers"


def move_idle_slots() -> list[Slot]:
    """Move the idle slots of servers that drain or are removed, and some to a new server."""
    idle = _idle().filter(server_uuid__in=_leaving_servers()).order_by("pk")
    leaving = [slot for slot in idle if _move(slot, _why(slot))]
    _forget_lost_answers()
    return leaving + _balance()


def _leaving_servers() -> QuerySet[Server, str]:
    is_leaving = Q(state__in=LEAVING) | Q(order=Server.Order.DRAINING)
    in_force = Q(order_until__isnull=True) | Q(order_until__gt=Now())
    return Server.objects.filter(is_leaving, in_force).values_list("uuid", flat=True)


def _forget_lost_answers() -> None:
    """An idle slot whose application may have been made there, but whose answer was lost, has
    nothing to move. If there is such an application, it is reported as an orphan."""
    lost = Slot.objects.filter(
        status=SlotStatus.IDLE, coolify_uuid="", application_asked_at__isnull=False
    )
    lost.filter(server_uuid__in=_leaving_servers()).update(application_asked_at=None)


def _idle() -> QuerySet[Slot]:
    return Slot.objects.filter(status=SlotStatus.IDLE).exclude(coolify_uuid="")


def _why(slot: Slot) -> str:
    server = Server.objects.get(uuid=slot.server_uuid)
    return f"Server {server} is {server.get_state_display().lower()}: {server.state_reason}"


def _move(slot: Slot, reason: str) -> bool:
    return recover_slot(slot, reason=f"Moves elsewhere. {reason}", actor=ACTOR, recreate=True)


# --- A new server ------------------------------------------------------------------------------


def _balance() -> list[Slot]:
    """Of each full pool, one idle slot a pass leaves the fullest server while a healthy server has
    far fewer: a pool that cannot grow would never use a new server."""
    healthy = Server.objects.filter(state=ServerState.HEALTHY).values_list("uuid", flat=True)
    servers = [uuid for uuid in settings.COOLIFY_SERVER_UUIDS if uuid in set(healthy)]
    moved = []
    for platform in settings.MAX_POOL_SIZES if len(servers) > 1 else ():
        slot = _surplus(platform, servers) if not may_grow(platform) else None
        if slot is not None and _move(slot, "Another server has far fewer slots"):
            moved.append(slot)
    return moved


def _surplus(platform: str, servers: list[str]) -> Slot | None:
    """An idle slot on the fullest server, if moving it makes the servers more even."""
    slots = Slot.objects.filter(platform=platform)
    placed = Counter(slots.exclude(WITHOUT_A_PLACE).values_list("server_uuid", flat=True))
    fullest = max(servers, key=lambda uuid: placed[uuid])
    emptiest = min(placed[uuid] for uuid in servers) + slots.filter(WITHOUT_A_PLACE).count()
    if placed[fullest] - emptiest < 2:
        return None
    idle = _idle().filter(platform=platform, server_uuid=fullest, cordoned=False)
    return idle.order_by("last_used_at", "number").first()
