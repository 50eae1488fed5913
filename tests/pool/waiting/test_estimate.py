"""The arithmetic of the estimate; bench/queue_estimate.py measures how good it is."""

from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pool.waiting.estimate import Measured, Outlook, PoolState

MINUTE = 60.0
FOREVER = [inf] * 10
# Every bot of this platform has run for ten minutes.
TEN_MINUTES = Measured(ran=[10 * MINUTE], bots=1_000_000, start=0.0, stop=0.0)


def waits(pool, *, measured=TEN_MINUTES, patience=FOREVER):
    return list(Outlook(measured, pool).waits(patience))


def test_with_a_free_slot_there_is_no_wait():
    assert waits(PoolState(free=2, held_for=[0.0]))[:2] == [0.0, 0.0]


def test_the_first_waits_for_the_slot_that_is_held_longest():
    first, second, *_ = waits(PoolState(held_for=[9 * MINUTE, 4 * MINUTE]))
    assert first == pytest.approx(1 * MINUTE, abs=1)
    assert second == pytest.approx(6 * MINUTE, abs=1)


def test_those_behind_wait_until_a_slot_comes_free_again():
    third = waits(PoolState(held_for=[9 * MINUTE, 4 * MINUTE]))[2]
    assert third == pytest.approx(11 * MINUTE, rel=0.02)


def test_a_slot_that_is_being_stopped_is_nearly_free():
    measured = Measured(ran=[600.0], bots=1000, start=0.0, stop=10.0)
    assert waits(PoolState(stopping_for=[4.0], held_for=[1.0]), measured=measured)[0] == 6.0


def test_a_slot_that_stops_for_longer_than_usual_counts_as_free_at_once():
    measured = Measured(ran=[600.0], bots=1000, stop=10.0)
    assert waits(PoolState(stopping_for=[60.0]), measured=measured)[0] == 0.0


def test_those_who_will_have_given_up_by_their_turn_take_no_slot():
    pool = PoolState(held_for=[9 * MINUTE, 4 * MINUTE])
    with_impatient = waits(pool, patience=[inf, 2 * MINUTE, inf])
    assert with_impatient[2] == with_impatient[1] == pytest.approx(6 * MINUTE, abs=1)


def test_without_a_slot_in_service_there_is_no_end_to_the_wait():
    assert waits(PoolState())[0] == inf


def test_a_bot_that_outlasts_all_that_were_seen_is_still_expected_to_go():
    assert 0 < waits(PoolState(held_for=[60 * MINUTE]))[0] < 60 * MINUTE


def test_before_there_is_history_a_full_pool_of_a_hundred_moves_within_minutes():
    pool = PoolState(held_for=[10 * MINUTE] * 100)
    assert 5 < waits(pool, measured=Measured())[0] < 5 * MINUTE


def test_a_little_history_counts_for_a_little():
    pool = PoolState(held_for=[0.0])
    none = waits(pool, measured=Measured())[0]
    little = waits(pool, measured=Measured(ran=[30.0], bots=3))[0]
    much = waits(pool, measured=Measured(ran=[30.0], bots=3000))[0]
    assert much < little <= none


def test_the_wait_behind_many_is_the_same_as_one_by_one():
    pool = PoolState(held_for=[9 * MINUTE, 4 * MINUTE], free=1)
    patience = [inf, 2 * MINUTE, 1.0, inf, 7 * MINUTE]
    one_by_one = waits(pool, patience=[*patience, *[inf] * 500, inf])[-1]
    assert Outlook(TEN_MINUTES, pool).wait_behind(patience, others=500) == one_by_one


ages = st.lists(st.floats(0, 5 * 3600), max_size=30)
ran = st.lists(st.floats(0, 3 * 3600), min_size=1, max_size=30)


@settings(deadline=None)
@given(held=ages, stopping=ages, free=st.integers(0, 3), ran=ran, bots=st.integers(1, 5000))
def test_no_wait_is_shorter_than_the_waits_ahead(held, stopping, free, ran, bots):
    pool = PoolState(held_for=held, stopping_for=stopping, free=free)
    expected = waits(pool, measured=Measured(ran=sorted(ran), bots=bots), patience=[inf] * 100)
    assert expected == sorted(expected)
    assert all(wait >= 0 for wait in expected)
