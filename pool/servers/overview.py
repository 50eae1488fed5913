"""Our servers with their slots, and how far a drain has come."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from django.conf import settings

from core.clock import database_now
from pool.capacity import WITHOUT_A_PLACE
from pool.images.overview import recent_prepulls
from pool.images.warmth import builds_by_server
from pool.servers.states import our_servers
from pool.waiting.measurements import measure_platform
from pool.waiting.words import count_of, time_of
from servers.health import LEAVING
from servers.limits import build_places
from servers.models import Server
from slots.deployment import UNDER_WAY, Deployment, WarmImage
from slots.images import Prepull
from slots.models import Slot
from slots.status import SlotStatus


@dataclass(frozen=True, kw_only=True)
class ServerOverview:
    server: Server
    slots: Counter[str]  # by status
    build_places: int
    builds: int
    images: Sequence[WarmImage] = field(default_factory=list)
    prepulls: Sequence[Prepull] = field(default_factory=list)  # the last of each image
    last_meeting_ends_at: datetime | None = None  # an estimate, only while slots leave

    @property
    def total(self) -> int:
        return self.slots.total()

    @property
    def meetings(self) -> int:
        return self.slots[SlotStatus.BUSY]

    @property
    def free_build_places(self) -> int:
        return max(0, self.build_places - self.builds)

    @property
    def is_leaving(self) -> bool:
        return self.server.state in LEAVING or self.server.order == Server.Order.DRAINING

    @property
    def progress(self) -> str:
        """How far a drain has come; empty for a server that stays."""
        if not self.is_leaving:
            return ""
        if not self.total:
            return "Empty: it can be taken down."
        return f"{' and '.join(self._left())} left."

    def _left(self) -> list[str]:
        meetings, others = self.meetings, self.total - self.meetings
        words = [count_of(meetings, "meeting")] if meetings else []
        if others:
            words.append(count_of(others, "other slot" if meetings else "slot"))
        if meetings and self.last_meeting_ends_at is not None:
            end = f"the longest expected to end at {time_of(self.last_meeting_ends_at)}"
            words[0] += f" ({end})"
        return words


def server_overviews() -> list[ServerOverview]:
    servers = our_servers()
    slots = _slots()
    builds = _builds()
    images = _images()
    prepulls = _prepulls()
    ends = _last_ends(slots, [each.uuid for each in servers if _leaves(each)])
    return [
        ServerOverview(
            server=server,
            slots=Counter(slot.status for slot in slots[server.uuid]),
            build_places=build_places(server),
            builds=builds[server.uuid],
            images=images[server.uuid],
            prepulls=prepulls[server.uuid],
            last_meeting_ends_at=ends.get(server.uuid),
        )
        for server in servers
    ]


def overview_of(server: Server) -> ServerOverview | None:
    return next((each for each in server_overviews() if each.server.pk == server.pk), None)


def _leaves(server: Server) -> bool:
    return server.state in LEAVING or server.order == Server.Order.DRAINING


def _slots() -> dict[str, list[Slot]]:
    by_server: dict[str, list[Slot]] = defaultdict(list)
    placed = Slot.objects.exclude(WITHOUT_A_PLACE)
    for slot in placed.only("platform", "server_uuid", "status", "last_assigned_at"):
        by_server[slot.server_uuid].append(slot)
    return by_server


def _builds() -> Counter[str]:
    under_way = Deployment.objects.filter(status__in=UNDER_WAY, coolify_ended_at__isnull=True)
    return builds_by_server(under_way)


def _images() -> dict[str, list[WarmImage]]:
    by_server: dict[str, list[WarmImage]] = defaultdict(list)
    for image in WarmImage.objects.order_by("image"):
        by_server[image.server_uuid].append(image)
    return by_server


def _prepulls() -> dict[str, list[Prepull]]:
    by_server: dict[str, list[Prepull]] = defaultdict(list)
    for prepull in recent_prepulls():
        by_server[prepull.server_uuid].append(prepull)
    return by_server


# --- When the last meeting ends ----------------------------------------------------------------


def _last_ends(slots: dict[str, list[Slot]], servers: Iterable[str]) -> dict[str, datetime]:
    busy = {
        uuid: [slot for slot in slots[uuid] if slot.status == SlotStatus.BUSY] for uuid in servers
    }
    platforms = {slot.platform for each in busy.values() for slot in each}
    holds = {
        platform: measure_platform(platform).measured.holds()
        for platform in settings.MAX_POOL_SIZES
        if platform in platforms
    }
    now = database_now()
    return {
        uuid: max(_expected_end(slot, holds[slot.platform], now) for slot in each)
        for uuid, each in busy.items()
        if each
    }


def _expected_end(slot: Slot, holds: list[tuple[float, float]], now: datetime) -> datetime:
    """The median of the meetings that lasted at least as long as this one has."""
    began = slot.last_assigned_at or now
    lasted = (now - began).total_seconds()
    longer = [(seconds, weight) for seconds, weight in holds if seconds > lasted]
    half = sum(weight for _, weight in longer) / 2
    for seconds, weight in longer:
        half -= weight
        if half <= 0:
            return began + timedelta(seconds=seconds)
    return now + (now - began) / 4  # it outlasts all that were measured
