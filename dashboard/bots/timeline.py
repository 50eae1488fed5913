"""A bot's timeline, from its request to its end."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import zip_longest

from bots.models import BotEvent
from slots.models import Deployment, SlotTransition

SHOWN = 200


@dataclass(frozen=True, kw_only=True)
class Step:
    at: datetime
    what: str
    tone: str
    reason: str
    actor: str
    lasted: timedelta | None = None


def story_of(
    events: list[BotEvent], deployments: list[Deployment], transitions: list[SlotTransition]
) -> list[Step]:
    steps = [*_of_bot(events), *_of_deployments(deployments), *_of_slots(transitions)]
    return sorted(steps, key=lambda step: step.at)


def _of_bot(events: list[BotEvent]) -> Iterator[Step]:
    for event, after in zip_longest(events, events[1:]):
        end = after.at if after else None
        yield Step(
            at=event.at,
            what=event.to_status,
            tone=event.to_status,
            reason=event.reason,
            actor=event.actor,
            lasted=end - event.at if end else None,
        )


def _of_deployments(deployments: list[Deployment]) -> Iterator[Step]:
    for each in deployments:
        milestones = (
            (each.start_asked_at, "start requested", _wait_for_image(each)),
            (each.building_since, "Coolify: building", f"deployment {each.deployment_uuid}"),
            (each.coolify_ended_at, f"Coolify: {each.coolify_status or 'ended'}", _failure(each)),
        )
        for at, what, reason in milestones:
            if at is not None:
                yield Step(at=at, what=what, tone="step", reason=reason, actor=each.slot_name)


def _failure(deployment: Deployment) -> str:
    return deployment.reason if deployment.failure_cause else ""


def _wait_for_image(deployment: Deployment) -> str:
    if deployment.leader:
        return "First with this image on the server: pulls it for the others"
    if deployment.waited_for_image:
        return "Waited for another deployment to pull the image"
    return "The image was already on the server"


def _of_slots(transitions: list[SlotTransition]) -> Iterator[Step]:
    for each in transitions:
        if each.to_status in ("stopping", "error", "idle") and each.to_status != each.from_status:
            yield Step(
                at=each.at,
                what=f"slot {each.to_status}",
                tone="step",
                reason=each.reason,
                actor=each.slot_name,
            )
