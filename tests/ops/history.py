"""Bots and deployments with a history, for tests of code that reads history."""

from datetime import datetime, timedelta

from django.db import connection

from bots.models import Bot, BotEvent
from bots.status import BotStatus, FailureCause
from core.clock import database_now
from slots.models import Deployment, Slot
from tests.factories import BotFactory

_S = BotStatus


def an_ended_bot(
    *,
    waited: float,
    started: float,
    then_waited: float | None = None,
    ended_as: str = _S.DONE,
    **fields: object,
) -> Bot:
    """A bot that has just ended, after waiting and starting for so many seconds.

    With `then_waited`, its first placement failed and it waited a second time.
    """
    steps = [("", _S.PENDING, 0.0), (_S.PENDING, _S.QUEUED, 0.0)]
    steps += [(_S.QUEUED, _S.DEPLOYING, waited)]
    if then_waited is not None:
        steps += [(_S.DEPLOYING, _S.QUEUED, 1.0), (_S.QUEUED, _S.DEPLOYING, then_waited)]
    steps += [(_S.DEPLOYING, _S.JOINING_CALL, started), (_S.JOINING_CALL, ended_as, 60.0)]
    now = database_now()
    if ended_as == _S.FAILED:
        fields = {"failure_reason": "test", "failure_cause": FailureCause.UNKNOWN, **fields}
    bot = BotFactory(
        status=ended_as, previous_status=_S.JOINING_CALL, ended_at=now, created_at=now, **fields
    )
    _write_events(bot, steps, end=now)
    return bot


def _write_events(bot: Bot, steps: list[tuple[str, str, float]], *, end: datetime) -> None:
    at = end - timedelta(seconds=sum(step[2] for step in steps))
    for before, after, seconds in steps:
        at += timedelta(seconds=seconds)
        BotEvent.objects.create(
            bot=bot, at=at, from_status=before, to_status=after, reason="test", actor="test"
        )


def a_deployment(
    *, bot: Bot, slot: Slot, image: str = "warm", ended: str = "finished", **fields: object
) -> Deployment:
    """A deployment that ended a minute ago."""
    now = database_now() - timedelta(minutes=1)
    return Deployment.objects.create(
        slot=slot,
        slot_name=slot.name,
        bot=bot,
        epoch=1,
        image="registry.example/bot:1.0",
        status=ended,
        leader=image == "pulled",
        waited_for_image=image == "waited",
        **{"created_at": now - timedelta(seconds=30), "ended_at": now, **fields},
    )


def time_passes(by: timedelta = timedelta(minutes=1)) -> None:
    """Move all history, and the time up to which it is counted, into the past."""
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE bots_botevent DISABLE TRIGGER USER")
        cursor.execute("UPDATE bots_botevent SET at = at - %s", [by])
        cursor.execute("ALTER TABLE bots_botevent ENABLE TRIGGER USER")
        cursor.execute("UPDATE botpool_tallymark SET counted_until = counted_until - %s", [by])
