"""Quarantine: a slot whose starts fail again and again gets no further bot.

Only if the slot is to blame: another slot of its platform must have started a bot meanwhile. A
broken image or a Coolify that refuses everything takes no slot out of service.
"""

from django.conf import settings

from bots.status import FailureCause
from pool.capacity import pool_sizes
from pool.failures.recent import ENDED, FAILED
from slots.deployment import Deployment, DeploymentStatus
from slots.history import note
from slots.models import Slot

# At most this share of a pool is in quarantine, but one slot always may be.
LARGEST_SHARE = 0.2


def quarantine_if_failing(slot: Slot, *, actor: str) -> bool:
    """Cordon the slot if its last starts all failed. Call in the transaction of the failure."""
    limit: int = settings.QUARANTINE_AFTER
    if limit == 0 or slot.cordoned:
        return False
    own = Deployment.objects.filter(slot=slot, status__in=ENDED)
    own = own.exclude(failure_cause=FailureCause.SERVER_LOST)  # its server was to blame
    last = list(own.order_by("-pk")[:limit])
    if len(last) < limit or not all(each.status in FAILED for each in last):
        return False
    if not _others_start(slot, since=last[-1]) or _too_many(slot.platform):
        return False
    in_service = Slot.objects.filter(pk=slot.pk, cordoned=False)
    if not in_service.update(cordoned=True, quarantined=True):
        return False
    note(slot, f"Quarantined: its last {limit} starts failed, others started", actor=actor)
    return True


def _others_start(slot: Slot, *, since: Deployment) -> bool:
    others = Deployment.objects.filter(slot__platform=slot.platform, pk__gt=since.pk)
    return others.exclude(slot=slot).filter(status=DeploymentStatus.FINISHED).exists()


def _too_many(platform: str) -> bool:
    quarantined = Slot.objects.filter(platform=platform, quarantined=True).count()
    return quarantined >= max(1, int(pool_sizes()[platform] * LARGEST_SHARE))
