"""What each unfinished bot waits for: a code for machines and one sentence for people.

Decided by rows and their codes alone. No sentence is read to make another.
"""

from collections.abc import Iterable

from bots.models import Bot
from bots.status import BotStatus, Platform
from pool.waiting.codes import WaitingCode, WaitingFor
from pool.waiting.position import Place, place_in_line, places_in_line
from pool.waiting.start_waits import TO_BE_STARTED, start_waits_for
from pool.waiting.starts import Surroundings, is_about_to_start, starts_of
from pool.waiting.words import length_of, ordinal, time_of

__all__ = [
    "WaitingCode",
    "WaitingFor",
    "each_start_waits_for",
    "waiting_for",
    "waiting_for_each",
]


def waiting_for(bot: Bot, *, place: Place | None = None) -> WaitingFor | None:
    """None if the bot is in its call or has ended, or has moved on since it was read. `place`: in
    the queue, where the caller knows it."""
    if bot.status == BotStatus.QUEUED:
        place = place or place_in_line(bot)
        return _slot(bot, place) if place else None
    if bot.status == BotStatus.DEPLOYING and is_about_to_start(bot.pk):
        return TO_BE_STARTED
    return waiting_for_each([bot]).get(bot.pk)


def waiting_for_each(bots: Iterable[Bot]) -> dict[int, WaitingFor]:
    """The same for many, by the bots' ids. The number of queries does not grow with theirs."""
    bots = list(bots)
    by_status: dict[str, list[Bot]] = {}
    for bot in bots:
        by_status.setdefault(bot.status, []).append(bot)
    waiting = {bot.pk: _TO_BE_PLACED for bot in by_status.get(BotStatus.PENDING, [])}
    waiting |= {bot.pk: _in_meeting(bot) for bot in bots if bot.status in _IN_MEETING}
    waiting |= _each_queued(by_status.get(BotStatus.QUEUED, []))
    deploying = by_status.get(BotStatus.DEPLOYING, [])
    return waiting | each_start_waits_for(bot.pk for bot in deploying)


def each_start_waits_for(bot_ids: Iterable[int]) -> dict[int, WaitingFor]:
    """For those of these bots that have a slot and do not run in it yet."""
    bot_ids = list(bot_ids)
    starts = starts_of(bot_ids) if bot_ids else {}
    around = Surroundings(start.deployment.server_uuid for start in starts.values())
    return {bot_id: start_waits_for(start, around) for bot_id, start in starts.items()}


# --- A slot -----------------------------------------------------------------------------------

_TO_BE_PLACED = WaitingFor(WaitingCode.SLOT, "The bot is about to get a slot or join the queue.")


def _each_queued(bots: list[Bot]) -> dict[int, WaitingFor]:
    places: dict[int, Place] = {}
    for platform in {bot.platform for bot in bots}:
        places |= places_in_line(platform)
    return {bot.pk: _slot(bot, places[bot.pk]) for bot in bots if bot.pk in places}


def _slot(bot: Bot, place: Place) -> WaitingFor:
    name, rank = Platform(bot.platform).label, ordinal(place.position)
    if place.paused is None:
        code, line = WaitingCode.SLOT, f"{rank} in the {name} queue{_expected(place)}"
    else:
        until = place.paused.paused_until
        pause = f"{name} is paused until {time_of(until) if until else 'it is resumed'}"
        code, line = WaitingCode.PAUSED, f"{pause}; {rank} in the queue"
    if place.coolify_away_since is not None:
        line = f"{line}; Coolify has not answered since {time_of(place.coolify_away_since)}"
    message = f"{_again(bot)}{line}; the bot gives up {_gives_up(place)}."
    return WaitingFor(code, message, place.position, place.slot_expected_at)


def _again(bot: Bot) -> str:
    if not bot.placements:
        return ""
    where = f" in {bot.slot_name}" if bot.slot_name else ""
    return f"Its start{where} failed and it is placed again: "


def _expected(place: Place) -> str:
    wait = place.wait_for_slot
    return f", a slot in about {length_of(wait)}" if wait is not None else ""


def _gives_up(place: Place) -> str:
    before = "before that, " if place.gives_up_before_its_turn else ""
    return f"{before}at {time_of(place.gives_up_at)}"


# --- The meeting ------------------------------------------------------------------------------

_IN_MEETING = {
    BotStatus.JOINING_CALL: (
        WaitingCode.JOINING,
        "The container runs; the bot has been joining the call since {}.",
    ),
    BotStatus.IN_WAITING_ROOM: (
        WaitingCode.ADMISSION,
        "In the meeting's waiting room since {}: a participant has to admit it.",
    ),
    BotStatus.LEAVING: (WaitingCode.LEAVING, "The bot has been leaving the call since {}."),
}


def _in_meeting(bot: Bot) -> WaitingFor:
    code, sentence = _IN_MEETING[BotStatus(bot.status)]
    return WaitingFor(code, sentence.format(time_of(bot.status_since)))
