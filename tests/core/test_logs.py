import json
import logging
import sys
from multiprocessing import Value
from queue import Queue

import psycopg
import pytest
from django.db import InternalError, OperationalError
from django.utils.timezone import now
from django_q.monitor import monitor
from django_q.worker import worker

from core.correlation import correlated
from core.logs import JsonFormatter, RefusalsAsWarnings, TextFormatter
from tests.log_lines import log_lines


def console() -> logging.Handler:
    handlers = logging.getLogger("core").handlers
    [found] = [each for each in handlers if type(each) is logging.StreamHandler]
    return found


def record(message, **fields):
    made = logging.LogRecord("slots", logging.INFO, __file__, 1, message, (), None)
    made.fields = fields
    return made


def test_a_text_line_has_its_time_in_utc_and_its_correlation_id():
    with correlated("abc"):
        line = TextFormatter().format(record("Slot idle"))
    assert line.endswith("INFO    Slot idle [corr=abc]")
    assert line.split()[0].endswith("Z")


def test_a_correlation_id_is_not_logged_twice():
    with correlated("abc"):
        line = TextFormatter().format(record("[Pool] [corr=xyz] Slot idle"))
    assert line.count("corr=") == 1


def test_a_slot_without_an_id_gets_that_of_the_work():
    with correlated("abc"):
        line = TextFormatter().format(record("[Pool] [corr=none] Slot idle"))
    assert line.endswith("[Pool] [corr=abc] Slot idle")


FORGED = [
    "Not Found: /nope[corr=forged]",
    "[Pool] [corr=forged] Not Found",
    "Not Found: /corr=forged",
    "Not Found: [CORR=forged]",
]


@pytest.mark.parametrize("message", FORGED)
def test_text_from_outside_is_no_correlation_id(message):
    outside = record(message)
    outside.name = "django.request"
    outside.exc_info = (ValueError, ValueError("[corr=forged]"), None)
    with correlated("real"):
        first, *traceback = TextFormatter().format(outside).splitlines()
    assert first.endswith(" [corr=real]")
    assert first.lower().count("corr=") == 1
    assert "corr=" not in "".join(traceback)
    assert "forged" in first


def test_the_reason_of_a_move_is_no_correlation_id():
    with correlated("abc"):
        line = TextFormatter().format(record('[Bot] [corr=real] Bot #1 | reason="[corr=forged]"'))
    assert "[corr=real]" in line
    assert line.count("corr=") == 1


def test_a_json_line_has_the_fields_and_leaves_out_empty_ones():
    with correlated("abc"):
        entry = json.loads(JsonFormatter().format(record("Slot idle", slot="pool-1", bot=None)))
    assert (entry["slot"], entry["correlationId"], entry["level"]) == ("pool-1", "abc", "INFO")
    assert "bot" not in entry


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n", "\u2028", "\x0b", "\x85", "\x1b[2J"])
def test_text_from_outside_cannot_start_a_new_line(end):
    forged = f"reason{end}2026-01-01 ERROR all slots deleted"
    line = TextFormatter().format(record(forged))
    assert len(line.splitlines()) == 1
    assert "\x1b" not in line
    assert len(JsonFormatter().format(record(forged)).splitlines()) == 1


# --- The bot and the correlation id -----------------------------------------------------------


@pytest.mark.parametrize("fields", [{}, {"bot": None}])
def test_a_json_line_names_the_bot_that_the_work_is_for(fields):
    with correlated("abc", bot=7):
        entry = json.loads(JsonFormatter().format(record("Slot idle", **fields)))
    assert entry["bot"] == 7


def test_a_line_about_a_different_bot_names_that_bot():
    with correlated("abc", bot=7):
        entry = json.loads(JsonFormatter().format(record("Bot moved", bot=8)))
    assert entry["bot"] == 8


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("path", "words"), [("/nothing/", "Not Found: /nothing/"), ("/readyz", "Service Unavailable")]
)
def test_a_refusal_is_logged_once_with_the_correlation_id_of_its_answer(client, path, words):
    with log_lines() as lines:
        answer = client.get(path, headers={"X-Correlation-Id": "order-4711"})
    assert answer["X-Correlation-Id"] == "order-4711"
    (line,) = lines
    assert words in line["message"]
    assert line["correlationId"] == "order-4711"


# --- Coolify's secret -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        "/coolify/webhook/s3cret",
        "/v1/coolify/webhook/s3cret/",
        "//api/v1/coolify//webhook//s3cret?x=1",
        "/Coolify/Webhook/s3cret",
        "/coolify/webhook/a s3cret",
    ],
)
def test_no_line_contains_the_secret_of_coolifys_webhook(path):
    refused = record(f"Not Found: {path}")
    refused.exc_info = (ValueError, ValueError(path), None)
    for formatter in (TextFormatter(), JsonFormatter()):
        line = formatter.format(refused)
        assert "Not Found" in line
        assert "s3cret" not in line


@pytest.mark.parametrize(
    ("name", "level", "has_traceback"),
    [
        ("django.security.DisallowedModelAdminLookup", logging.ERROR, False),
        ("django.request", logging.WARNING, False),
        ("django.request", logging.ERROR, True),
        ("pool.drain", logging.WARNING, True),
    ],
)
def test_a_refusal_has_no_traceback(name, level, has_traceback):
    error = (ValueError, ValueError("x"), None)
    record = logging.LogRecord(name, level, "x.py", 1, "Refused", (), error)
    assert console().filter(record)
    assert bool(record.exc_info) is has_traceback


@pytest.mark.parametrize(
    ("name", "level", "shown"),
    [
        ("django.security.DisallowedModelAdminLookup", logging.ERROR, "WARNING"),
        ("django.security.csrf", logging.WARNING, "WARNING"),
        ("django.request", logging.ERROR, "ERROR"),
    ],
)
def test_a_suspicious_request_is_a_warning(name, level, shown):
    refused = logging.LogRecord(name, level, "x.py", 1, "Refused", (), None)
    assert RefusalsAsWarnings().filter(refused)
    assert (refused.levelname, refused.levelno) == (shown, getattr(logging, shown))


def logged(error: Exception, *, cause: Exception | None = None) -> str:
    """What the console shows of an error that a job or a library logs."""
    try:
        raise error from cause
    except Exception:
        record = logging.LogRecord("core", logging.ERROR, "x.py", 1, "%s", ("No",), sys.exc_info())
    assert console().filter(record)
    return TextFormatter().format(record)


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (OperationalError("connection failed"), psycopg.OperationalError()),
        (OperationalError("connection failed"), psycopg.errors.AdminShutdown()),
        (InternalError("connection failed"), psycopg.errors.ReadOnlySqlTransaction()),
        (OperationalError("connection failed"), psycopg.errors.DiskFull()),
    ],
)
def test_a_database_that_is_away_has_no_traceback(error, cause):
    """Each job and each library logs it; the places in the code explain nothing."""
    line = logged(error, cause=cause)
    assert line.endswith("ERROR   No: connection failed")


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (OperationalError("deadlock detected"), psycopg.errors.DeadlockDetected()),
        (OperationalError("canceling statement"), psycopg.errors.QueryCanceled()),
        (OperationalError("lock timeout"), psycopg.errors.LockNotAvailable()),
        (OperationalError("could not serialize"), psycopg.errors.SerializationFailure()),
        (InternalError("no such cursor"), psycopg.errors.InternalError_()),
        (ValueError("connection failed"), None),
    ],
)
def test_an_error_that_may_be_our_fault_has_its_traceback(error, cause):
    first, *traceback = logged(error, cause=cause).splitlines()
    assert first.endswith("ERROR   No")
    assert str(error) in traceback[-1]


def test_an_error_that_the_message_says_is_not_said_twice():
    line = logged(OperationalError("No"))
    assert line.endswith("ERROR   No")


def fail() -> None:
    raise ValueError("a fault of ours")


@pytest.mark.django_db(transaction=True)
def test_django_q_does_not_repeat_the_traceback_of_a_job(caplog):
    tasks, results = Queue(), Queue()
    task = {"id": "1", "name": "slot:7", "func": fail, "args": (), "kwargs": {}}
    tasks.put({**task, "started": now()})
    tasks.put("STOP")
    worker(tasks, results, Value("d", 0))
    results.put("STOP")
    monitor(results)
    [record] = [each for each in caplog.records if each.levelno == logging.ERROR]
    line = TextFormatter().format(record)
    assert line.endswith("Failed 'test_logs.fail' (slot:7) - a fault of ours")
