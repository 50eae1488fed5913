"""Made-up evidence, for the tests of the checker."""

from tests.chaos.checker import violations
from tests.chaos.clients import Accepted, Wish
from tests.chaos.evidence import Bot, Event, Transition

SLOT, APPLICATION = "pool-zoom-001", "application-1"


def bot(number=1, **fields):
    usual = {
        "platform": "zoom",
        "status": "DONE",
        "priority": 100,
        "failure_reason": "",
        "failure_cause": "",
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
        began=at,
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


def found(evidence):
    evidence.__post_init__()
    return [violation.splitlines()[0] for violation in violations(evidence)]
