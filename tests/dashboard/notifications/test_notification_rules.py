"""What is due to be told, by the rules: a pure function."""

from datetime import UTC, datetime, time, timedelta

import pytest

from dashboard.notifications.records import Condition, Notice, NotificationRule
from dashboard.notifications.rules import News, due_items

NOW = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
CHANNEL, ANOTHER = 1, 2


def condition(*, code="slots_in_error", lasted=HOUR, pk=1, at=NOW, **fields):
    return Condition(
        pk=pk, code=code, words=code, first_seen_at=at - lasted, last_seen_at=at, **fields
    )


def rule(**fields):
    return NotificationRule(name="rule", **fields)


def told(*, ago, said=Notice.Said.OPEN, at=NOW):
    return {1: Notice(condition_id=1, at=at - ago, said=said)}


def news(conditions, rules, *, notices=None, channel=CHANNEL, now=NOW):
    found = due_items(
        conditions=conditions, told=notices or {}, rules=rules, channel_id=channel, now=now
    )
    return [item.news for item in found]


# --- What a rule is about ---


@pytest.mark.parametrize(
    ("fields", "is_told"),
    [
        ({}, True),
        ({"enabled": False}, False),
        ({"codes": ["slots_in_error"]}, True),
        ({"codes": ["lease_held"]}, False),
        ({"severity": "warning"}, True),
        ({"severity": "urgent"}, False),
        ({"severity": "urgent", "codes": ["slots_in_error"]}, False),
        ({"platform": "zoom"}, True),
        ({"platform": "teams"}, False),
        ({"channels": [CHANNEL]}, True),
        ({"channels": [ANOTHER]}, False),
    ],
)
def test_a_rule_tells_what_it_is_about(fields, is_told):
    assert news([condition(platform="zoom")], [rule(**fields)]) == [News.NEW] * is_told


def test_the_most_severe_comes_first():
    both = [condition(pk=1, code="platform_paused"), condition(pk=2, code="coolify_away")]
    found = due_items(conditions=both, told={}, rules=[rule()], channel_id=CHANNEL, now=NOW)
    assert [item.condition.code for item in found] == ["coolify_away", "platform_paused"]


def test_a_code_of_another_version_is_a_warning():
    assert news([condition(code="from_the_future")], [rule(severity="warning")]) == [News.NEW]


# --- Lasting ---


@pytest.mark.parametrize(
    ("lasted", "is_told"), [(9 * MINUTE, False), (10 * MINUTE, True), (HOUR, True)]
)
def test_it_is_told_once_it_has_lasted(lasted, is_told):
    shown = news([condition(lasted=lasted)], [rule(lasting=10 * MINUTE)])
    assert shown == [News.NEW] * is_told


def test_of_two_rules_the_more_impatient_tells_and_the_other_does_not_repeat_it():
    rules = [rule(lasting=MINUTE), rule(lasting=30 * MINUTE)]
    assert news([condition(lasted=2 * MINUTE)], rules) == [News.NEW]
    assert news([condition()], rules, notices=told(ago=58 * MINUTE)) == []


# --- Repeat ---


@pytest.mark.parametrize(
    ("repeat", "ago", "is_told"),
    [(None, 99 * HOUR, False), (4 * HOUR, 3 * HOUR, False), (4 * HOUR, 4 * HOUR, True)],
)
def test_it_is_repeated_while_it_lasts(repeat, ago, is_told):
    shown = news([condition(lasted=100 * HOUR)], [rule(repeat=repeat)], notices=told(ago=ago))
    assert shown == [News.STILL] * is_told


# --- Resolved ---


@pytest.mark.parametrize(
    ("tells", "notices", "is_told"),
    [
        (True, told(ago=HOUR), True),
        (False, told(ago=HOUR), False),
        (True, None, False),  # its begin was not told
        (True, told(ago=HOUR, said=Notice.Said.RESOLVED), False),
    ],
)
def test_its_end_is_told_once_if_its_begin_was(tells, notices, is_told):
    over = condition(resolved_at=NOW)
    shown = news([over], [rule(tell_resolved=tells)], notices=notices)
    assert shown == [News.RESOLVED] * is_told


# --- Quiet hours ---

NIGHT = {"quiet_from": time(22), "quiet_until": time(7)}


@pytest.mark.parametrize(
    ("hour", "is_told"), [(21, True), (22, False), (0, False), (6, False), (7, True), (12, True)]
)
def test_the_night_is_quiet_across_midnight(hour, is_told):
    now = NOW.replace(hour=hour)
    assert news([condition(at=now)], [rule(**NIGHT)], now=now) == [News.NEW] * is_told


@pytest.mark.parametrize(("hour", "is_told"), [(11, True), (12, False), (13, False), (14, True)])
def test_quiet_hours_within_a_day(hour, is_told):
    now = NOW.replace(hour=hour)
    lunch = rule(quiet_from=time(12), quiet_until=time(14))
    assert news([condition(at=now)], [lunch], now=now) == [News.NEW] * is_told


@pytest.mark.parametrize(
    ("month", "day", "hour", "is_told"),
    [
        (1, 15, 5, False),  # 06:00 in winter
        (1, 15, 6, True),
        (7, 15, 4, False),  # 06:00 in summer
        (7, 15, 5, True),
        (3, 29, 4, False),  # the night in which the clock goes from 02:00 to 03:00
        (3, 29, 5, True),
        (10, 25, 5, False),  # the night in which it goes from 03:00 to 02:00
        (10, 25, 6, True),
    ],
)
def test_quiet_hours_follow_the_clock_on_the_wall(month, day, hour, is_told):
    now = datetime(2026, month, day, hour, 0, tzinfo=UTC)
    berlin = rule(**NIGHT, zone="Europe/Berlin")
    assert news([condition(at=now)], [berlin], now=now) == [News.NEW] * is_told


@pytest.mark.parametrize(
    ("code", "anyway", "is_told"),
    [("coolify_away", True, True), ("coolify_away", False, False), ("lease_held", True, False)],
)
def test_only_urgent_conditions_break_the_quiet(code, anyway, is_told):
    now = NOW.replace(hour=3)
    night = rule(**NIGHT, urgent_anyway=anyway)
    assert news([condition(code=code, at=now)], [night], now=now) == [News.NEW] * is_told


def test_what_came_and_went_in_quiet_hours_is_not_told():
    morning = NOW.replace(hour=7)
    over = condition(at=morning, resolved_at=morning - HOUR)
    assert news([over], [rule(**NIGHT)], now=morning) == []


def test_an_end_in_quiet_hours_is_told_when_they_are_over():
    night, morning = NOW.replace(hour=3), NOW.replace(hour=7)
    over, before = condition(resolved_at=night), told(ago=9 * HOUR)
    assert news([over], [rule(**NIGHT)], notices=before, now=night) == []
    assert news([over], [rule(**NIGHT)], notices=before, now=morning) == [News.RESOLVED]
