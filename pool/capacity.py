"""How large a pool may be, whether there is room in it, whether it is paused: each rule once."""

from collections import Counter

from django.conf import settings
from django.db.models import Count, Q, QuerySet
from django.db.models.functions import Now
from django.utils import timezone

from core.prepared import Prepared
from pool.images.in_use import servers_with_image
from pool.images.warmth import builds_by_server
from servers.health import IN_SERVICE, ServerState
from servers.limits import build_places
from servers.models import Server
from servers.placement import Candidate, choose_server
from slots.deployment import ACTIVE, Deployment
from slots.models import Pool, Slot
from slots.status import SlotStatus

# --- The size ----------------------------------------------------------------------------------


def pool_size(platform: str, pool: Pool | None = None) -> int:
    """The most slots a platform may have: what operators set, else the environment's value."""
    if pool is not None and pool.max_size is not None:
        return pool.max_size
    size: int = settings.MAX_POOL_SIZES[platform]
    return size


def pool_sizes() -> dict[str, int]:
    """Of all platforms, in one query."""
    set_by_operators = Pool.objects.in_bulk()
    return {p: pool_size(p, set_by_operators.get(p)) for p in settings.MAX_POOL_SIZES}


def read_pool(platform: str) -> Pool:
    return _stored_pool.first(platform) or Pool(platform=platform)


@Prepared
def _stored_pool(platform: str) -> QuerySet[Pool]:
    return Pool.objects.filter(platform=platform)


def may_grow(platform: str, pool: Pool | None = None) -> bool:
    """Whether the pool is smaller than its size. Hold the lock GROW_POOL to rely on it.

    Slots beyond the size do not count: they are out of service, and one within it that has no
    application could never be used again.
    """
    return _within_size.count(platform) < pool_size(platform, pool or read_pool(platform))


@Prepared
def _within_size(platform: str) -> QuerySet[Slot]:
    within = Slot.objects.filter(platform=platform, beyond_size=False)
    return within.exclude(WITHOUT_A_PLACE)


def has_room(platform: str) -> bool:
    """Whether the pool may grow by one, and a server has room for it."""
    return may_grow(platform) and server_for_new_slot(platform) is not None


def idle_slots(platform: str) -> QuerySet[Slot]:
    """The slots that a bot may get: on servers that take bots."""
    idle = Slot.objects.filter(platform=platform, status=SlotStatus.IDLE, cordoned=False)
    out_of_service = Server.objects.exclude(state__in=IN_SERVICE).values("uuid")
    return idle.exclude(WITHOUT_A_PLACE).exclude(server_uuid__in=out_of_service)


def has_opening(platform: str) -> bool:
    """Whether a bot could get a slot now. Only a hint: the claim makes sure."""
    return _idle.exists(platform) or has_room(platform)


@Prepared
def _idle(platform: str) -> QuerySet[Slot]:
    return idle_slots(platform)


# --- Servers -----------------------------------------------------------------------------------

# An idle slot without an application is on no server: it may be made anew on any of them.
WITHOUT_A_PLACE = Q(
    status=SlotStatus.IDLE, cordoned=False, coolify_uuid="", application_asked_at__isnull=True
)


def server_for_new_slot(platform: str) -> str | None:
    """The server with the most room; None if none has room for one more slot."""
    uuids = settings.COOLIFY_SERVER_UUIDS or [""]
    servers = Server.objects.in_bulk(uuids)
    waiting = builds_by_server(Deployment.objects.filter(status__in=ACTIVE))
    slots = slots_by_server()
    pulled_since = timezone.now() - settings.IMAGE_WARM_FOR
    named = settings.BOT_IMAGES[platform]
    warm = set(servers_with_image(platform, named=named, pulled_since=pulled_since))
    return choose_server(
        Candidate(
            uuid=uuid,
            state=ServerState(servers[uuid].state) if uuid in servers else ServerState.HEALTHY,
            image_is_warm=uuid in warm,
            build_places=build_places(servers.get(uuid)),
            builds=waiting[uuid],
            slots=slots[uuid],
            most_slots=settings.MAX_SLOTS_PER_SERVER or None,
        )
        for uuid in uuids
    )


def slots_by_server() -> Counter[str]:
    """The slots that have a place, of all platforms."""
    placed = Slot.objects.exclude(WITHOUT_A_PLACE).order_by()
    return Counter(dict(placed.values_list("server_uuid").annotate(Count("id"))))


# --- Pauses ------------------------------------------------------------------------------------


def paused_pools() -> QuerySet[Pool]:
    """The pools that are paused now; an expired pause does not count."""
    not_over = Q(paused_until__isnull=True) | Q(paused_until__gt=Now())
    return Pool.objects.filter(not_over, paused_at__isnull=False)


def current_pause(platform: str) -> Pool | None:
    return _paused_pool.first(platform)


@Prepared
def _paused_pool(platform: str) -> QuerySet[Pool]:
    return paused_pools().filter(platform=platform)
