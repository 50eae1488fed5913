"""What adds up from pass to pass, and what is a break."""

from datetime import timedelta

import pytest

from core.clock import database_now
from core.leases import break_lease
from pool.reconciler import reconcile as module
from pool.reconciler.candidate import Candidate, RepairResult
from pool.reconciler.findings import Found, compare_with_earlier, remember
from slots.finding import Finding, FindingKind
from tests.factories import BotFactory

pytestmark = pytest.mark.django_db

SEEN_TWICE = Candidate(
    kind=FindingKind.CRASH_LOOP,
    reason="It crashed ten times",
    application="a",
    repair=lambda: RepairResult(True, "Repaired"),
    times=2,
)


@pytest.fixture
def passes(settings):
    """Passes at these seconds, with an interval of one; the finding of the last."""
    settings.RECONCILE_INTERVAL = timedelta(seconds=1)
    start = database_now()

    def run(*seconds: float) -> Found:
        for each in seconds:
            found = compare_with_earlier([SEEN_TWICE], at=start + timedelta(seconds=each))
            remember(found, checked_for=[SEEN_TWICE.kind])
        return found[0]

    return run


def test_what_is_seen_once_is_not_enough(passes):
    assert not passes(0).is_due


def test_a_long_pass_is_no_break(passes):
    """The repairs of one pass may take as long as many intervals."""
    assert passes(0, 25).is_due


def test_after_a_break_it_counts_from_the_start(passes):
    found = passes(0, 1, 60)
    assert (found.is_due, found.finding.sightings) == (False, 1)


# --- Two passes --------------------------------------------------------------------------------


@pytest.mark.django_db(transaction=True)
def test_a_pass_that_was_frozen_leaves_the_findings_to_the_one_that_took_over(monkeypatch):
    monkeypatch.setattr(module, "observe", lambda coolify: None)
    BotFactory(status="QUEUED", previous_status="PENDING")  # in no line
    others = []

    def frozen(*arguments, **named):
        found = compare_with_earlier(*arguments, **named)
        if not others:
            others.append(True)
            break_lease(module.LEASE)
            others.append(module.reconcile())
        return found

    monkeypatch.setattr(module, "compare_with_earlier", frozen)
    late = module.reconcile()
    assert (late.skipped, others[1].skipped) == ("Another pass has taken over", "")
    assert Finding.objects.count() == 1
