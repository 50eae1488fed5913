"""Log lines as text for people or JSON for machines, each on one line whatever it contains.

Pass structured data as `extra={"fields": {...}}`.
"""

import json
import logging
import re
from datetime import UTC, datetime

from django.conf import settings

from core.correlation import current_bot, current_correlation_id
from core.sql import is_outage

# C0 and C1 control characters, and Unicode's line separators and changes of direction: text from
# outside must not be able to start a log line of its own, or to show a line in another order.
_ESCAPES = (
    {code: f"\\x{code:02x}" for code in [*range(32), *range(127, 160)]}
    | {code: f"\\u{code:04x}" for code in [*range(0x2028, 0x202F), *range(0x2066, 0x206A)]}
    | {
        10: "\\n",
        13: "\\r",
        9: "\\t",
    }
)


def one_line(text: str) -> str:
    return text.translate(_ESCAPES)


def quoted(text: str) -> str:
    """For text from outside, which must not be able to end the quotation."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


# The path of Coolify's webhook contains its secret, and Django logs the paths that it refuses.
# This also matches near misses, such as a mistyped address.
_SECRET_PATH = re.compile(r"(coolify/+webhook/+).+", re.IGNORECASE)
SHORTEST_SECRET = 8  # a shorter one would match parts of ordinary words


def without_secret(text: str) -> str:
    secret = settings.COOLIFY_WEBHOOK_SECRET
    if len(secret) >= SHORTEST_SECRET:
        text = text.replace(secret, "…")
    return _SECRET_PATH.sub(r"\1…", text)


def _time(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _message(record: logging.LogRecord) -> str:
    return without_secret(one_line(record.getMessage()))


# Lines about a bot or a slot begin with the id of its work; all others end with that of the caller.
_OWN_ID = re.compile(r"(\[(?:Bot|Pool)\] \[corr=)([^\s\]]+)\]")
_LIKE_AN_ID = re.compile(r"corr(?==)", re.IGNORECASE)


def _with_correlation_id(record: logging.LogRecord, message: str) -> str:
    """Exactly one id, and never one from outside: the rest of a line may quote anything."""
    known = current_correlation_id()
    own = _OWN_ID.match(message) if record.name.startswith(("bots", "slots")) else None
    if own:
        shown = known if known and own[2] == "none" else own[2]
        return f"{own[1]}{shown}]{_unlike_an_id(message[own.end() :])}"
    return _unlike_an_id(message) + (f" [corr={known}]" if known else "")


def _unlike_an_id(text: str) -> str:
    return _LIKE_AN_ID.sub(r"\g<0>\\", text)


class WithoutTraceback(logging.Filter):
    """Drops tracebacks that explain nothing: of a refused request, with which any caller could
    fill the log; of a database that is away, which every job meets; and the second one of a job
    that failed, which django-q2 writes into its message. The job has logged the first."""

    def filter(self, record: logging.LogRecord) -> bool:
        is_warning = record.name == "django.request" and record.levelno < logging.ERROR
        error = record.exc_info[1] if record.exc_info else None
        if is_warning or record.name.startswith("django.security."):
            record.exc_info = None
        elif is_outage(error):
            message, reason = record.getMessage(), str(error).strip()
            record.msg = message if reason in message else f"{message}: {reason}"
            record.args, record.exc_info = (), None
        elif record.name == "django-q" and record.levelno == logging.ERROR:
            record.msg = record.getMessage().partition(" : Traceback (most recent call last):")[0]
            record.args = ()
        return True


class RefusalsAsWarnings(logging.Filter):
    """Django logs a suspicious request, such as a filter that the admin does not offer, as an
    error. It was refused: nothing is broken, and any viewer could raise an alarm with it."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.name.startswith("django.security.") and record.levelno == logging.ERROR:
            record.levelno, record.levelname = logging.WARNING, "WARNING"
        return True


class TextFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        message = _with_correlation_id(record, _message(record))
        line = f"{_time(record)} {record.levelname:<7} {message}"
        if record.exc_info:
            # Indented: the text of an error may come from outside.
            for each in without_secret(self.formatException(record.exc_info)).splitlines():
                line += f"\n    {_unlike_an_id(one_line(each))}"
        return line


class JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        entry = {
            "time": _time(record),
            "level": record.levelname,
            "logger": record.name,
            "message": without_secret(record.getMessage()),
            "correlationId": current_correlation_id() or None,
            "bot": current_bot(),
            **{k: v for k, v in getattr(record, "fields", {}).items() if v is not None},
        }
        if record.exc_info:
            entry["exception"] = without_secret(self.formatException(record.exc_info))
        return json.dumps({k: v for k, v in entry.items() if v is not None}, default=str)
