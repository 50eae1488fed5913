"""A log made fit to keep and to show: without secrets and control characters, and bounded.

A container writes what it likes: escape sequences, NUL bytes, halves of characters, a line of
megabytes, its own token.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from django.conf import settings

from bots.masking import masked_line, without_private_keys
from bots.models import Bot
from bots.secrets.known import without_known_secrets

LINES = 200
LONGEST_LINE = 1_000
# Characters: of what is kept, and of what is looked at.
LARGEST, LARGEST_RAW = 40_000, 500_000

_ESCAPES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # colours, cursor
    r"|\x1b[\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)?"  # titles, links
    r"|\x1b[ -/]*[0-~]?"
)
# Control characters but tab and line feed, marks that reverse or hide text, halves of characters.
_UNFIT = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff]"
)
# Docker writes nanoseconds, Coolify microseconds. Milliseconds are enough.
_TIME = re.compile(r"^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d+)?(?:Z|\+00:00)(?=\s|$)", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class CleanLog:
    text: str
    lines: int
    is_cut: bool  # only its end is left


def clean_log(raw: str, *, bot: Bot | None = None) -> CleanLog:
    """The last lines of a log. The secrets that its bot was given are hidden, too."""
    whole = without_known_secrets(_ESCAPES.sub("", _end_of(raw)), *_our_secrets(), bot=bot)
    given = without_private_keys(whole).rstrip().split("\n")
    fit = [_fit(line) for line in given[-LINES:]]
    kept = _newest(fit)
    is_cut = len(raw) > LARGEST_RAW or len(kept) < len(given)
    text = "\n".join(kept)
    return CleanLog(text=text, lines=len(kept) if text else 0, is_cut=is_cut)


def _end_of(raw: str) -> str:
    """The end, without the line or at least the word that is cut in two."""
    if len(raw) <= LARGEST_RAW:
        return raw
    end = raw[-LARGEST_RAW:]
    found = re.search(r"\n", end) or re.search(r"\s", end)
    return end[found.end() :] if found else ""


def _our_secrets() -> Iterator[str | None]:
    yield settings.SECRET_KEY
    yield from settings.SECRET_KEY_FALLBACKS
    yield settings.COOLIFY_API_TOKEN
    yield settings.COOLIFY_WEBHOOK_SECRET
    yield settings.METRICS_TOKEN
    yield settings.DATABASES["default"].get("PASSWORD")


def _fit(line: str) -> str:
    """One line as a terminal would show it: what a carriage return overwrote is gone."""
    shown = line.rstrip("\r").rpartition("\r")[2]
    cut = _UNFIT.sub("", shown)[: LONGEST_LINE + 1]
    fit = masked_line(cut if len(cut) <= LONGEST_LINE else f"{cut[:LONGEST_LINE]} …")
    return _TIME.sub(lambda time: f"{time[1]}{(time[2] or '')[:4]}Z", fit)


def _newest(lines: list[str]) -> list[str]:
    size = 0
    for number, line in enumerate(reversed(lines)):
        size += len(line) + 1
        if size > LARGEST:
            return lines[len(lines) - number :]
    return lines
