"""Notice soon that a deployment has ended: one call for all starts, while the budget is quiet.

An observation costs two calls and a long list, so its pauses grow with the age of a start. But a
start may fail at any time, and its bot is to start elsewhere within seconds.
"""

import logging
from datetime import datetime

from django.conf import settings
from django.db.models.functions import Now

from coolify.client import Coolify
from coolify.client.errors import CoolifyError
from pool.controller.observation_times import pressure
from slots.deployment import Deployment, DeploymentStatus, Watch

logger = logging.getLogger(__name__)


def a_start_has_ended(coolify: Coolify, *, now: datetime, looked_at: datetime | None) -> bool:
    """Whether Coolify no longer lists one of the deployments that are under way.

    Asked every OBSERVE_STARTS, and less often under pressure. The observation that follows finds
    out how a deployment ended; one that is known to have ended is not asked for again.
    """
    under_way = Deployment.objects.filter(
        status=DeploymentStatus.IN_PROGRESS,
        coolify_ended_at__isnull=True,
        status_since__lt=now - settings.OBSERVE_STARTS / 2,
    )
    awaited = set(under_way.exclude(deployment_uuid="").values_list("deployment_uuid", flat=True))
    if not awaited or not _is_due(now, looked_at):
        return False
    Watch.objects.update(starts_asked_at=Now())
    try:
        active = {each.uuid for each in coolify.deployments(observing=True)}
    except CoolifyError as error:
        logger.info("Starts could not be observed: %s", error)
        return False
    return not awaited <= active


def _is_due(now: datetime, looked_at: datetime | None) -> bool:
    watch = Watch.objects.first()
    if watch is None:
        return False
    quick, seldom = settings.OBSERVE_STARTS, 2 * settings.DEPLOY_POLL_INTERVAL
    pause = quick + (max(seldom, quick) - quick) * pressure()
    return all(at is None or now - at >= pause for at in (looked_at, watch.starts_asked_at))
