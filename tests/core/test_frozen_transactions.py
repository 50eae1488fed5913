from datetime import timedelta

import pytest
from django.db import connection

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
