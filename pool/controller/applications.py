"""The Coolify application of a slot: made once, found again after a lost answer, replaced when
it is gone. The caller holds the slot's lease."""

from datetime import datetime

from django.conf import settings

from bots.models import Bot
from coolify.client import Coolify
from coolify.client.errors import CoolifyError
from coolify.client.image import Image
from coolify.client.resources import Application
from core.clock import database_now
from core.leases import HeldLease
from slots.description import wanted_description
from slots.history import note
from slots.models import Slot, SlotTransition


def make_application(
    slot: Slot, *, image: str, coolify: Coolify, lease: HeldLease, actor: str
) -> None:
    """Give the slot a new application and write its uuid down.

    Names are not unique in Coolify and its create call cannot be repeated safely: after a lost
    answer the application is looked for before another one is made.
    """
    description = wanted_description(slot)
    uuid, its_image = _left_by_a_lost_answer(slot, coolify), ""
    if not uuid:
        _note_asked(slot, database_now())
        lease.check()
        uuid, its_image = _create(slot, coolify, image=image, description=description), image
    made = {"coolify_uuid": uuid, "image": its_image, "description_written": description}
    _remember(slot, made, lease=lease, actor=actor)


def set_image(slot: Slot, image: str, *, coolify: Coolify, lease: HeldLease) -> None:
    """Let the next start be made from this image, where the application has another one."""
    if slot.image != image:
        lease.check()
        coolify.update_application(slot.coolify_uuid, image=Image.parse(image))
        with lease.fenced():  # a late writer would hide that another has set the next image
            Slot.objects.filter(pk=slot.pk, coolify_uuid=slot.coolify_uuid).update(image=image)
        slot.image = image


def forget_application(slot: Slot, *, reason: str, lease: HeldLease, actor: str) -> None:
    """The application is gone; its uuid stays in the history."""
    with lease.fenced():
        note(slot, f"{reason} (application {slot.coolify_uuid})", actor=actor)
        Slot.objects.filter(pk=slot.pk, coolify_uuid=slot.coolify_uuid).update(
            coolify_uuid="", image="", description_written="", application_asked_at=None
        )
    slot.coolify_uuid = slot.image = ""


def _left_by_a_lost_answer(slot: Slot, coolify: Coolify) -> str:
    if slot.application_asked_at is None:
        return ""
    environment = our_environment(coolify)
    look_alikes = [app for app in coolify.applications() if app.name == slot.name]
    candidates = [
        app for app in look_alikes if _may_be_the_lost_one(app, slot, environment=environment)
    ]
    newest = max(candidates, key=lambda app: app.id or 0, default=None)
    return newest.uuid if newest else ""


def _may_be_the_lost_one(application: Application, slot: Slot, *, environment: int | None) -> bool:
    """Certainly in our environment (another Botpool may use the same names elsewhere), not in use,
    and of no slot, now or before: an old one may be about to be deleted."""
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


def _note_asked(slot: Slot, at: datetime | None) -> None:
    Slot.objects.filter(pk=slot.pk).update(application_asked_at=at)


def _create(slot: Slot, coolify: Coolify, *, image: str, description: str) -> str:
    try:
        return _create_once(slot, coolify, image=image, description=description)
    except CoolifyError as error:
        if not error.maybe_done:
            _note_asked(slot, None)  # there is nothing to be looked for
        raise


def _create_once(slot: Slot, coolify: Coolify, *, image: str, description: str) -> str:
    return coolify.create_application(
        project_uuid=settings.COOLIFY_PROJECT_UUID,
        server_uuid=slot.server_uuid,
        environment_name=settings.COOLIFY_ENVIRONMENT_NAME,
        destination_uuid=settings.COOLIFY_DESTINATION_UUID or None,
        image=Image.parse(image),
        name=slot.name,
        description=description,
    ).uuid


def _remember(slot: Slot, made: dict[str, str], *, lease: HeldLease, actor: str) -> None:
    uuid = made["coolify_uuid"]
    with lease.fenced():
        # In the order of all others: the bot before its slot.
        Bot.objects.filter(slot=slot, slot__epoch=slot.epoch).update(coolify_service_uuid=uuid)
        Slot.objects.filter(pk=slot.pk, coolify_uuid="").update(**made, application_asked_at=None)
        note(slot, "Application made", actor=actor, coolify_uuid=uuid)
    slot.coolify_uuid, slot.image = uuid, made["image"]
