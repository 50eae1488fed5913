"""How times, durations and states look on every page."""

from datetime import datetime, timedelta
from typing import Any

from django import template
from django.http import QueryDict
from django.utils.html import format_html
from django.utils.safestring import SafeString

register = template.Library()

# A letter beside the colour, for those who do not tell colours apart.
LETTERS = {
    "idle": "I",
    "deploying": "D",
    "busy": "B",
    "stopping": "S",
    "error": "E",
}

# The look of every other state is that of the slot's state it is closest to.
TONES = {
    "PENDING": "waiting",
    "QUEUED": "waiting",
    "DEPLOYING": "deploying",
    "JOINING_CALL": "busy",
    "IN_WAITING_ROOM": "busy",
    "IN_CALL": "busy",
    "LEAVING": "stopping",
    "DONE": "idle",
    "FAILED": "error",
    "CANCELLED": "stopping",
    "waiting_for_image": "waiting",
    "waiting_for_place": "waiting",
    "starting": "deploying",
    "in_progress": "deploying",
    "finished": "idle",
    "failed": "error",
    "timed_out": "error",
    "cancelled": "stopping",
    "RUNNING": "busy",
    "STOPPED": "idle",
    "CRASHING": "error",
    "IDLE": "idle",
}


@register.filter
def badge(status: str) -> SafeString:
    tone = TONES.get(status, status)
    words = status.replace("_", " ").lower()
    return format_html('<span class="badge {}">{}</span>', tone, words)


@register.filter
def letter(status: str) -> str:
    return LETTERS.get(status, "?")


@register.filter
def ago(moment: datetime | None) -> SafeString | str:
    """The time in UTC; the page's script shows its age instead, and keeps it up to date."""
    return _time(moment, kind="ago") if moment else "–"


@register.filter
def age(moment: datetime | None) -> SafeString | str:
    """Like `ago`, for "since …": its age without the word ago."""
    return _time(moment, kind="age") if moment else "–"


@register.filter
def until(moment: datetime | None) -> SafeString | str:
    return _time(moment, kind="until") if moment else "–"


@register.filter
def clock(moment: datetime | None) -> SafeString | str:
    return _time(moment, kind="clock") if moment else "–"


def _time(moment: datetime, *, kind: str) -> SafeString:
    return format_html(
        '<time datetime="{}" data-{}="">{}</time>',
        moment.strftime("%Y-%m-%dT%H:%M:%SZ"),
        kind,
        moment.strftime("%d %b %H:%M:%S"),
    )


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
    """The address's parameters with these changed; an empty one is left out."""
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
