"""Template filters for times, durations and states."""

import re
from datetime import datetime, timedelta
from typing import Any

from django import template
from django.http import QueryDict
from django.utils.html import escape, format_html
from django.utils.safestring import SafeString, mark_safe

from bots.meetings import masked_address
from core.administration.badges import badge
from dashboard.clients.addresses import webhook_address
from dashboard.overview.cells import LETTERS
from pool.waiting.words import name_of
from slots.models import Slot
from slots.status import ContainerStatus, SlotStatus

register = template.Library()

register.filter("badge", badge)
register.filter("by", name_of)
register.filter("webhook_address", webhook_address)
register.filter("meeting_address", masked_address)


@register.filter
def container(slot: Slot) -> SafeString | str:
    """The container as last observed. A reading from before the slot's bot is no fact about it,
    and one that contradicts the slot looks like it."""
    if slot.container_is_of_before or _was_seen_before_it_ran(slot):
        return mark_safe('<span class="soft">not observed yet</span>')
    if slot.status == SlotStatus.BUSY and slot.container_status != ContainerStatus.RUNNING:
        words = slot.get_container_status_display().lower()
        return format_html('<span class="badge error">{}</span>', words)
    return badge(slot.container_status)


def _was_seen_before_it_ran(slot: Slot) -> bool:
    seen = slot.container_seen_at
    return (
        slot.status == SlotStatus.BUSY
        and slot.container_status != ContainerStatus.RUNNING
        and (seen is None or seen < slot.status_since)
    )


@register.filter
def letter(status: str) -> str:
    return LETTERS.get(status, "?")


# --- Times: in UTC, and the page's script shows them in the reader's zone -------------------------


@register.filter
def ago(moment: datetime | None) -> SafeString | str:
    """The script shows "46 s ago" and keeps that up to date."""
    return _time(moment, kind="ago") if moment else "–"


@register.filter
def age(moment: datetime | None) -> SafeString | str:
    """Like `ago`, but "46 s"."""
    return _time(moment, kind="age") if moment else "–"


@register.filter
def lasting(moment: datetime | None) -> SafeString | str:
    """Like `ago`, but "for 46 s"; without the script "since" and the time."""
    return _time(moment, kind="for", before="since ") if moment else "–"


@register.filter
def until(moment: datetime | None) -> SafeString | str:
    return _time(moment, kind="until") if moment else "–"


@register.filter
def clock(moment: datetime | None) -> SafeString | str:
    return _time(moment, kind="clock") if moment else "–"


def _time(moment: datetime, *, kind: str, before: str = "") -> SafeString:
    return format_html(
        '<time datetime="{}" data-{}="">{}{} UTC</time>',
        moment.strftime("%Y-%m-%dT%H:%M:%SZ"),
        kind,
        before,
        moment.strftime("%d %b %H:%M:%S"),
    )


@register.filter
def readable(sentence: str) -> SafeString:
    """The sentence with times as elements: "since 2025-12-16T21:30:00Z" becomes "for 46 s", and
    "at …" counts down to a time that is ahead."""
    return mark_safe(_TIMESTAMP.sub(_shown_time, escape(sentence)))  # noqa: S308 (escaped)


_TIMESTAMP = re.compile(
    r"\b(?P<word>since |at )?(?P<time>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)", re.ASCII
)
_KINDS = {"since ": "for", "at ": "at"}


def _shown_time(found: re.Match[str]) -> str:
    word = found["word"] or ""
    try:
        moment = datetime.fromisoformat(found["time"])
    except ValueError:  # no such date
        return found[0]
    return _time(moment, kind=_KINDS.get(word, "clock"), before=word)


@register.filter
def lasted(duration: timedelta | float | None) -> str:
    """A duration in its two largest units."""
    if duration is None:
        return "–"
    seconds = duration.total_seconds() if isinstance(duration, timedelta) else duration
    if seconds < 10:
        return f"{seconds:.1f} s"
    parts = _units(round(seconds))
    return " ".join(f"{number} {unit}" for number, unit in parts[:2] if number)


@register.filter
def percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.0f} %"


def _units(seconds: int) -> list[tuple[int, str]]:
    days, rest = divmod(seconds, 86_400)
    hours, rest = divmod(rest, 3_600)
    minutes, seconds = divmod(rest, 60)
    parts = [(days, "d"), (hours, "h"), (minutes, "min"), (seconds, "s")]
    first = next((index for index, (number, _) in enumerate(parts) if number), 3)
    return parts[first:]


@register.simple_tag(takes_context=True)
def query(context: dict[str, Any], **changes: Any) -> str:
    """The query string with these parameters changed. An empty value removes its parameter."""
    given: QueryDict = context["request"].GET.copy()
    given.pop("live", None)
    for name, value in changes.items():
        given[name] = str(value)
        if value in ("", None):
            del given[name]
    return f"?{given.urlencode()}"


@register.filter
def get(given: QueryDict, name: str) -> str:
    return given.get(name, "")


@register.filter
def since(later: datetime, earlier: datetime) -> timedelta:
    return later - earlier


@register.filter
def minus(number: int, other: int) -> int:
    return number - other
