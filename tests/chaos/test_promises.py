"""The checker finds every broken promise about time, fairness, tenants, webhooks and the mirror."""

from dataclasses import replace

import pytest

from tests.chaos import scale
from tests.chaos.evidence import Delivery, ServerChange
from tests.chaos.made_up import SLOT, bot, event, found, transition, wish
from tests.chaos.mirror import Mirror, Wrong
from tests.chaos.seeds import parse, table


def moves(*rows):
    return [transition(at, before, after) for at, before, after in rows]


@pytest.mark.parametrize(
    ("status", "longest"),
    [
        ("deploying", 60 + 2 * 25 + 6),
        ("stopping", 30),
        ("error", scale.LAST_RECOVERY_PAUSE + scale.LONGEST_SERVER_OUTAGE),
    ],
)
@pytest.mark.parametrize("late", [False, True])
def test_it_finds_a_slot_that_outlived_its_deadline(evidence, status, longest, late):
    end = 1 + longest + scale.SLACK + (1 if late else -1)
    evidence.transitions = moves((1.0, "idle", "deploying"))
    if status != "deploying":
        evidence.transitions += moves((1.0, "deploying", status))
    evidence.transitions += moves((end, status, "idle"))
    expected = [f"{SLOT} was {status} for"] if late else []
    assert [each[: len(f"{SLOT} was {status} for")] for each in found(evidence)] == expected


def test_it_finds_a_bot_that_waited_beyond_its_timeout(evidence):
    evidence.bots[1] = bot(queue_timeout=3.0, ended_at=40.0)
    evidence.events = [event(0.0, "QUEUED"), event(40.0, "DONE")]
    evidence.containers = []
    assert found(evidence) == ["bot 1 was QUEUED for 40 s instead of 3 s"]


@pytest.mark.parametrize(
    ("away", "seconds"),
    [
        # For 7 s nobody works. One node is enough. A node needs PostgreSQL, and its ticker.
        ({"worker 1": [(5.0, 17.0)], "worker 2": [(10.0, 22.0)]}, 33),
        ({"worker 1": [(5.0, 17.0)], "worker 2": [(17.0, 29.0)]}, 40),
        ({"worker 1": [(5.0, 17.0)], "gate to postgres 2": [(10.0, 22.0)]}, 33),
        ({"ticker 1": [(5.0, 17.0)], "ticker 2": [(10.0, 22.0)]}, 33),
        ({"worker 1": [(5.0, 17.0)], "ticker 2": [(10.0, 22.0)]}, 40),
        # Each second counts once, and only those of its wait.
        ({"worker 1": [(5.0, 17.0)], "worker 2": [(10.0, 14.0), (11.0, 12.0), (13.0, 22.0)]}, 33),
        ({f"{role} {node}": [(-9.0, 3.0)] for role in ("worker", "ticker") for node in (1, 2)}, 37),
        ({f"worker {node}": [(36.0, 90.0)] for node in (1, 2)}, 36),
    ],
)
def test_the_time_in_which_no_node_could_work_does_not_count(evidence, away, seconds):
    evidence.bots[1] = bot(queue_timeout=2.0, ended_at=40.0)
    evidence.events = [event(0.0, "QUEUED"), event(40.0, "DONE")]
    evidence.containers = []
    evidence.havoc.members_away |= away
    assert found(evidence) == [f"bot 1 was QUEUED for {seconds} s instead of 2 s"]


def test_a_slots_deadline_does_not_count_that_time_either(evidence):
    evidence.transitions[1:] = moves((2.0, "busy", "stopping"), (70.0, "stopping", "idle"))
    assert len(found(evidence)) == 1
    evidence.havoc.members_away |= {f"worker {node}": [(10.0, 22.0)] for node in (1, 2)}
    assert found(evidence) == []


def test_it_finds_a_bot_that_was_left_pending(evidence):
    evidence.events[0] = event(-40.0, "PENDING")
    assert found(evidence) == ["bot 1 was PENDING for 41 s instead of 2 s"]


@pytest.mark.parametrize(
    ("changes", "goes_wrong"),
    [
        ([("a", "unreachable", -5.0)], True),
        # It had begun; it is back; it is another one; it takes bots.
        ([("a", "unreachable", 0.5)], False),
        ([("a", "unreachable", -5.0), ("a", "healthy", 0.5)], False),
        ([("a", "unreachable", -5.0), ("a", "draining", 0.5)], True),
        ([("b", "unreachable", -5.0), ("c", "unreachable", -5.0)], False),
        ([("a", "degraded", -5.0)], False),
    ],
)
def test_it_finds_a_bot_on_a_server_that_is_known_to_be_away(evidence, changes, goes_wrong):
    evidence.server_of = {(SLOT, 1): "a"}
    evidence.server_changes = [
        ServerChange(server, state, at, committed=at) for server, state, at in changes
    ]
    expected = "a was known to be unreachable for 6.0 s:"
    assert [each[: len(expected)] for each in found(evidence)] == [expected] * goes_wrong


@pytest.fixture
def unused(evidence):
    """Bot 1 waits from 0 to 40 s, and a slot of its platform is idle all the time."""
    evidence.bots[1] = bot(ended_at=50.0)
    evidence.events = [event(0.0, "QUEUED"), event(40.0, "DEPLOYING"), event(50.0, "DONE")]
    evidence.transitions = moves((-5.0, "stopping", "idle"), (40.0, "idle", "deploying"))
    return evidence


def test_it_finds_a_slot_that_stayed_idle_beside_a_waiter(unused):
    assert found(unused) == [f"bot 1 waited 40 s beside the idle {SLOT}"]


def test_the_time_before_postgresql_was_back_does_not_count(unused):
    unused.havoc.postgres_away.append((1.0, 30.0))
    assert found(unused) == []


def test_a_slots_deadline_begins_anew_after_an_outage_of_coolify(evidence):
    evidence.transitions[1:] = moves((2.0, "busy", "stopping"), (100.0, "stopping", "idle"))
    assert len(found(evidence)) == 1
    evidence.havoc.coolify_away.append((5.0, 60.0))
    assert found(evidence) == []


@pytest.mark.parametrize(
    ("outages", "complaints"),
    [
        ([(59.0, 60.0)], 1),
        ([(10.0, 11.0), (20.0, 21.0), (59.0, 60.0)], 1),
        ([(57.0, 58.0), (59.0, 60.0)], 0),
        ([(57.0, 60.0)], 0),
    ],
)
def test_a_short_outage_does_not_excuse_a_slot(evidence, outages, complaints):
    evidence.transitions[1:] = moves((2.0, "busy", "stopping"), (100.0, "stopping", "idle"))
    evidence.havoc.coolify_away += outages
    assert len(found(evidence)) == complaints


def test_a_slot_on_a_server_that_is_away_may_stay_idle(unused):
    unused.havoc.servers_away.append((1.0, 9.0))
    assert found(unused) == []


@pytest.fixture
def rivals(waiter):
    """Client 7 holds a slot with bot 3 and gets another one for bot 1; bot 2 waits."""
    waiter.clients.accepted.append(wish(3))
    waiter.bots |= {1: bot(client_id=7), 2: bot(2, client_id=8), 3: bot(3, client_id=7)}
    waiter.events += [event(-20.0, "DEPLOYING", number=3), event(40.0, "DONE", number=3)]
    waiter.events[0] = event(1.0, "PENDING")
    waiter.events[1] = event(5.0, "DEPLOYING")
    return waiter


def test_it_finds_a_client_that_was_starved(rivals):
    [violation] = found(rivals)
    assert violation.startswith("client 8 had no zoom slot and waited with bot 2")


def test_a_client_with_a_slot_may_wait_for_another_one(rivals):
    rivals.clients.accepted.append(wish(4))
    rivals.bots[4] = bot(4, client_id=8)
    rivals.events += [event(-20.0, "DEPLOYING", number=4), event(40.0, "DONE", number=4)]
    assert found(rivals) == []


def test_a_waiter_that_is_being_cancelled_may_be_skipped(rivals):
    rivals.clients.cancelled[2] = 4.0
    assert found(rivals) == []


def test_the_order_holds_within_a_client_only(waiter):
    waiter.bots[2] = replace(waiter.bots[2], client_id=8)
    assert found(waiter) == []


def test_a_waiter_that_came_after_the_transaction_began_is_not_overtaken(waiter):
    """However long the transaction took: it may have looked at the line before."""
    waiter.events[1] = replace(event(10.0, "DEPLOYING"), began=-2.0)
    assert found(waiter) == []


def test_it_finds_a_bot_that_another_client_saw(evidence):
    evidence.clients.shown_to_others.append(1)
    assert found(evidence) == ["bot 1 was shown to another client"]


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"noted": False}, "was forgotten"),
        ({}, "was given up"),
        ({"due": True}, "is 980 s late"),
        ({"delivered_at": 21.0}, "counts as delivered and never arrived"),
    ],
)
def test_it_finds_a_webhook_that_was_lost(evidence, fields, fault):
    usual = {"noted": True, "due": False, "delivered_at": None, "attempts": 1}
    evidence.deliveries = [Delivery(1, 9, "steady", 20.0, **{**usual, **fields})]
    evidence.collected_at = 1000.0
    assert found(evidence) == [f"the webhook about the end of bot 1 to steady {fault}"]


def test_a_receiver_that_hung_may_get_its_webhook_later(evidence):
    evidence.deliveries = [Delivery(1, 9, "moody", 20.0, True, True, None, 3)]
    evidence.collected_at = 1000.0
    assert found(evidence) == []


# --- The mirror --------------------------------------------------------------------------------


@pytest.mark.parametrize(("seconds", "complaints"), [(scale.MIRROR - 1, 0), (scale.MIRROR + 1, 1)])
def test_it_finds_a_description_that_stayed_wrong(evidence, seconds, complaints):
    mirror = Mirror(fleet=None)
    wrong = Wrong(SLOT, "busy", 3, "[IDLE] Available")
    for at in (10.0, 10.0 + seconds):
        mirror.note([wrong], at=at)
    evidence.mirror = mirror.longest
    assert len(found(evidence)) == complaints


def test_a_description_that_was_right_meanwhile_starts_anew():
    mirror, wrong = Mirror(fleet=None), Wrong(SLOT, "busy", 3, "[IDLE] Available")
    for at, seen in ((0.0, [wrong]), (5.0, []), (80.0, [wrong]), (90.0, [wrong])):
        mirror.note(seen, at=at)
    assert mirror.longest[wrong] == (80.0, 90.0)


def test_nothing_is_written_while_coolify_is_away(evidence):
    wrong = Wrong(SLOT, "busy", 3, "[IDLE] Available")
    evidence.mirror = {wrong: (10.0, 11.0 + scale.MIRROR)}
    assert len(found(evidence)) == 1
    evidence.havoc.coolify_away.append((12.0, 20.0))
    assert found(evidence) == []


# --- Many seeds --------------------------------------------------------------------------------


def test_seeds_are_ranges_and_numbers():
    assert parse("1-3,7") == [1, 2, 3, 7]


def test_the_table_ends_with_the_sums():
    rows = [
        {"seed": 2, "bots": 5, "blows": {"a": 1, "b": 2}, "violations by kind": {"stuck": 1}},
        {"seed": 1, "bots": 6, "settled after, s": 9.5},
    ]
    *_, first, _, last = table(rows)
    assert first == "| 1 | 6 | 0 | 0 | 0 | 9.5 | 0 | 0 | 0 | 0 |"
    assert last == "| all 2 | 11 | 0 | 3 | 0 | 9.5 | 0 | 0 | 1 | 0 |"


@pytest.mark.parametrize(
    ("reason", "goes_wrong"),
    [
        ("Placed again: Coolify's deployment ended as failed", True),
        ("Placed again: Server a is unreachable: Coolify cannot reach it", False),
    ],
)
def test_a_bot_that_lost_its_server_waits_only_for_a_time_after_its_request(
    waiter, reason, goes_wrong
):
    """It is told a while after its time is up, and its turn is over."""
    waiter.bots[2] = bot(2, created_at=-100.0)
    waiter.events = [
        replace(each, reason=reason) if each.bot_id == 2 and each.to_status == "QUEUED" else each
        for each in waiter.events
    ]
    assert ("bot 1 overtook bot 2" in found(waiter)) == goes_wrong
