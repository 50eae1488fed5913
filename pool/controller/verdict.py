"""The verdict on a deployment, from the last observation. Pure: reads no rows, makes no calls."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum

from coolify.client.resources import DeploymentStatus as CoolifyStatus
from slots.status import ContainerStatus


class Verdict(Enum):
    WAIT = "wait"
    RUNS = "runs"
    ASK_DEPLOYMENT = "ask"  # it is no longer active: how did it end?
    ASK_APPLICATION = "ask application"  # it is not in Coolify's list: is it gone?
    DEPLOYMENT_FAILED = "deployment failed"
    CONTAINER_FAILED = "container failed"
    TIMED_OUT = "timed out"


@dataclass(frozen=True, kw_only=True)
class Evidence:
    now: datetime
    deadline: datetime
    container: ContainerStatus
    application_missing: bool  # not in a proper list
    server_unreachable: bool
    ended_as: str  # Coolify's status of the ended deployment; "" if not asked yet
    ended_at: datetime | None
    grace: timedelta


def judge(seen: Evidence) -> tuple[Verdict, str]:
    """The verdict and its reason."""
    verdict, reason = _judge_by_observation(seen)
    if verdict is Verdict.WAIT and seen.now > seen.deadline:
        return Verdict.TIMED_OUT, "The deployment took too long"
    return verdict, reason


def _judge_by_observation(seen: Evidence) -> tuple[Verdict, str]:
    if seen.application_missing:
        return Verdict.ASK_APPLICATION, "The application is not in Coolify's list"
    if seen.server_unreachable:
        return Verdict.WAIT, "Coolify cannot reach the server: its statuses are out of date"
    if seen.container == ContainerStatus.DEPLOYING:
        # Until it ends, the application's status is from before it.
        return Verdict.WAIT, "Deployment in progress"
    if not seen.ended_as:
        # Asked even if a container runs: it may be an earlier one, which Docker did not stop.
        return Verdict.ASK_DEPLOYMENT, "The deployment has ended"
    if seen.ended_as != CoolifyStatus.FINISHED:
        return Verdict.DEPLOYMENT_FAILED, f"Coolify's deployment ended as {seen.ended_as}"
    if seen.container == ContainerStatus.RUNNING:
        return Verdict.RUNS, "The container is running"
    return _judge_a_finished_one(seen)


def _judge_a_finished_one(seen: Evidence) -> tuple[Verdict, str]:
    """`finished` means only that the container was started, and statuses may be a minute old."""
    state = seen.container.lower()
    if seen.container == ContainerStatus.FAILED:
        return Verdict.CONTAINER_FAILED, f"The container is {state}"
    if seen.ended_at is not None and seen.now - seen.ended_at > seen.grace:
        return Verdict.CONTAINER_FAILED, f"The container was started but is {state}"
    return Verdict.WAIT, "The container was started but was not observed running yet"
