"""Eight processes spend from one budget at the same time, each on its own connection."""

from __future__ import annotations

import multiprocessing
import time
from collections import Counter
from dataclasses import dataclass

import pytest
from django.db import connection

from coolify.budget.governor import Governor, Permit, allowance
from coolify.client.calls import Call, CallClass, Outcome
from coolify.client.errors import BudgetExhausted, RateLimited
from coolify.models import Budget
from tests.processes import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]

FORK = multiprocessing.get_context("fork")
PROCESSES = 8
# A short window: the same code as for a minute, with many windows in a few seconds.
WINDOW = 3
TRIES = 20  # for a busy machine
GOOD = Outcome(seconds=0.0, status=200)


@dataclass(frozen=True)
class Granted:
    call_class: CallClass
    permit: Permit


def call_of(call_class):
    return Call("hammer", call_class, "GET", "/")


def hammer(call_class, seconds, *, pause=0.002, until=lambda refused: False):
    """Call again and again; return what was granted."""
    governor = Governor(window=WINDOW)
    call = call_of(call_class)
    granted = []
    refused = False
    end = time.monotonic() + seconds
    while time.monotonic() < end and not until(refused):
        try:
            permit = governor.before(call)
        except BudgetExhausted:
            refused = True
            time.sleep(pause)
            continue
        governor.after(call, GOOD, permit)
        granted.append(Granted(call_class, permit))
    return granted


def at_once(jobs):
    """Run each job in its own process; return all results."""
    connection.close()  # or the forks would share it
    results = FORK.SimpleQueue()

    def run(job):
        try:
            results.put(job())
        except Exception as error:
            results.put(error)
        connection.close()

    processes = [FORK.Process(target=run, args=(job,)) for job in jobs]
    for process in processes:
        process.start()
    found = [results.get() for _ in processes]
    for process in processes:
        process.join(60)
    for result in found:
        if isinstance(result, Exception):
            raise result
    return [granted for result in found for granted in result]


def most_in_any_window(granted):
    times = sorted(g.permit.granted_at for g in granted)
    first = most = 0
    for last, moment in enumerate(times):
        while moment - times[first] >= WINDOW:
            first += 1
        most = max(most, last - first + 1)
    return most


def test_no_window_exceeds_the_limit(settings):
    settings.COOLIFY_RATE_LIMIT = 40
    granted = at_once([lambda: hammer(CallClass.OBSERVE, 11)] * PROCESSES)
    assert most_in_any_window(granted) == 40
    # The budget is used, too: each window grants the limit again.
    assert len(granted) >= 80


def test_the_lock_is_what_keeps_the_limit(settings):
    settings.COOLIFY_RATE_LIMIT = limit = 60
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_get_functiondef('coolify_locked_budget'::regproc)")
        (definition,) = cursor.fetchone()
        assert "FOR UPDATE" in definition
        cursor.execute(definition.replace("FOR UPDATE", ""))
    most = 0
    try:
        for _ in range(TRIES):
            Budget.objects.all().delete()
            granted = at_once([lambda: hammer(CallClass.OBSERVE, 2.5, pause=0)] * PROCESSES)
            most = max(most, most_in_any_window(granted))
            if most > limit:
                break
    finally:
        with connection.cursor() as cursor:
            cursor.execute(definition)
    assert most > limit


def test_urgent_calls_get_through_while_others_flood(settings):
    settings.COOLIFY_RATE_LIMIT = 40

    def urgent_after_a_while():
        time.sleep(0.7)
        return hammer(CallClass.URGENT, 30, until=lambda refused: refused)

    flood = [lambda: hammer(CallClass.TEXT, 2)] * 4 + [lambda: hammer(CallClass.WATCH, 2)] * 3
    granted = at_once([*flood, urgent_after_a_while])
    by_class = Counter(g.call_class for g in granted)
    # The reserve is still there for the urgent calls: the other classes left it alone.
    assert by_class[CallClass.URGENT] >= 6
    for g in granted:
        assert g.permit.spent <= allowance(g.call_class, limit=40)
    assert most_in_any_window(granted) == 36


def test_one_429_pauses_every_process(settings):
    settings.COOLIFY_RATE_LIMIT = 100_000
    over = FORK.Event()

    def meet_a_429():
        wait_until(Budget.objects.exists, what="the first call of the others")
        time.sleep(1)
        governor = Governor(window=WINDOW)
        call = call_of(CallClass.WATCH)
        error = RateLimited("Too many.", retry_after=2, status=429)
        permit = governor.before(call)
        governor.after(call, Outcome(seconds=0.0, status=429, error=error), permit)
        time.sleep(4)
        over.set()
        return []

    def others():
        return hammer(CallClass.URGENT, 60, until=lambda refused: over.is_set())

    granted = at_once([*[others] * (PROCESSES - 1), meet_a_429])
    until = Budget.objects.get().paused_until.timestamp()
    times = [g.permit.granted_at for g in granted]
    assert any(moment < until - 2 for moment in times)
    assert any(moment > until for moment in times)
    # Allow 0.1 s: the database's clock is read just before the pause is written.
    assert not [moment for moment in times if until - 1.9 < moment < until]


def test_only_one_process_gets_the_probe(settings):
    settings.COOLIFY_RATE_LIMIT = 100_000
    Governor(window=WINDOW).before(call_of(CallClass.WATCH))
    past = "clock_timestamp() - interval '1 second'"
    with connection.cursor() as cursor:
        cursor.execute(f"UPDATE coolify_budget SET open_since = {past}, open_until = {past}")

    def ask_once():
        try:
            return [
                Granted(CallClass.WATCH, Governor(window=WINDOW).before(call_of(CallClass.WATCH)))
            ]
        except BudgetExhausted:
            return []

    granted = at_once([ask_once] * PROCESSES)
    assert [g.permit.is_probe for g in granted] == [True]


def test_the_window_in_use_is_a_minute():
    assert Governor().window == 60
