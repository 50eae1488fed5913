"""A slot's Coolify application: created once, found again after a lost answer, replaced when it
is gone."""

from datetime import UTC, datetime

from django.conf import settings
from django.db.models.functions import Coalesce, Now

from bots.models import Bot
from coolify.client import Coolify
from coolify.client.errors import CoolifyError, NotFound
from coolify.client.image import Image
from coolify.client.resources import Application
from pool.controller.belief.answers import believed_list, require_gone
from pool.controller.context import SlotContext
from slots.description import wanted_description
from slots.history import log_recreation, note
from slots.models import Slot, SlotTransition
from slots.status import ContainerStatus

LONG_AGO = datetime.min.replace(tzinfo=UTC)
# Raise it when `APPLICATION_SETTINGS` of the client change.
SETTINGS_VERSION = 1
APPLICATION_GONE = "The application is gone from Coolify"


def make_application(context: SlotContext, *, image: str) -> None:
    """Give the slot a new application and record its uuid.

    Names are not unique in Coolify and its create call is not safe to repeat. After a lost answer,
    search for the application before creating another one.
    """
    description = wanted_description(context.slot)
    uuid, its_image = _left_by_a_lost_answer(context), ""
    if not uuid:
        Slot.objects.filter(pk=context.slot.pk).update(application_asked_at=Now())
        context.lease.check()
        uuid, its_image = _create(context, image=image, description=description), image
    _remember(context, uuid, image=its_image, description=description)


def fit_application(context: SlotContext, image: str) -> None:
    """Make the next start use this image. An application of an earlier Botpool also gets the
    settings that a new one has, once."""
    slot = context.slot
    has_image, has_settings = slot.image == image, slot.settings_version >= SETTINGS_VERSION
    if has_image and has_settings:
        return
    context.lease.check()
    context.coolify.update_application(
        slot.coolify_uuid,
        image=None if has_image else Image.parse(image),
        settings=not has_settings,
    )
    fitted = {"image": image, "settings_version": SETTINGS_VERSION}
    with context.lease.fenced():  # a late write would hide a newer image
        Slot.objects.filter(pk=slot.pk, coolify_uuid=slot.coolify_uuid).update(**fitted)
    slot.image, slot.settings_version = image, SETTINGS_VERSION


def forget_missing_application(context: SlotContext) -> None:
    """Coolify says that it has no such application: detach it, if that may be believed."""
    require_gone(context.coolify, context.slot.coolify_uuid)
    forget_application(context, reason=APPLICATION_GONE)


def delete_application(slot: Slot, coolify: Coolify) -> None:
    """Have Coolify delete the slot's application, which is not forgotten yet. After a CoolifyError
    it may be deleted all the same."""
    same = Slot.objects.filter(pk=slot.pk, coolify_uuid=slot.coolify_uuid)
    same.update(deletion_asked_at=Coalesce("deletion_asked_at", Now()))
    try:
        coolify.delete_application(slot.coolify_uuid)
    except NotFound:
        require_gone(coolify, slot.coolify_uuid)  # then it is already deleted in Coolify


def forget_application(
    context: SlotContext,
    *,
    reason: str,
    kind: SlotTransition.Kind = SlotTransition.Kind.APPLICATION_GONE,
) -> None:
    """Detach an application that is gone; its uuid stays in the history. What was observed of it
    says nothing about the next one."""
    slot = context.slot
    with context.lease.fenced():
        words = f"{reason} (application {slot.coolify_uuid})"
        note(slot, words, actor=context.actor, kind=kind)
        Slot.objects.filter(pk=slot.pk, coolify_uuid=slot.coolify_uuid).update(
            coolify_uuid="",
            image="",
            description_written="",
            application_asked_at=None,
            deletion_asked_at=None,
            application_missing=False,
            application_state="",
            container_status=ContainerStatus.IDLE,
            container_seen_at=None,
            server_unreachable=False,
        )
    slot.coolify_uuid = slot.image = ""


def _left_by_a_lost_answer(context: SlotContext) -> str:
    slot = context.slot
    if slot.application_asked_at is None:
        return ""
    environment = our_environment(context.coolify)
    same_name = [app for app in believed_list(context.coolify) if app.name == slot.name]
    candidates = [
        app for app in same_name if _may_be_the_lost_one(app, slot, environment=environment)
    ]
    newest = max(candidates, key=lambda app: app.created_at or LONG_AGO, default=None)
    return newest.uuid if newest else ""


def _may_be_the_lost_one(application: Application, slot: Slot, *, environment: int | None) -> bool:
    """It has to be in our environment (another Botpool may use the same names elsewhere), stopped,
    and without a slot. An earlier application of this slot may be about to be deleted."""
    if environment is None or application.environment_id != environment:
        return False
    uuid = application.uuid
    was_its_own = SlotTransition.objects.filter(slot=slot, coolify_uuid=uuid).exists()
    is_taken = Slot.objects.filter(coolify_uuid=uuid).exists()
    return application.status.is_exited and not was_its_own and not is_taken


def our_environment(coolify: Coolify) -> int | None:
    name = settings.COOLIFY_ENVIRONMENT_NAME
    environments = coolify.environments(settings.COOLIFY_PROJECT_UUID)
    return next((each.id for each in environments if each.name == name), None)


def _create(context: SlotContext, *, image: str, description: str) -> str:
    slot = context.slot
    try:
        return context.coolify.create_application(
            project_uuid=settings.COOLIFY_PROJECT_UUID,
            server_uuid=slot.server_uuid,
            environment_name=settings.COOLIFY_ENVIRONMENT_NAME,
            destination_uuid=settings.COOLIFY_DESTINATION_UUID or None,
            image=Image.parse(image),
            name=slot.name,
            description=description,
        ).uuid
    except CoolifyError as error:
        if not error.maybe_done:  # nothing was created, so there is nothing to find
            Slot.objects.filter(pk=slot.pk).update(application_asked_at=None)
        raise


def _remember(context: SlotContext, uuid: str, *, image: str, description: str) -> None:
    slot = context.slot
    with context.lease.fenced():
        # Lock order: the bot before its slot.
        Bot.objects.filter(slot=slot, slot__epoch=slot.epoch).update(coolify_service_uuid=uuid)
        Slot.objects.filter(pk=slot.pk, coolify_uuid="").update(
            coolify_uuid=uuid,
            image=image,
            settings_version=SETTINGS_VERSION if image else 0,
            description_written=description,
            application_asked_at=None,
        )
        note(
            slot,
            "Application created",
            actor=context.actor,
            kind=SlotTransition.Kind.APPLICATION_CREATED,
            coolify_uuid=uuid,
        )
    log_recreation(slot, new_uuid=uuid)
    slot.coolify_uuid, slot.image = uuid, image
    slot.settings_version = SETTINGS_VERSION if image else 0
