"""Statistics of waits for leases, and how long others have tried in vain."""

from datetime import timedelta

import pytest

from core.jobs.jobs import ask
from core.lease_waits import LeaseWait, count_wait, waits
from core.leases import Lease, LeaseNotAcquired, acquire_lease, holding_lease, release_lease

pytestmark = pytest.mark.django_db(transaction=True)

LONG = timedelta(minutes=1)


@pytest.fixture(autouse=True)
def quick(settings):
    settings.LOCK_RETRY_COUNT = 2
    settings.LOCK_RETRY_DELAY = timedelta(milliseconds=20)
    settings.LOCK_RETRY_JITTER = timedelta()


def refused(key="slot:7"):
    with pytest.raises(LeaseNotAcquired), holding_lease(key, ttl=LONG):
        pass


def row(key="slot:7"):
    return Lease.objects.get(key=key)


def test_without_waits_there_are_no_percentiles():
    acquire_lease("slot:7", ttl=LONG)
    assert (waits().total, waits().p50, waits().p95) == (0, None, None)


def test_a_wait_in_vain_is_counted_by_kind():
    acquire_lease("slot:7", ttl=LONG)
    refused()
    [counted] = LeaseWait.objects.all()
    assert (counted.kind, counted.total) == ("slot", 1)
    assert counted.seconds >= 0.04


def test_a_single_try_is_no_wait():
    acquire_lease("slot:7", ttl=LONG)
    with pytest.raises(LeaseNotAcquired):
        acquire_lease("slot:7", ttl=LONG, tries=1)
    assert waits().total == 0


def test_the_percentiles_are_the_bounds_below_which_waits_ended():
    for seconds in [0.05] * 10 + [0.3] * 8 + [1.7] * 2:
        count_wait("slot:7", seconds)
    assert (waits().total, waits().p50, waits().p95) == (20, 0.1, 2.0)


def test_it_is_known_since_when_others_have_tried_in_vain():
    lease = acquire_lease("slot:7", ttl=LONG)
    assert row().refused_since is None
    refused()
    since = row().refused_since
    assert since is not None
    refused()
    assert row().refused_since == since
    release_lease(lease)
    assert row().refused_since is None


def test_a_job_that_is_woken_while_it_runs_counts_too():
    acquire_lease("slot:7", ttl=LONG)
    ask(["slot:7"])
    assert row().refused_since is not None


def test_an_acquisition_ends_it():
    acquire_lease("slot:7", ttl=LONG)
    refused()
    Lease.objects.update(holder="")
    acquire_lease("slot:7", ttl=LONG)
    assert row().refused_since is None
