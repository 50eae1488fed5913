"""The periodic work about images."""

from django.db.models import Q, QuerySet
from django.db.models.functions import Now

from coolify.client import Coolify
from coolify.shared import shared_coolify
from pool.controller.prepulls.presence import confirm_doubted_image
from pool.controller.prepulls.steps import advance_prepull, remove_application
from pool.images.prepulls import end_late_ones, give_turns
from pool.images.rollout import advance_rollouts, end_abandoned_prepulls, follow_environment
from slots.images import OPEN, UNDER_WAY, Prepull


def look_after_images() -> None:
    """Follow the environment, pull beforehand, switch servers, tidy up. Safe to repeat: what a
    killed worker left half done is found by its row."""
    coolify = shared_coolify()
    follow_environment()
    end_abandoned_prepulls()
    advance_rollouts()
    end_late_ones()
    give_turns()
    under_way = Prepull.objects.filter(status__in=UNDER_WAY)
    for prepull in _due(under_way) | under_way.filter(deadline__lte=Now()):
        advance_prepull(prepull, coolify)
    _tidy_up(coolify)
    advance_rollouts()
    confirm_doubted_image(coolify)


def _tidy_up(coolify: Coolify) -> None:
    left = Q(application_asked_at__isnull=False) | ~Q(coolify_uuid="") | Q(pulling=True)
    over = Prepull.objects.filter(left).exclude(status__in=OPEN)
    for prepull in _due(over):
        remove_application(prepull, coolify)


def _due(prepulls: QuerySet[Prepull]) -> QuerySet[Prepull]:
    return prepulls.exclude(next_try_at__gt=Now()).order_by("pk")
