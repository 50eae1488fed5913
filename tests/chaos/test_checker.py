"""The checker sees each wrong that it is there for. Every story begins with one in which all is
right: bot 1 is asked for, runs in its slot, and is done."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from tests.chaos.checker import violations
from tests.chaos.clients import Accepted, Clients, Wish
from tests.chaos.evidence import Bot, Event, Evidence, Transition

SLOT, APPLICATION = "pool-zoom-001", "application-1"


def bot(number=1, **fields):
    usual = {
        "platform": "zoom",
        "status": "DONE",
        "priority": 100,
        "failure_reason": "",
        "slot_name": SLOT,
        "created_at": 0.0,
        "ended_at": 20.0,
        "queue_timeout": 60.0,
    }
    return Bot(id=number, **{**usual, **fields})


def event(at, to_status, *, number=1, reason="", actor="test", committed=None):
    return Event(
        id=int(at * 1000),
        bot_id=number,
        at=at,
        from_status="",
        to_status=to_status,
        reason=reason,
        actor=actor,
        slot_name=SLOT,
        epoch=1,
        committed=at if committed is None else committed,
    )


def transition(at, from_status, to_status, *, number=1, epoch=1):
    return Transition(
        id=int(at * 1000),
        slot_id=1,
        slot_name=SLOT,
        at=at,
        from_status=from_status,
        to_status=to_status,
        reason="",
        bot_id=number,
        epoch=epoch,
        coolify_uuid=APPLICATION,
        actor="test",
    )


def container(number=1, **fields):
    life = {
        "startedAt": 2.0,
        "joinedAt": 3.0,
        "endedAt": 19.0,
        "reason": "reported DONE",
        "reported": "DONE",
    } | fields.pop("life", {})
    usual = {
        "id": 1,
        "bot_id": str(number),
        "epoch": 1,
        "application_uuid": APPLICATION,
        "started_at": 2.0,
        "ended_at": 20.5,
        "end_reason": "stopped",
        "state": "removed",
        "plan": {"name": "normal"},
        "past_lives": [{"toldToLeave": False, **life}],
        "life_started_at": 2.0,
        "joined_at": 3.0,
    }
    return {**usual, **fields}


def wish(number):
    return Accepted(Wish(number, 0.0, "zoom", {"plan": "normal"}, 100, 60_000, None), number, 0, 0)


@pytest.fixture
def story():
    clients = Clients(url="", keys={})
    clients.accepted.append(wish(1))
    return Evidence(
        bots={1: bot()},
        events=[event(0.0, "PENDING"), event(1.0, "DEPLOYING"), event(20.0, "DONE")],
        transitions=[transition(1.0, "", "deploying"), transition(20.0, "busy", "stopping")],
        containers=[container()],
        pulls=[],
        told=[],
        clients=clients,
        havoc=SimpleNamespace(deleted=set()),
        fences=[1, 2, 4],
        late=[],
    )


def found(story):
    story.__post_init__()
    return [told.splitlines()[0] for told in violations(story)]


def end_with(story, to_status, *, reason="", actor="test"):
    """Bot 1 is stopped in its call at 20 s."""
    story.events[-1] = event(20.0, to_status, reason=reason, actor=actor)
    story.bots[1] = bot(status=to_status, failure_reason=reason)
    life = {"endedAt": 20.5, "reason": "stopped", "reported": "IN_CALL"}
    story.containers = [container(life=life)]


def test_nothing_speaks_against_a_quiet_life(story):
    assert found(story) == []


def test_it_sees_a_bot_that_ended_twice(story):
    story.events.append(event(21.0, "FAILED"))
    assert found(story) == ["bot 1 ended 2 times"]


def test_it_sees_a_bot_that_was_accepted_and_is_lost(story):
    story.clients.accepted.append(wish(2))
    assert found(story) == ["bot 2 was accepted and is lost"]


def test_it_sees_a_bot_that_nobody_asked_for(story):
    story.clients.accepted.clear()
    assert found(story) == ["nobody knows of bot 1"]


def test_it_sees_a_bot_in_two_containers_and_meetings_at_once(story):
    story.containers.append(container(id=2, application_uuid="application-2"))
    told = found(story)
    assert "bot 1 was in two meetings at once" in told
    assert "bot 1 had two containers at once" in told


def test_a_container_that_coolify_forgot_is_not_held_against_anybody(story):
    forgotten = container(id=2, ended_at=None, life={"joinedAt": None})
    story.containers.append({**forgotten, "application_uuid": "application-2"})
    story.transitions[0] = transition(1.0, "", "deploying")
    story.transitions.append(
        Transition(**{**vars(story.transitions[0]), "id": 7, "at": 1.5, "from_status": "deploying"})
    )
    story.told = [{"kind": "application deleted", "application": "application-2", "at": 5.0}]
    assert "bot 1 had two containers at once" not in found(story)


def test_it_sees_a_slot_that_was_given_away_while_it_was_held(story):
    story.transitions.insert(1, transition(10.0, "busy", "deploying", number=2, epoch=2))
    assert found(story) == [f"{SLOT} was given away while it was held:"]


def test_it_sees_a_container_of_an_assignment_that_never_was(story):
    story.containers[0]["epoch"] = 7
    [told] = found(story)
    assert "was never assigned" in told


def test_it_sees_a_meeting_that_was_stopped_for_no_reason_of_the_clients(story):
    end_with(story, "FAILED", reason="The deployment took longer than it may")
    assert found(story) == ["the meeting of bot 1 was stopped"]


def test_a_client_may_stop_a_meeting(story):
    end_with(story, "CANCELLED")
    story.clients.cancelled.add(1)
    assert found(story) == []


def test_it_sees_a_cancelling_that_nobody_asked_for(story):
    end_with(story, "CANCELLED")
    assert found(story) == ["bot 1: nobody cancelled it"]


def test_it_sees_a_living_bot_that_was_given_up(story):
    end_with(story, "FAILED", reason="Heartbeat lost: last heartbeat …")
    assert "bot 1 lived and was given up" in found(story)


def test_a_silent_bot_may_be_given_up(story):
    end_with(story, "FAILED", reason="Heartbeat lost: last heartbeat …")
    story.containers[0]["plan"] = {"name": "silent"}
    assert found(story) == []


def test_it_sees_two_cold_pulls_at_once(story):
    story.pulls = [{"cold": True, "overlapped": True}]
    [told] = found(story)
    assert told.startswith("two cold pulls of one image at once")


@pytest.fixture
def waiter(story):
    """Bot 2 was asked for before bot 1 and stands in line until 15 s."""
    story.clients.accepted.append(wish(2))
    story.bots[2] = bot(2, created_at=-1.0)
    story.events += [
        event(-1.0, "QUEUED", number=2),
        event(15.0, "DEPLOYING", number=2),
        event(30.0, "DONE", number=2),
    ]
    return story


def test_it_sees_that_somebody_was_overtaken(waiter):
    assert found(waiter) == ["bot 1 went ahead of bot 2"]


def test_nobody_is_overtaken_who_joined_the_line_unseen(waiter):
    waiter.events[3] = event(-1.0, "QUEUED", number=2, committed=5.0)
    assert found(waiter) == []


def test_nobody_is_overtaken_whose_turn_is_later(waiter):
    waiter.bots[2] = bot(2, created_at=-1.0, priority=200)
    assert found(waiter) == []


@pytest.mark.parametrize("fences", [[1, 3, 2], [1, 2, 2]])
def test_it_sees_a_write_under_a_lost_lease(story, fences):
    story.fences = fences
    [told] = found(story)
    assert told.startswith("a witness wrote with fence 2 when fence")


def test_it_sees_a_slot_that_was_moved_too_late(story):
    story.transitions[-1] = replace(story.transitions[-1], actor="chaos:late")
    [told] = found(story)
    assert told.startswith("a witness moved a slot that had moved on")
