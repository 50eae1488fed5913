"""The words of a message: one line for each thing, with a link, and never more than a few."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from django.conf import settings

from dashboard.notifications.rules import Item, News

MOST_LISTED = 10
LONGEST_WORDS = 300
_HEADINGS = {News.NEW: "New", News.STILL: "Still open", News.RESOLVED: "Resolved"}


def title_of(items: Sequence[Item]) -> str:
    if len(items) == 1:
        before = "resolved: " if items[0].news == News.RESOLVED else ""
        return _shortened(f"Botpool, {before}{items[0].condition.words}", 200)
    resolved = sum(item.news == News.RESOLVED for item in items)
    if resolved == len(items):
        return f"Botpool: {resolved} things are resolved"
    number = len(items) - resolved
    needs = f"{number} things need" if number > 1 else "1 thing needs"
    return f"Botpool: {needs} attention" + (f", {resolved} resolved" if resolved else "")


def body_of(items: Sequence[Item]) -> str:
    listed, lines = items[:MOST_LISTED], []
    for news, heading in _HEADINGS.items():
        of_it = [_line(item) for item in listed if item.news == news]
        lines += [f"{heading}:", *of_it, ""] if of_it else []
    more = len(items) - len(listed)
    lines.append(f"{f'And {more} more. ' if more else ''}All of it: {_address('/notifications/')}")
    return "\n".join(lines)


def facts_of(items: Sequence[Item]) -> list[dict[str, Any]]:
    """For programs: what a webhook gets."""
    return [
        {
            "news": item.news.value,
            "code": item.condition.code,
            "severity": item.condition.severity.value,
            "platform": item.condition.platform or None,
            "subject": item.condition.subject or None,
            "message": item.condition.words,
            "since": item.condition.first_seen_at.isoformat().replace("+00:00", "Z"),
            "url": _address(item.condition.link),
        }
        for item in items
    ]


def _line(item: Item) -> str:
    condition = item.condition
    seen = condition.resolved_at or condition.last_seen_at
    lasted = _minutes(condition.lasted(at=seen))
    words = _shortened(condition.words, LONGEST_WORDS)
    return f"- {words} (for {lasted}) {_address(condition.link)}"


def _minutes(lasted: timedelta) -> str:
    minutes = int(lasted.total_seconds() // 60)
    if minutes < 1:
        return "less than a minute"
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h"


def _shortened(text: str, most: int) -> str:
    text = " ".join(text.split())
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _address(link: str) -> str:
    return f"{settings.PUBLIC_URL}{link}"
