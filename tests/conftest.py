"""What holds for all tests: quick starts, ends and hashes, and patience with a busy machine."""

from django.conf import settings
from django.db import connection, transaction
from django.test import TransactionTestCase

from core import locks

# Made by post_migrate, and changed by no test that commits.
KEPT = {"auth_group", "auth_group_permissions", "auth_permission", "django_content_type"}


def empty_tables(case: TransactionTestCase) -> None:
    """Delete the rows of a test that committed them.

    Django truncates all tables and makes all permissions anew, which takes forty times as long.
    """
    existing = connection.introspection.django_table_names(only_existing=True, include_views=False)
    quoted = [connection.ops.quote_name(name) for name in existing if name not in KEPT]
    filled = " UNION ALL ".join(
        f"SELECT '{name}' WHERE EXISTS (SELECT FROM {name})" for name in quoted
    )
    with transaction.atomic(), connection.cursor() as cursor:
        # Waits for the transactions of a test's threads: what they commit is deleted as well.
        cursor.execute(f"LOCK TABLE {', '.join(quoted)} IN EXCLUSIVE MODE")
        cursor.execute(filled)
        # Without foreign keys, and without the triggers that keep histories.
        deletes = [f"DELETE FROM {name}" for (name,) in cursor.fetchall()]
        cursor.execute("; ".join(["SET LOCAL session_replication_role = replica", *deletes]))


TransactionTestCase._fixture_teardown = empty_tables
# Most tests are one transaction, which would keep the limit of the first lock in it.
locks._LOCK_WITHIN = locks._LOCK_WITHIN.replace("'5s'", "'60s'")
settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
# Each test client would list all static files, which takes longer than a request.
settings.WHITENOISE_AUTOREFRESH = True
