"""What needs an operator's attention now, with the next step for each."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from urllib.parse import urlencode

from django.urls import reverse

from dashboard.overview.cards import Card
from dashboard.overview.health import Part

_REMEDIES = {
    "Worker": "Start one with manage.py worker and check its log.",
    "Ticker": "Start one with manage.py ticker and check its log.",
    "Coolify": "Check that Coolify is up. Running bots are not affected.",
    "Calls": "If this lasts, check what else uses this Coolify.",
}


@dataclass(frozen=True, kw_only=True)
class Attention:
    words: str
    next_step: str
    link: str


def what_needs_attention(*, cards: list[Card], health: Iterable[Part]) -> list[Attention]:
    return [*_faults(health), *(each for card in cards for each in _of_pool(card))]


def _faults(health: Iterable[Part]) -> Iterator[Attention]:
    for part in health:
        if not part.is_well:
            yield Attention(
                words=f"{part.name}: {part.words}",
                next_step=_REMEDIES[part.name],
                link=reverse("activity"),
            )


def _of_pool(card: Card) -> Iterator[Attention]:
    name = card.platform.label
    errors = dict(card.counts)["error"]
    if errors:
        filters = urlencode({"platform": card.platform.value, "status": "error"})
        yield Attention(
            words=f"{name}: {errors} slot{'s' * (errors > 1)} in error",
            next_step="Read the cause, then retry or recreate.",
            link=f"{reverse('slots')}?{filters}",
        )
    if card.paused is not None:
        yield Attention(
            words=f"{name} is paused by {card.paused.paused_by}: {card.paused.pause_reason}",
            next_step="Resume it when the reason is gone.",
            link=reverse("queue"),
        )
    elif card.waiting and not card.room:
        yield _of_full_pool(card, errors=errors)


def _of_full_pool(card: Card, *, errors: int) -> Attention:
    """Suggest a larger pool only if every slot is in service."""
    waiting = f"{card.platform.label}: {card.waiting} waiting,"
    cordoned = sum(cell.cordoned for cell in card.cells)
    out_of_service = f"of {len(card.cells)} slots"
    if cordoned:
        filters = urlencode({"platform": card.platform.value, "cordoned": "yes"})
        return Attention(
            words=f"{waiting} {cordoned} {out_of_service} cordoned",
            next_step="Uncordon the slots that can be used.",
            link=f"{reverse('slots')}?{filters}",
        )
    if errors:
        filters = urlencode({"platform": card.platform.value, "status": "error"})
        return Attention(
            words=f"{waiting} {errors} {out_of_service} in error",
            next_step="Retry or recreate these first.",
            link=f"{reverse('slots')}?{filters}",
        )
    return Attention(
        words=f"{waiting} pool at its maximum size",
        next_step="Increase the pool size if the servers have room.",
        link=f"{reverse('queue')}?platform={card.platform.value}",
    )
