"""How a deployment stands, judged from one look at Coolify. Pure: everything it needs is given."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum

from coolify.client.resources import Application
from coolify.client.resources import DeploymentStatus as CoolifyStatus


class Verdict(Enum):
    WAIT = "wait"
    RUNS = "runs"
    ASK_DEPLOYMENT = "ask"  # it is not among the active ones: how did it end?
    ASK_APPLICATION = "ask application"  # it is not in the list: is it gone?
    FAILED = "failed"
    TIMED_OUT = "timed out"


@dataclass(frozen=True, kw_only=True)
class Evidence:
    now: datetime
    deadline: datetime
    application: Application | None  # None: not in a proper list
    is_active: bool  # queued or in progress, by Coolify's own list
    ended_as: str  # what Coolify said of it once it was over; "" while not asked
    ended_at: datetime | None
    grace: timedelta


def judge(seen: Evidence) -> tuple[Verdict, str]:
    """The verdict and its reason in words."""
    verdict, reason = _judge_by_what_is_seen(seen)
    if verdict is Verdict.WAIT and seen.now > seen.deadline:
        return Verdict.TIMED_OUT, "The deployment took longer than it may"
    return verdict, reason


def _judge_by_what_is_seen(seen: Evidence) -> tuple[Verdict, str]:
    application = seen.application
    if application is None:
        return Verdict.ASK_APPLICATION, "The application is not in Coolify's list"
    if application.server_reachable is False:
        return Verdict.WAIT, "Coolify cannot reach the server: its statuses are old"
    if seen.is_active:
        # Until it is over, the status is that of the time before it.
        return Verdict.WAIT, "Coolify is at it"
    if application.status.is_running:
        return Verdict.RUNS, "The container runs"
    if not seen.ended_as:
        return Verdict.ASK_DEPLOYMENT, "The deployment is over"
    if seen.ended_as != CoolifyStatus.FINISHED:
        return Verdict.FAILED, f"Coolify's deployment ended as {seen.ended_as}"
    return _judge_a_finished_one(seen, application)


def _judge_a_finished_one(seen: Evidence, application: Application) -> tuple[Verdict, str]:
    """`finished` means only that the container was started, and statuses may be a minute old."""
    if application.status.is_failed:
        return Verdict.FAILED, f"The container is {application.status}"
    if seen.ended_at is not None and seen.now - seen.ended_at > seen.grace:
        return Verdict.FAILED, f"The container was started and is {application.status}"
    return Verdict.WAIT, "The container was started and is not seen running yet"
