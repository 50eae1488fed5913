import json
import logging

import pytest

from botpool.logs import JsonFormatter, TextFormatter
from coolify.correlation import correlated


def record(message, **fields):
    made = logging.LogRecord("slots", logging.INFO, __file__, 1, message, (), None)
    made.fields = fields
    return made


def test_a_text_line_has_its_time_in_utc_and_its_correlation_id():
    with correlated("abc"):
        line = TextFormatter().format(record("Slot idle"))
    assert line.endswith("INFO    Slot idle [corr=abc]")
    assert line.split()[0].endswith("Z")


def test_a_correlation_id_is_not_said_twice():
    with correlated("abc"):
        line = TextFormatter().format(record("[Pool] [corr=xyz] Slot idle"))
    assert line.count("corr=") == 1


def test_a_json_line_holds_the_fields_and_leaves_out_what_is_empty():
    with correlated("abc"):
        entry = json.loads(JsonFormatter().format(record("Slot idle", slot="pool-1", bot=None)))
    assert (entry["slot"], entry["correlationId"], entry["level"]) == ("pool-1", "abc", "INFO")
    assert "bot" not in entry


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n", "\u2028", "\x0b", "\x85", "\x1b[2J"])
def test_nobody_can_start_a_line_of_their_own(end):
    forged = f"reason{end}2026-01-01 ERROR all slots deleted"
    line = TextFormatter().format(record(forged))
    assert len(line.splitlines()) == 1
    assert "\x1b" not in line
    assert len(JsonFormatter().format(record(forged)).splitlines()) == 1
