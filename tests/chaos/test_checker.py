"""The checker finds every kind of violation. Each test starts from correct evidence."""

from dataclasses import replace

import pytest

from tests.chaos.evidence import Transition
from tests.chaos.made_up import SLOT, bot, container, event, found, transition, wish


def end_with(evidence, to_status, *, reason="", cause="", actor="test"):
    """Let bot 1 be stopped in its call at 20 s."""
    evidence.events[-1] = event(20.0, to_status, reason=reason, actor=actor)
    evidence.bots[1] = bot(status=to_status, failure_reason=reason, failure_cause=cause)
    life = {"endedAt": 20.5, "reason": "stopped", "reported": "IN_CALL"}
    evidence.containers = [container(life=life)]


def test_correct_evidence_has_no_violations(evidence):
    assert found(evidence) == []


def test_it_finds_a_bot_that_ended_twice(evidence):
    evidence.events.append(event(21.0, "FAILED"))
    assert found(evidence) == ["bot 1 ended 2 times"]


def test_it_finds_a_bot_that_was_accepted_and_is_lost(evidence):
    evidence.clients.accepted.append(wish(2))
    assert found(evidence) == ["bot 2 was accepted and is lost"]


def test_it_finds_a_bot_without_a_request(evidence):
    evidence.clients.accepted.clear()
    assert found(evidence) == ["no client asked for bot 1"]


def test_it_finds_a_bot_in_two_containers_and_meetings_at_once(evidence):
    evidence.containers.append(container(id=2, application_uuid="application-2"))
    violations_found = found(evidence)
    assert "bot 1 was in two meetings at once" in violations_found
    assert "bot 1 had two containers at once" in violations_found


def test_a_container_that_coolify_forgot_is_allowed(evidence):
    forgotten = container(id=2, ended_at=None, life={"joinedAt": None})
    evidence.containers.append({**forgotten, "application_uuid": "application-2"})
    evidence.transitions[0] = transition(1.0, "", "deploying")
    evidence.transitions.append(
        Transition(
            **{**vars(evidence.transitions[0]), "id": 7, "at": 1.5, "from_status": "deploying"}
        )
    )
    evidence.coolify_events = [
        {"kind": "application deleted", "application": "application-2", "at": 5.0}
    ]
    assert "bot 1 had two containers at once" not in found(evidence)


def test_a_late_container_that_did_not_join_is_allowed(evidence):
    """It came up after its bot was placed elsewhere, asked, and left."""
    late = container(id=2, application_uuid="application-2", joined_at=None)
    late["past_lives"][0]["joinedAt"] = None
    evidence.containers.append(late)
    assert "bot 1 had two containers at once" not in found(evidence)


def test_it_finds_a_container_that_joined_after_its_assignment_was_over(evidence):
    evidence.containers[0]["past_lives"][0]["joinedAt"] = 25.0
    evidence.transitions[-1] = transition(20.0, "deploying", "stopping", epoch=2)
    assert "container 1 joined after its assignment was over" in found(evidence)


def test_it_finds_a_slot_that_was_assigned_while_it_was_held(evidence):
    evidence.transitions.insert(1, transition(10.0, "busy", "deploying", number=2, epoch=2))
    assert found(evidence) == [f"{SLOT} was assigned while it was held:"]


def test_it_finds_a_container_without_an_assignment(evidence):
    evidence.containers[0]["epoch"] = 7
    [violation] = found(evidence)
    assert "was never assigned" in violation


def test_it_finds_a_meeting_that_was_stopped_without_a_reason(evidence):
    end_with(evidence, "FAILED", reason="The deployment took too long")
    assert found(evidence) == ["the meeting of bot 1 was stopped"]


@pytest.mark.parametrize(("crashes", "complaints"), [(3, 1), (10, 0)])
def test_a_meeting_may_be_stopped_once_its_container_has_crashed_often(
    evidence, crashes, complaints
):
    end_with(evidence, "FAILED", reason="Crashed", cause="container_failed")
    lives = evidence.containers[0]["past_lives"]
    lives[:0] = [{**lives[0], "reason": "crashed", "endedAt": lives[0]["startedAt"]}] * crashes
    assert len(found(evidence)) == complaints


def test_a_client_may_stop_a_meeting(evidence):
    end_with(evidence, "CANCELLED")
    evidence.clients.cancelled[1] = 19.0
    assert found(evidence) == []


def test_it_finds_a_cancellation_without_a_request(evidence):
    end_with(evidence, "CANCELLED")
    assert found(evidence) == ["bot 1: no client cancelled it"]


def test_it_finds_a_running_bot_that_was_given_up(evidence):
    end_with(evidence, "FAILED", reason="Heartbeat lost", cause="heartbeat_lost")
    assert "bot 1 was running and was given up" in found(evidence)


def test_a_silent_bot_may_be_given_up(evidence):
    end_with(evidence, "FAILED", reason="Heartbeat lost", cause="heartbeat_lost")
    evidence.containers[0]["plan"] = {"name": "silent"}
    assert found(evidence) == []


def test_it_finds_two_cold_pulls_at_once(evidence):
    evidence.pulls = [{"cold": True, "overlapped": True}]
    [violation] = found(evidence)
    assert violation.startswith("two cold pulls of one image at once")


def test_it_finds_a_bot_that_was_overtaken(waiter):
    assert found(waiter) == ["bot 1 overtook bot 2"]


def test_a_queue_entry_that_was_not_visible_cannot_be_overtaken(waiter):
    waiter.events[3] = event(-1.0, "QUEUED", number=2, committed=5.0)
    assert found(waiter) == []


def test_a_bot_with_a_later_turn_cannot_be_overtaken(waiter):
    waiter.bots[2] = bot(2, created_at=-1.0, priority=200)
    assert found(waiter) == []


@pytest.mark.parametrize("fences", [[1, 3, 2], [1, 2, 2]])
def test_it_finds_a_write_under_a_lost_lease(evidence, fences):
    evidence.fences = fences
    [violation] = found(evidence)
    assert violation.startswith("a witness wrote with fence 2 after fence")


def test_it_finds_a_slot_that_was_moved_too_late(evidence):
    evidence.transitions[-1] = replace(evidence.transitions[-1], actor="chaos:late")
    [violation] = found(evidence)
    assert violation.startswith("a witness moved a slot that had moved on")


@pytest.mark.parametrize(("ended", "complaints"), [(40.0, 1), (64.0, 0)])
def test_it_finds_a_bot_that_gave_up_before_its_time(evidence, ended, complaints):
    evidence.events[:] = [event(2.0, "PENDING"), event(4.0, "QUEUED"), event(ended, "FAILED")]
    evidence.bots[1] = bot(status="FAILED", failure_cause="queue_timeout", ended_at=ended)
    complaint = "expired before its queue timeout"
    assert len([each for each in found(evidence) if complaint in each]) == complaints


def test_a_bot_that_lost_its_server_gives_up_a_start_later_at_the_latest(evidence):
    moves = (2.0, "PENDING"), (3.0, "DEPLOYING"), (80.0, "QUEUED"), (88.0, "FAILED")
    evidence.events[:] = [event(at, status) for at, status in moves]
    evidence.bots[1] = bot(status="FAILED", failure_cause="queue_timeout", ended_at=88.0)
    assert not [each for each in found(evidence) if "expired before its queue timeout" in each]
