"""Why a bot waits, in sentences for people."""

from collections import Counter

from django.conf import settings
from django.db.models import Q
from django.db.models.functions import Now

from bots.models import Bot
from bots.status import Platform
from coolify.models import Budget
from pool.capacity import current_pause, pool_sizes
from pool.sharing.turns import Shares, has_one_lane, shares_of
from pool.waiting.position import Place, place_in_line, places_in_line
from pool.waiting.words import count_of, length_of, name_of, time_of
from queues.models import QueueEntry
from servers.health import IN_SERVICE
from servers.models import Server
from slots.models import Slot
from slots.status import SlotStatus


def why_waiting(bot: Bot) -> list[str]:
    """What a bot waits for, one sentence each; empty if it does not wait."""
    place = place_in_line(bot)
    entry = QueueEntry.objects.filter(bot=bot).first()
    if place is None or entry is None:
        return []
    return _reasons(entry, place, _hindrances(bot.platform), _shares_if_several(bot.platform))


def why_each_waits(platform: str, *, limit: int | None = None) -> dict[int, list[str]]:
    """The same for all waiters of a platform, by bot id and in their order."""
    places = places_in_line(platform, limit=limit)
    entries = QueueEntry.objects.in_bulk(list(places), field_name="bot_id")
    hindrances, shares = _hindrances(platform), _shares_if_several(platform)
    return {
        bot_id: _reasons(entries[bot_id], place, hindrances, shares)
        for bot_id, place in places.items()
        if bot_id in entries
    }


def _reasons(
    entry: QueueEntry, place: Place, hindrances: list[str], shares: Shares | None
) -> list[str]:
    own = [_who_is_ahead(place), _ageing(entry)]
    if shares is not None:
        own.append(_sharing(entry, shares))
    return [*own, *hindrances, _what_comes_next(entry, place)]


def _shares_if_several(platform: str) -> Shares | None:
    """None if one client waits alone: then shares do not matter."""
    return None if has_one_lane(platform) else shares_of(platform)


def _sharing(entry: QueueEntry, shares: Shares) -> str:
    held = count_of(shares.held.get(entry.lane, 0), "slot")
    share = shares.share.get(entry.lane, 1)
    return (
        f"Several clients wait. Its client holds {held}, with a share of {share}; "
        "one that holds fewer for its share goes first."
    )


def _who_is_ahead(place: Place) -> str:
    if place.position == 1:
        return "It is next in line."
    ahead = place.position - 1
    return f"{count_of(ahead, 'bot')} {'is' if ahead == 1 else 'are'} ahead of it."


def _ageing(entry: QueueEntry) -> str:
    worth = entry.ageing.total_seconds()
    return f"Its priority is {entry.priority}; one step is worth {worth:g} s of waiting."


def _what_comes_next(entry: QueueEntry, place: Place) -> str:
    gives_up = f"the bot gives up at {time_of(entry.timeout_at)}"
    if place.wait_for_slot is None:
        return f"There is no estimate of when; {gives_up}."
    return f"A slot is expected in about {length_of(place.wait_for_slot)}; {gives_up}."


# --- What stands in the way of all of them -----------------------------------------------------


def _hindrances(platform: str) -> list[str]:
    found = (_pause(platform), _slots(platform), _servers(), _coolify())
    return [sentence for sentence in found if sentence]


def _pause(platform: str) -> str:
    pool = current_pause(platform)
    if pool is None:
        return ""
    until = f"until {time_of(pool.paused_until)}" if pool.paused_until else "until it is resumed"
    name = Platform(platform).label
    return f"{name} is paused by {name_of(pool.paused_by)} {until}: {pool.pause_reason}."


def _slots(platform: str) -> str:
    counted = _count_slots(platform)
    held = counted[SlotStatus.DEPLOYING] + counted[SlotStatus.BUSY]
    others = [
        f"{counted[kind]} {word}"
        for kind, word in (
            (SlotStatus.STOPPING, "stopping"),
            (SlotStatus.ERROR, "in error"),
            (_CORDONED, "cordoned"),
            (SlotStatus.IDLE, "idle"),
        )
        if counted[kind]
    ]
    size = count_of(pool_sizes()[platform], "slot")
    return f"Of at most {size}: {', '.join([f'{held} held', *others])}."


_CORDONED = "idle but cordoned"


def _count_slots(platform: str) -> Counter[str]:
    # Those beyond the size do not count, except while a bot is still in them.
    unused = Q(beyond_size=True, status=SlotStatus.IDLE)
    counted = Slot.objects.filter(platform=platform).exclude(unused)
    slots = counted.values_list("status", "cordoned")
    return Counter(
        _CORDONED if cordoned and status == SlotStatus.IDLE else status
        for status, cordoned in slots
    )


def _servers() -> str:
    out = Server.objects.filter(uuid__in=settings.COOLIFY_SERVER_UUIDS)
    out = out.exclude(state__in=IN_SERVICE).order_by("name")
    states = [f"{server} is {server.get_state_display().lower()}" for server in out]
    return f"Out of service: {', '.join(states)}." if states else ""


def _coolify() -> str:
    """While Coolify is away no slot comes free: stops wait for it, too."""
    budget = Budget.objects.filter(open_until__isnull=False).first()
    if budget is not None:
        since = f" since {time_of(budget.open_since)}" if budget.open_since else ""
        return f"Coolify has not answered{since}: {budget.open_reason}."
    held_back = Budget.objects.filter(paused_until__gt=Now()).first()
    if held_back is not None and held_back.paused_until is not None:
        return f"Coolify asked for a pause until {time_of(held_back.paused_until)}."
    return ""
