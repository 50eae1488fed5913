"""The verdict on a server, from facts alone."""

from datetime import UTC, datetime, timedelta

import pytest

from servers.health import Facts, ServerState, judge_server

NOW = datetime(2026, 11, 17, tzinfo=UTC)


@pytest.mark.parametrize(
    ("facts", "state"),
    [
        ({}, "healthy"),
        ({"unreachable_since": NOW}, "unreachable"),
        ({"order": "cordoned"}, "cordoned"),
        ({"order": "draining"}, "draining"),
        ({"is_wanted": False}, "removed"),
        ({"starts": 5, "failed_starts": 3}, "degraded"),
        ({"start_time": timedelta(minutes=3)}, "degraded"),
        # The first that applies:
        ({"is_wanted": False, "unreachable_since": NOW}, "removed"),
        ({"order": "draining", "unreachable_since": NOW}, "unreachable"),
        ({"order": "cordoned", "failed_starts": 3, "starts": 3}, "cordoned"),
        # Too few failures, or too small a part of all starts, say nothing:
        ({"starts": 2, "failed_starts": 2}, "healthy"),
        ({"starts": 10, "failed_starts": 4}, "healthy"),
        ({"start_time": timedelta(seconds=30)}, "healthy"),
    ],
)
def test_the_state_follows_from_the_facts(facts, state):
    assert judge_server(Facts(**facts)).state == ServerState(state)


def test_each_state_says_why_and_on_which_evidence():
    failed = judge_server(Facts(starts=4, failed_starts=3))
    assert failed.reason == "3 of the last 4 starts failed"
    assert failed.evidence == {"starts": 4, "failedStarts": 3}
    unreachable = judge_server(Facts(unreachable_since=NOW))
    assert unreachable.evidence == {"unreachableSince": "2026-11-17T00:00:00+00:00"}
    assert judge_server(Facts(order="draining", order_reason="New disk")).reason == "New disk"
