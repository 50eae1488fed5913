import time
from datetime import timedelta

import pytest
from django.db import Error, connection, transaction

from core.jobs.ticker import Ticker
from core.sql import is_unavailable

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_process_frozen_in_a_transaction_loses_its_locks_after_the_limit(settings):
    settings.IDLE_TRANSACTION_LIMIT = timedelta(milliseconds=100)
    holder = connection.copy()
    try:
        holder.set_autocommit(False)
        with holder.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(1)")
        with connection.cursor() as cursor:
            # This waits, then gets the lock although the holder never ends its transaction.
            cursor.execute("SELECT pg_advisory_xact_lock(1)")
    finally:
        holder.close()


def freeze_for_too_long(**arguments):
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL idle_in_transaction_session_timeout = '10ms'")
        time.sleep(0.1)
        cursor.execute("SELECT 1")


def test_a_transaction_that_the_server_has_ended_is_no_fault_of_ours():
    """A request whose process was frozen is answered with 503, and can be repeated."""
    with pytest.raises(Error) as error, transaction.atomic():
        freeze_for_too_long()
    connection.close()
    assert is_unavailable(error.value)


def test_a_ticker_that_was_frozen_in_a_pass_goes_on(monkeypatch, caplog):
    ticker = Ticker()
    monkeypatch.setattr("core.jobs.ticker.ask_for_due_jobs", freeze_for_too_long)
    monkeypatch.setattr(ticker.stopping, "wait", lambda pause: ticker.stopping.set())
    ticker.run()
    assert "The ticker lost the database" in caplog.text
