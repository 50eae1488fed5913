"""The periodic work about images."""

import logging

from django.conf import settings
from django.db.models import Q, QuerySet
from django.db.models.functions import Now

from coolify.client import Coolify
from coolify.shared import shared_coolify
from core.leases import HeldLease, LeaseLost, LeaseNotAcquired, holding_lease
from pool.controller.prepulls.presence import confirm_doubted_image
from pool.controller.prepulls.steps import PrepullContext, advance_prepull, remove_application
from pool.images.prepulls import end_late_ones, give_turns
from pool.images.rollout import advance_rollouts, end_abandoned_prepulls, follow_environment
from slots.images import OPEN, UNDER_WAY, Prepull

logger = logging.getLogger(__name__)

LEASE = "pre-pulls"
DUE = Q(next_try_at__isnull=True) | Q(next_try_at__lte=Now())


def look_after_images() -> None:
    """Follow the environment, pull beforehand, switch servers, tidy up. Safe to repeat: what a
    killed worker left half done is found by its row."""
    coolify = shared_coolify()
    follow_environment()
    end_abandoned_prepulls()
    advance_rollouts()
    end_late_ones()
    give_turns()
    if (_to_advance() | _to_remove()).exists():
        _work_on_prepulls(coolify)
    advance_rollouts()
    confirm_doubted_image(coolify)


def _work_on_prepulls(coolify: Coolify) -> None:
    try:
        with holding_lease(LEASE, ttl=settings.LOCK_TTL, tries=1) as lease:
            _advance_all(coolify, lease)
    except LeaseNotAcquired:
        pass  # it is logged: another worker is at it
    except LeaseLost as error:
        logger.info("[Images] The pre-pulls are left to another worker: %s", error)


def _advance_all(coolify: Coolify, lease: HeldLease) -> None:
    for prepull in _to_advance():
        advance_prepull(PrepullContext(prepull, lease, coolify))
    for prepull in _to_remove():
        remove_application(PrepullContext(prepull, lease, coolify))


def _to_advance() -> QuerySet[Prepull]:
    """Those under way. A deadline holds, however long Coolify asks to wait."""
    due = DUE | Q(deadline__lte=Now())
    return Prepull.objects.filter(due, status__in=UNDER_WAY).order_by("pk")


def _to_remove() -> QuerySet[Prepull]:
    """Those that are over and may still have something in Coolify."""
    left = Q(application_asked_at__isnull=False) | ~Q(coolify_uuid="") | Q(pulling=True)
    return Prepull.objects.filter(DUE, left).exclude(status__in=OPEN).order_by("pk")
