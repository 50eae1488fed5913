"""Watching what is under way: deployments that Coolify has accepted, and those that failed."""

import logging
import time

from django.conf import settings
from django.db.models import F, Q
from django.db.models.functions import Least, Now

from coolify.client import Coolify
from coolify.client.errors import CoolifyError, NotFound
from coolify.client.resources import DeploymentStatus as CoolifyStatus
from core.clock import database_now
from core.leases import LeaseLost, LeaseNotAcquired
from pool.controller.images import forget_warm_image, pulls_of_the_past, settle_pulls
from pool.controller.observe import Look
from pool.controller.start import ACTOR, condemn, due_deployments
from pool.controller.teardown import LONGEST, bring_down, note_coolify_end, pause_after_error
from pool.controller.verdict import Evidence, Verdict, judge
from pool.lifecycle import handle_slot_error, mark_slot_running
from slots.correlation import story_of
from slots.deployment import UNDER_WAY, Deployment, DeploymentStatus
from slots.locks import with_status_lock
from slots.models import Slot
from slots.status import SlotStatus

logger = logging.getLogger(__name__)


def watch(look: Look, coolify: Coolify, *, until: float) -> None:
    """Judge every deployment under way by one look; ask again only where that is unclear."""
    under_way = Deployment.objects.filter(status=DeploymentStatus.IN_PROGRESS, condemned="")
    for deployment in under_way.select_related("slot", "bot").order_by("id"):
        if time.monotonic() > until:
            break
        with story_of(deployment):
            _watch(deployment, look, coolify)


def _watch(deployment: Deployment, look: Look, coolify: Coolify) -> None:
    try:
        _judge(deployment, look, coolify)
    except CoolifyError as error:
        logger.info("[Pool] %s could not be judged: %s", deployment, error)


def _judge(deployment: Deployment, look: Look, coolify: Coolify) -> None:
    slot = deployment.slot
    active = look.active.get(deployment.deployment_uuid)
    if active is not None and active.status == CoolifyStatus.IN_PROGRESS:
        _note_building(deployment)
    elif active is not None:
        _note_queued(deployment)
    if deployment.start_asked_at is None or look.began_at < deployment.status_since:
        return  # asked before the start was accepted: it says nothing about it
    verdict, reason = judge(_evidence(deployment, look))
    match verdict:
        case Verdict.RUNS:
            _succeed(deployment, slot, reason)
        case Verdict.ASK_DEPLOYMENT:
            _ask_how_it_ended(deployment, coolify)
        case Verdict.ASK_APPLICATION:
            _ask_for_application(deployment, slot, coolify)
        case Verdict.FAILED:
            if deployment.coolify_status == CoolifyStatus.FAILED:
                forget_warm_image(deployment)
            condemn(deployment, reason)
        case Verdict.TIMED_OUT:
            Deployment.objects.filter(pk=deployment.pk).update(timed_out=True)
            condemn(deployment, reason)


def _evidence(deployment: Deployment, look: Look) -> Evidence:
    now = database_now()
    return Evidence(
        now=now,
        deadline=deployment.deadline or now,
        application=look.applications.get(deployment.slot.coolify_uuid),
        is_active=look.is_deploying(deployment.slot.coolify_uuid),
        ended_as=deployment.coolify_status,
        ended_at=deployment.coolify_ended_at,
        grace=settings.DEPLOY_GRACE_PERIOD,
    )


def _note_building(deployment: Deployment) -> None:
    """Its time counts from here: the wait in Coolify's queue is not its fault."""
    Deployment.objects.filter(pk=deployment.pk, building_since__isnull=True).update(
        building_since=Now(), deadline=Now() + settings.DEPLOY_TIMEOUT, reason="Coolify is at it"
    )
    deployment.refresh_from_db(fields=["building_since", "deadline"])


def _note_queued(deployment: Deployment) -> None:
    """It waits behind others, which may hang: it gets as much time again, and no more, because
    Coolify sometimes forgets one in its queue."""
    Deployment.objects.filter(pk=deployment.pk, start_asked_at__isnull=False).update(
        deadline=Least(
            Now() + settings.DEPLOY_TIMEOUT, F("start_asked_at") + 2 * settings.DEPLOY_TIMEOUT
        ),
        reason="Waits in Coolify's own queue",
    )
    deployment.refresh_from_db(fields=["deadline"])


def _succeed(deployment: Deployment, slot: Slot, reason: str) -> None:
    note_coolify_end(deployment, CoolifyStatus.FINISHED)
    mark_slot_running(slot, reason=reason, actor=ACTOR)


def _ask_how_it_ended(deployment: Deployment, coolify: Coolify) -> None:
    try:
        found = coolify.deployment(deployment.deployment_uuid)
    except NotFound:
        _was_never_accepted(deployment)
        return
    if found.is_ended:
        note_coolify_end(deployment, found.status)


def _was_never_accepted(deployment: Deployment) -> None:
    """A yes without a deployment: Coolify's queue was full. Not a failure, only not yet."""
    Deployment.objects.filter(
        pk=deployment.pk,
        status=DeploymentStatus.IN_PROGRESS,
        deployment_uuid=deployment.deployment_uuid,
    ).update(
        status=DeploymentStatus.WAITING_FOR_PLACE,
        status_since=Now(),
        deployment_uuid="",
        start_asked_at=None,
        building_since=None,
        deadline=None,
        next_try_at=Now() + settings.DEPLOY_POLL_INTERVAL,
        reason="Coolify said yes and made no deployment: its queue was full",
    )
    logger.info("[Pool] %s: not accepted by Coolify, tried again later", deployment)


def _ask_for_application(deployment: Deployment, slot: Slot, coolify: Coolify) -> None:
    try:
        coolify.application(slot.coolify_uuid)
    except NotFound:
        note_coolify_end(deployment, "application gone")
        handle_slot_error(slot, "The application is gone from Coolify", actor=ACTOR, recreate=True)


# --- Failed ones -----------------------------------------------------------------------------


def remove_failed(look: Look | None, coolify: Coolify, *, until: float) -> None:
    """Bring down what failed, and only then give its bot another slot."""
    failed = due_deployments().filter(~Q(condemned=""), status__in=UNDER_WAY)
    in_turn = failed.order_by(F("next_try_at").asc(nulls_first=True), "id")
    end = min(until, time.monotonic() + LONGEST)
    for deployment in in_turn.select_related("slot", "bot"):
        if time.monotonic() > end:
            break
        with story_of(deployment):
            _remove_failed(deployment, look, coolify)


def _remove_failed(deployment: Deployment, look: Look | None, coolify: Coolify) -> None:
    try:
        _bring_down(deployment, look, coolify)
    except CoolifyError as error:
        logger.warning("[Pool] %s could not be brought down yet: %s", deployment, error)
        pause = pause_after_error(error, since=deployment.status_since)
        Deployment.objects.filter(pk=deployment.pk).update(next_try_at=Now() + pause)
        _give_up_if_late(deployment)
    except (LeaseNotAcquired, LeaseLost) as error:
        logger.info("[Pool] %s is left to somebody else: %s", deployment, error)


def _bring_down(deployment: Deployment, look: Look | None, coolify: Coolify) -> None:
    with with_status_lock(deployment.slot, tries=1) as lease:
        slot = Slot.objects.get(pk=deployment.slot_id)
        if slot.epoch != deployment.epoch or slot.status != SlotStatus.DEPLOYING:
            return
        gone = bring_down(slot, look=look, coolify=coolify, lease=lease, actor=ACTOR)
    if gone:
        _fail(deployment, slot, place_again=True)
    else:
        _give_up_if_late(deployment)


def _give_up_if_late(deployment: Deployment) -> None:
    """Its container may yet come up: the bot fails rather than run twice."""
    late = deployment.deadline is not None and database_now() > deployment.deadline
    if late:
        _fail(deployment, deployment.slot, place_again=False)


def _fail(deployment: Deployment, slot: Slot, *, place_again: bool) -> None:
    handle_slot_error(
        slot,
        deployment.condemned,
        actor=ACTOR,
        timed_out=deployment.timed_out,
        place_again=place_again,
    )


# --- Pulls -----------------------------------------------------------------------------------


def end_pulls(look: Look, coolify: Coolify, *, until: float) -> None:
    """Find out of leaders whose slot has moved on whether Coolify still pulls for them."""
    settle_pulls()
    for deployment in pulls_of_the_past():
        if time.monotonic() > until:
            break
        if deployment.deployment_uuid and deployment.deployment_uuid not in look.active:
            with story_of(deployment):
                _ask_whether_it_pulls(deployment, coolify)


def _ask_whether_it_pulls(deployment: Deployment, coolify: Coolify) -> None:
    try:
        found = coolify.deployment(deployment.deployment_uuid)
        if found.is_ended:
            note_coolify_end(deployment, found.status)
    except NotFound:
        note_coolify_end(deployment, "never accepted")
    except CoolifyError as error:
        logger.info("[Pool] %s may still pull: %s", deployment, error)
