"""Capture log lines as parsed JSON."""

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from core.logs import JsonFormatter

OURS = (
    "api",
    "botpool",
    "bots",
    "coolify",
    "core",
    "dashboard",
    "pool",
    "queues",
    "servers",
    "slots",
)


class _Lines(logging.Handler):
    def __init__(self) -> None:
        super().__init__(level=logging.INFO)
        self.setFormatter(JsonFormatter())
        self.lines: list[dict[str, Any]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(json.loads(self.format(record)))


@contextmanager
def log_lines() -> Iterator[list[dict[str, Any]]]:
    handler = _Lines()
    # The project's loggers do not propagate, so a handler on the root logger would see nothing.
    loggers = [logging.getLogger(name) for name in (*OURS, "django.request")]
    for logger in loggers:
        logger.addHandler(handler)
    try:
        yield handler.lines
    finally:
        for logger in loggers:
            logger.removeHandler(handler)
