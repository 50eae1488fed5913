"""An operator's approval of a repair that is held back."""

from django.db import transaction
from django.db.models import QuerySet
from django.db.models.functions import Now

from core.jobs.jobs import ask
from slots.finding import Finding

JOB = "reconcile"


def held_back_repairs() -> QuerySet[Finding]:
    held = Finding.objects.filter(ended_at=None).exclude(held_back="")
    return held.order_by("kind", "platform", "pk")


def approve_repair(finding_id: int, *, seen: str, reason: str, actor: str) -> bool:
    """Let the next pass make this repair, which comes at once. The slot's own steps may be first:
    they believe the operator, too (pool.controller.belief). False if it is no longer held back, or
    its evidence is not what the operator saw.

    If the evidence has changed by then, the approval is void.
    """
    with transaction.atomic():
        finding = held_back_repairs().select_for_update().filter(pk=finding_id).first()
        if finding is None or finding.fingerprint != seen:
            return False
        Finding.objects.filter(pk=finding.pk).update(
            approved_at=Now(), approved_by=actor, approval_reason=reason, approved_evidence=seen
        )
        ask([JOB])
    return True
