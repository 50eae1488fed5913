"""Numbers and times that Coolify, or a proxy in front of it, cannot mean."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from coolify.client.parsing import number, time_from_now


@pytest.mark.parametrize("value", [float("inf"), float("nan"), 2**31, -(2**31), 10**400, None, []])
def test_an_absurd_number_is_none(value):
    assert number({"concurrent_builds": value}, "concurrent_builds") is None


@pytest.mark.parametrize("value", [2, "2", 2.0])
def test_a_number_may_be_written_in_several_ways(value):
    assert number({"concurrent_builds": value}, "concurrent_builds") == 2


@pytest.mark.parametrize(
    "header",
    [
        "",
        "soon",
        "Wed, 18 Nov 2026 20:00:00 +99999999999999999999",
        "Fri, 31 Dec 9999 23:59:59 -2300",
    ],
)
def test_a_time_that_cannot_be_compared_is_none(header):
    assert time_from_now(header) is None


def test_a_time_is_compared_with_this_hosts_clock():
    header = format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True)
    distance = time_from_now(header)
    assert distance is not None
    assert timedelta(minutes=50) < distance <= timedelta(hours=1)
