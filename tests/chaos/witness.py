"""`python -m tests.chaos.witness`: takes one lease again and again, and writes under it.

One on each node, frozen and cut off like everything else there. What a lease protects in Botpool
is protected by epochs, too: what they write shows whether the lease alone would have done.
"""

import os
import random
import time

import django
from django.db import Error, connection

LONGEST_WORK = 1.0  # seconds; half the lease


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "botpool.settings")
    django.setup()
    from slots.leases import LeaseLost, LeaseNotAcquired

    while True:
        try:
            bear_witness()
        except (LeaseLost, LeaseNotAcquired):
            time.sleep(0.1)
        except Error:
            connection.close()
            time.sleep(0.5)


def bear_witness() -> None:
    from django.conf import settings

    from slots.leases import holding_lease

    with holding_lease("chaos:witness", ttl=settings.LOCK_TTL, tries=1) as lease:
        time.sleep(random.uniform(0.1, LONGEST_WORK))
        with lease.fenced(), connection.cursor() as cursor:
            cursor.execute("INSERT INTO chaos_witness (fence) VALUES (%s)", [lease.fence])


if __name__ == "__main__":
    main()
