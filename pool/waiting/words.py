"""Words for sentences about waiting."""

from datetime import datetime, timedelta


def count_of(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def ordinal(number: int) -> str:
    """1st, 2nd, 3rd, 4th, but 11th, 12th, 13th."""
    is_teen = number % 100 in (11, 12, 13)
    ending = "th" if is_teen else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def time_of(moment: datetime) -> str:
    """In UTC, to the second. Pages replace it with a time that is easier to read."""
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"


def name_of(actor: str) -> str:
    """An actor of the history for people: "user:otto" is otto, "bot:7" is bot #7."""
    kind, _, name = actor.partition(":")
    shown = {"user": name, "key": f"API key {name}", "bot": f"bot #{name}"}
    return shown.get(kind, actor) if name else actor


def length_of(wait: timedelta) -> str:
    seconds = round(wait.total_seconds())
    return f"{seconds} s" if seconds < 120 else f"{round(seconds / 60)} min"
