"""What the governor grants, refuses and records. The tests age the row to let time pass."""

from datetime import timedelta

import pytest
from django.db import connection, transaction
from django.db.models import F

from coolify.budget.governor import Circuit, Governor, allowance
from coolify.budget.report import budget_report
from coolify.client import Coolify
from coolify.client.calls import Call, CallClass, Outcome
from coolify.client.errors import (
    BudgetExhausted,
    CircuitOpen,
    CoolifyError,
    MalformedAnswer,
    NotFound,
    RateLimited,
    Unavailable,
    Unreachable,
)
from coolify.models import Budget
from coolify.shared import shared_coolify

pytestmark = pytest.mark.django_db

OBSERVE = Call("deployments", CallClass.OBSERVE, "GET", "/deployments")
START = Call("start", CallClass.URGENT, "POST", "/applications/a/start")
LIST = Call("applications", CallClass.WATCH, "GET", "/applications")
DESCRIBE = Call("update_application", CallClass.TEXT, "PATCH", "/applications/a")

GOOD = Outcome(seconds=0.1, status=200)


class NeverMind(Exception):
    """Raised to roll back what a test has broken."""


@pytest.fixture
def governor():
    return Governor()


@pytest.fixture(autouse=True)
def a_limit_of_twelve(settings):
    settings.COOLIFY_RATE_LIMIT = 12


def spend(governor, call=OBSERVE, *, times=1):
    return [governor.before(call) for _ in range(times)]


def granted_until_refused(governor, call):
    granted = 0
    while granted < 1000:
        try:
            governor.before(call)
        except BudgetExhausted:
            return granted
        granted += 1
    raise AssertionError("never refused")


def failed(error):
    return Outcome(seconds=0.1, status=error.status, error=error)


def fail(governor, error, call=LIST):
    governor.after(call, failed(error), governor.before(call))


def let_pass(seconds):
    """Move every time in the row into the past by that much."""
    ago = timedelta(seconds=seconds)
    Budget.objects.update(
        ring_second=F("ring_second") - seconds,
        paused_until=F("paused_until") - ago,
        open_until=F("open_until") - ago,
        probe_until=F("probe_until") - ago,
    )


# --- The limit ------------------------------------------------------------------------------


def test_no_more_than_the_limit_is_granted(governor):
    assert granted_until_refused(governor, OBSERVE) == 12


def test_a_refusal_says_when_to_come_back_and_why(governor):
    spend(governor, times=12)
    with pytest.raises(BudgetExhausted, match="COOLIFY_RATE_LIMIT") as caught:
        governor.before(OBSERVE)
    assert caught.value.reason == "limit"
    assert 50 < caught.value.retry_after <= 62
    assert not caught.value.permanent


def test_a_call_counts_for_a_minute(governor):
    spend(governor, times=12)
    let_pass(58)
    with pytest.raises(BudgetExhausted):
        governor.before(OBSERVE)
    let_pass(4)
    assert granted_until_refused(governor, OBSERVE) == 12


def test_the_window_slides(governor):
    spend(governor, times=6)
    let_pass(40)
    spend(governor, times=6)
    let_pass(22)
    # The first six are a minute old, the others are not.
    assert granted_until_refused(governor, OBSERVE) == 6


def test_the_wait_lasts_until_enough_calls_have_expired(governor):
    spend(governor, times=4)
    let_pass(40)
    spend(governor, times=5)
    with pytest.raises(BudgetExhausted) as for_watch:
        governor.before(LIST)
    with pytest.raises(BudgetExhausted) as for_text:
        governor.before(DESCRIBE)
    # Watch calls (9 of 12) have room once the first call expires, text calls (6 of 12) once the
    # first four do. Those four were made in the same second.
    assert for_watch.value.retry_after == pytest.approx(for_text.value.retry_after, abs=2)
    assert 10 < for_watch.value.retry_after <= 22


def test_waiting_for_the_time_given_is_enough(governor):
    spend(governor, times=12)
    with pytest.raises(BudgetExhausted) as caught:
        governor.before(OBSERVE)
    let_pass(int(caught.value.retry_after) + 1)
    governor.before(OBSERVE)


def test_a_clock_that_is_set_back_does_not_freeze_the_budget(governor):
    spend(governor, times=12)
    let_pass(-3600)
    with pytest.raises(BudgetExhausted) as caught:
        governor.before(OBSERVE)
    assert caught.value.retry_after <= 62


def test_a_limit_of_one_serves_every_class(governor, settings):
    settings.COOLIFY_RATE_LIMIT = 1
    for call in (DESCRIBE, LIST, START, OBSERVE):
        governor.before(call)
        let_pass(70)


def test_a_changed_limit_applies_at_once(governor, settings):
    spend(governor, times=12)
    settings.COOLIFY_RATE_LIMIT = 15
    assert granted_until_refused(governor, OBSERVE) == 3


# --- The classes ----------------------------------------------------------------------------


def test_each_class_leaves_a_reserve_for_the_classes_before_it(governor):
    assert granted_until_refused(governor, DESCRIBE) == 6
    assert granted_until_refused(governor, LIST) == 3
    assert granted_until_refused(governor, START) == 2
    assert granted_until_refused(governor, OBSERVE) == 1


def test_starts_and_stops_never_use_up_what_their_observation_needs(governor, settings):
    settings.COOLIFY_RATE_LIMIT = 180
    assert granted_until_refused(governor, START) == 162
    assert granted_until_refused(governor, LIST) == 0
    assert granted_until_refused(governor, OBSERVE) == 18


@pytest.mark.parametrize("limit", [1, 2, 3, 180, 100_000])
def test_every_class_may_make_a_call_and_observation_may_make_all(limit):
    allowed = [allowance(call_class, limit=limit) for call_class in CallClass]
    assert allowed[0] == limit
    assert allowed == sorted(allowed, reverse=True)
    assert allowed[-1] >= 1


# --- The cost -------------------------------------------------------------------------------


def test_a_call_costs_one_round_trip_and_its_success_none(governor, django_assert_num_queries):
    spend(governor)
    with django_assert_num_queries(1):
        permit = governor.before(START)
    with django_assert_num_queries(0):
        governor.after(START, GOOD, permit)


def test_headers_with_nothing_new_cost_no_query(governor, django_assert_num_queries):
    told = Outcome(seconds=0.1, status=200, limit=200, remaining=190)
    governor.after(START, told, governor.before(START))
    permit = governor.before(START)
    with django_assert_num_queries(0):
        governor.after(START, told, permit)


def test_an_interrupted_call_costs_no_query(governor, django_assert_num_queries):
    permit = governor.before(START)
    with django_assert_num_queries(0):
        governor.after(START, Outcome(seconds=0.1), permit)


def test_an_answer_is_not_lost_if_the_budget_cannot_be_written(governor, caplog):
    permit = governor.before(START)
    with pytest.raises(NeverMind), transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("ALTER FUNCTION coolify_settle RENAME TO coolify_settle_is_gone")
        governor.after(START, failed(DOWN), permit)
        raise NeverMind
    assert "could not record how start ended" in caplog.text


# --- Other programs that share the limit ----------------------------------------------------


def test_calls_by_other_programs_count(governor):
    permit = governor.before(START)
    governor.after(START, Outcome(seconds=0.1, status=200, limit=200, remaining=4), permit)
    assert granted_until_refused(governor, OBSERVE) == 4
    assert budget_report().spent_by_others == 7


def test_a_higher_limit_at_coolify_does_not_raise_ours(governor):
    permit = governor.before(START)
    governor.after(START, Outcome(seconds=0.1, status=200, limit=200, remaining=199), permit)
    assert granted_until_refused(governor, OBSERVE) == 11
    assert budget_report().spent_by_others == 0


def test_a_late_answer_does_not_count_our_own_calls_as_calls_by_others(governor, settings):
    settings.COOLIFY_RATE_LIMIT = 10
    permit = governor.before(START)
    spend(governor, times=5)
    # Coolify has counted all six by the time it answers the first.
    governor.after(START, Outcome(seconds=5, status=200, limit=10, remaining=4), permit)
    assert budget_report().spent_by_others == 0


# --- 429 ------------------------------------------------------------------------------------


def test_one_429_pauses_every_class_until_its_time_is_up(governor):
    fail(governor, RateLimited("Too many.", retry_after=17, status=429))
    for call in (START, LIST, DESCRIBE):
        with pytest.raises(BudgetExhausted, match="Coolify accepts no more calls") as caught:
            Governor().before(call)
        assert caught.value.reason == "paused"
        assert 10 < caught.value.retry_after <= 17
    let_pass(17)
    governor.before(START)


def test_a_shorter_pause_does_not_shorten_a_longer_one(governor):
    permits = spend(governor, times=2)
    for permit, seconds in zip(permits, (30, 5), strict=True):
        error = RateLimited("Too many.", retry_after=seconds, status=429)
        governor.after(START, failed(error), permit)
    with pytest.raises(BudgetExhausted) as caught:
        governor.before(START)
    assert caught.value.retry_after > 20


def test_a_429_with_nothing_left_does_not_outlast_its_pause(governor):
    error = RateLimited("Too many.", retry_after=3, status=429)
    outcome = Outcome(seconds=0.1, status=429, error=error, limit=200, remaining=0)
    governor.after(START, outcome, governor.before(START))
    let_pass(3)
    assert granted_until_refused(governor, OBSERVE) == 11


def test_a_429_without_a_wait_still_pauses(governor, monkeypatch):
    monkeypatch.setattr("coolify.budget.governor.SHORTEST_PAUSE", 30.0)
    fail(governor, RateLimited("Too many.", retry_after=0, status=429))
    with pytest.raises(BudgetExhausted):
        governor.before(START)


# --- The circuit ----------------------------------------------------------------------------

DOWN = Unavailable("Coolify answered with 502.", status=502)


def open_circuit(governor):
    for _ in range(governor.circuit.failures_to_open):
        fail(governor, DOWN)


@pytest.fixture
def roomy(settings):
    settings.COOLIFY_RATE_LIMIT = 1000
    return Governor(circuit=Circuit(failures_to_open=3, first_pause=5, longest_pause=15))


@pytest.mark.parametrize("error", [DOWN, Unreachable("No connection.")])
def test_the_circuit_opens_after_repeated_failures(roomy, error):
    for _ in range(3):
        fail(roomy, error)
    with pytest.raises(CircuitOpen) as caught:
        Governor().before(START)
    assert str(error) in str(caught.value)
    assert 0 < caught.value.retry_after <= 5


def test_one_success_in_between_keeps_it_closed(roomy):
    for _ in range(4):
        fail(roomy, DOWN)
        fail(roomy, DOWN)
        roomy.after(START, GOOD, roomy.before(START))
    assert budget_report().circuit == "closed"


@pytest.mark.parametrize(
    "error",
    [NotFound("Gone.", thing="application"), MalformedAnswer("A page."), CoolifyError("Other.")],
)
def test_other_errors_do_not_open_it(roomy, error):
    for _ in range(10):
        fail(roomy, error)
    assert budget_report().circuit == "closed"


def test_one_probe_is_let_through_after_the_pause(roomy):
    open_circuit(roomy)
    let_pass(5)
    assert roomy.before(LIST).is_probe
    with pytest.raises(CircuitOpen) as caught:
        roomy.before(START)
    assert caught.value.retry_after == 1


def test_a_probe_that_succeeds_closes_it(roomy):
    open_circuit(roomy)
    let_pass(5)
    roomy.after(LIST, GOOD, roomy.before(LIST))
    assert not roomy.before(START).is_probe
    assert budget_report().circuit == "closed"


def test_a_probe_that_coolify_refuses_closes_it_too(roomy):
    open_circuit(roomy)
    let_pass(5)
    fail(roomy, NotFound("Gone.", thing="application"))
    assert budget_report().circuit == "closed"


@pytest.mark.parametrize("error", [DOWN, MalformedAnswer("A page.")])
def test_a_probe_that_fails_doubles_the_pause_up_to_its_limit(roomy, error):
    open_circuit(roomy)
    let_pass(5)
    for pause in (10, 15, 15):
        fail(roomy, error)
        with pytest.raises(CircuitOpen) as caught:
            roomy.before(START)
        assert pause - 4 < caught.value.retry_after <= pause
        let_pass(pause)


def test_another_probe_may_pass_if_the_first_one_does_not_answer_in_time(roomy):
    open_circuit(roomy)
    let_pass(5)
    roomy.before(LIST)
    let_pass(3)
    with pytest.raises(CircuitOpen):
        roomy.before(LIST)
    let_pass(2)
    assert roomy.before(LIST).is_probe


@pytest.mark.parametrize("first", [GOOD, failed(DOWN)])
def test_the_second_probe_closes_it_whatever_the_first_one_says_later(roomy, first):
    open_circuit(roomy)
    let_pass(5)
    slow = roomy.before(LIST)
    let_pass(5)
    roomy.after(LIST, GOOD, roomy.before(LIST))
    roomy.after(LIST, first, slow)
    assert not roomy.before(START).is_probe


def test_a_late_success_does_not_close_it_without_a_probe(roomy):
    fail(roomy, DOWN)
    late = roomy.before(START)
    fail(roomy, DOWN)
    fail(roomy, DOWN)
    roomy.after(START, GOOD, late)
    with pytest.raises(CircuitOpen):
        roomy.before(START)


def test_late_failures_do_not_lengthen_an_open_circuit(roomy):
    late = spend(roomy, times=3)
    open_circuit(roomy)
    for permit in late:
        roomy.after(START, failed(DOWN), permit)
    let_pass(5)
    assert roomy.before(LIST).is_probe


def test_its_changes_are_logged(roomy, caplog):
    open_circuit(roomy)
    let_pass(5)
    roomy.after(LIST, GOOD, roomy.before(LIST))
    assert [record.getMessage() for record in caplog.records] == [
        "Coolify circuit opened: Coolify answered with 502.",
        "Coolify circuit closed: Coolify answers again",
    ]


# --- The report -----------------------------------------------------------------------------


def test_an_unused_budget_can_be_read():
    report = budget_report()
    assert (report.limit, report.spent, report.circuit) == (12, 0, "closed")
    assert [report.classes[c].left for c in CallClass] == [12, 11, 9, 6]
    assert [report.classes[c].held_back for c in CallClass] == [0, 1, 3, 6]
    assert not report.is_held_up


def test_the_report_counts_by_class_and_outcome_with_one_query(governor, django_assert_num_queries):
    spend(governor, START, times=2)
    granted_until_refused(governor, DESCRIBE)
    fail(governor, NotFound("Gone.", thing="application"))
    with django_assert_num_queries(1):
        report = budget_report()
    assert report.spent == 7
    assert report.classes[CallClass.URGENT].granted == 2
    assert report.classes[CallClass.TEXT].granted == 4
    assert report.classes[CallClass.TEXT].refused == {"limit": 1}
    assert report.classes[CallClass.WATCH].failed == {"NotFound": 1}
    assert [report.classes[c].left for c in CallClass] == [5, 4, 2, 0]
    named = {(call.name, call.outcome): call.total for call in report.calls}
    assert named["start", "granted"] == 2


def test_the_report_leaves_out_expired_calls(governor):
    spend(governor, times=5)
    let_pass(62)
    assert budget_report().spent == 0


def test_the_report_shows_a_pause_while_it_lasts(governor):
    fail(governor, RateLimited("Too many calls.", retry_after=20, status=429))
    report = budget_report()
    assert report.is_held_up
    assert report.pause_reason == "Too many calls."
    assert report.classes[CallClass.URGENT].left == 0
    let_pass(20)
    report = budget_report()
    assert not report.is_held_up
    assert report.paused_until is None
    assert report.times_paused == 1


def test_the_report_adds_up_the_time_held_back(governor):
    fail(governor, RateLimited("Too many calls.", retry_after=20, status=429))
    let_pass(60)
    fail(governor, RateLimited("Too many calls.", retry_after=30, status=429))
    assert budget_report().seconds_held_back == pytest.approx(50, abs=5)


def test_overlapping_pauses_are_counted_once(governor):
    permits = spend(governor, LIST, times=3)
    for seconds, permit in zip((20, 30, 10), permits, strict=True):
        error = RateLimited("Too many calls.", retry_after=seconds, status=429)
        governor.after(LIST, failed(error), permit)
    assert budget_report().seconds_held_back == pytest.approx(30, abs=5)


def test_an_open_circuit_holds_back_until_each_probe(roomy):
    for _ in range(3):
        fail(roomy, Unreachable("No answer."))
    let_pass(5)
    fail(roomy, Unreachable("No answer."))
    let_pass(10)
    roomy.after(LIST, GOOD, roomy.before(LIST))
    assert budget_report().seconds_held_back == pytest.approx(5 + 10, abs=0.5)


def test_the_time_held_back_is_not_listed_as_a_call(governor):
    fail(governor, RateLimited("Too many calls.", retry_after=20, status=429))
    assert {call.name for call in budget_report().calls} == {"applications"}


def test_the_report_shows_the_circuit(roomy):
    open_circuit(roomy)
    report = budget_report()
    assert report.circuit == "open"
    assert report.circuit_since < report.circuit_until
    assert report.circuit_reason == "Coolify answered with 502."
    assert report.times_opened == 1
    let_pass(5)
    assert budget_report().circuit == "probing"


# --- Together with the client ---------------------------------------------------------------


def test_the_shared_client_spends_from_the_budget(scripted, settings):
    settings.COOLIFY_API_URL = scripted.url
    settings.COOLIFY_API_TOKEN = "t"
    scripted.answers([], X_RateLimit_Limit="200", X_RateLimit_Remaining="199")
    shared_coolify().applications()
    report = budget_report()
    assert report.spent == 1
    assert report.coolify_limit == 200
    assert shared_coolify() is shared_coolify()


def test_a_429_from_coolify_stops_the_next_call_before_it_is_sent(scripted):
    scripted.answers({"message": "Too Many Attempts."}, status=429, Retry_After="30")
    for client in (Coolify(scripted.url, "t", gate=Governor()) for _ in range(2)):
        with pytest.raises(CoolifyError):
            client.applications()
    assert len(scripted.asked) == 1


def test_the_first_call_creates_the_row():
    assert not Budget.objects.exists()
    with connection.cursor() as cursor:
        cursor.execute("SELECT verdict FROM coolify_take('urgent', 'start', 1, 60, 1)")
        assert cursor.fetchone() == ("granted",)
    assert str(Budget.objects.get()) == "budget of calls to Coolify"
