"""Pulls beforehand: asked for by operators or by a switch, given out one at a time, ended.

A pre-pull keeps out of the bots' way. It begins on a server in service where no start waits for a
build place, and leaves one place free, or has the server to itself. One server at a time pulls an
image, and one image at a time is pulled on a server.
"""

import logging

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, OuterRef, Q
from django.db.models.functions import Now

from coolify.client.image import is_image
from core.locks import advisory_lock
from pool.images.warmth import is_cleanup_near, is_pulled_by_bot, is_warm
from pool.lock_names import PULL_IMAGE
from servers.health import IN_SERVICE
from servers.limits import build_places
from servers.models import Server
from slots.deployment import ACTIVE, WAITING, Deployment
from slots.images import OPEN, UNDER_WAY, Prepull, PrepullStatus

logger = logging.getLogger(__name__)

ALREADY_THERE = "It is there already"


class NoImage(ValueError):
    """This is not the name of an image with its tag."""


# --- Asking ------------------------------------------------------------------------------------


def ask_prepull(*, image: str, server_uuid: str, actor: str, reason: str) -> Prepull:
    """Have the image pulled there; the one that is open, if there is one. Raises NoImage."""
    if not is_image(image):
        raise NoImage(
            f"{image!r} is not an image with its tag, in lower case, such as "
            "registry.example/bot:1.4"
        )
    with transaction.atomic():
        advisory_lock(PULL_IMAGE.format(image=image, server=server_uuid))
        same = Prepull.objects.filter(image=image, server_uuid=server_uuid, status__in=OPEN)
        if found := same.first():
            return found
        prepull = Prepull.objects.create(
            image=image,
            server_uuid=server_uuid,
            asked_by=actor,
            reason=reason,
            deadline=Now() + settings.IMAGE_SWITCH_TIMEOUT,
        )
    prepull.refresh_from_db()
    log_prepull(prepull, f"asked for by {actor}: {reason}")
    return prepull


def cancel_prepull(prepull: Prepull, *, actor: str, reason: str) -> bool:
    """False if it is over. A pull under way is cancelled in Coolify by the next pass."""
    return end_prepull(prepull, PrepullStatus.CANCELLED, f"{actor}: {reason}")


# --- Whose turn it is --------------------------------------------------------------------------


def give_turns() -> list[Prepull]:
    """Let those begin that may, and return them."""
    waiting = Prepull.objects.filter(status=PrepullStatus.WAITING).order_by("pk")
    return [each for each in waiting if _take_turn(each)]


def _take_turn(prepull: Prepull) -> bool:
    if is_warm(prepull.image, prepull.server_uuid):
        end_prepull(prepull, PrepullStatus.DONE, ALREADY_THERE)
        return False
    if why := _why_not_yet(prepull):
        say(prepull, why)
        return False
    return begin_prepull(prepull)


def _why_not_yet(prepull: Prepull) -> str:
    server = Server.objects.filter(uuid=prepull.server_uuid).first()
    if server is not None and server.state not in IN_SERVICE:
        return f"Waits until the server is back: it is {server.get_state_display().lower()}"
    if is_cleanup_near():
        return "Waits until Coolify's clean-up of images is over"
    if _others_under_way(prepull):
        return "Waits for another pre-pull"
    if not _leaves_a_place(server, prepull.server_uuid):
        return "Waits for a build place that no bot needs"
    return ""


def _others_under_way(prepull: Prepull) -> bool:
    """On a server that is out of service, a pull may hang: it holds up none elsewhere."""
    away = Server.objects.exclude(state__in=IN_SERVICE).values("uuid")
    elsewhere = Q(image=prepull.image) & ~Q(server_uuid__in=away)
    others = Prepull.objects.filter(status__in=UNDER_WAY)
    return others.filter(elsewhere | Q(server_uuid=prepull.server_uuid)).exists()


def _leaves_a_place(server: Server | None, server_uuid: str) -> bool:
    """Never the last build place, unless no bot starts there at all."""
    starts = Deployment.objects.filter(server_uuid=server_uuid, status__in=ACTIVE)
    if starts.filter(status__in=WAITING).exists():
        return False
    under_way = starts.filter(coolify_ended_at__isnull=True).count()
    return not under_way or under_way + 1 < build_places(server)


def begin_prepull(prepull: Prepull) -> bool:
    """Under the lock of the pull: no bot's start leads a pull of the same image meanwhile."""
    with transaction.atomic():
        advisory_lock(PULL_IMAGE.format(image=prepull.image, server=prepull.server_uuid))
        earlier = Prepull.objects.filter(
            image=prepull.image, server_uuid=prepull.server_uuid, pulling=True
        )
        is_pulled = is_pulled_by_bot(prepull.image, prepull.server_uuid) or earlier.exists()
        if is_pulled:
            say(prepull, "Waits for a pull of the same image that is under way")
            return False
        begun = Prepull.objects.filter(pk=prepull.pk, status=PrepullStatus.WAITING).update(
            status=PrepullStatus.STARTING,
            status_since=Now(),
            pulling=True,
            detail="Its application is made",
            deadline=Now() + settings.DEPLOY_TIMEOUT,
        )
    if begun:
        prepull.refresh_from_db()
        log_prepull(prepull, "begins")
    return bool(begun)


# --- The end -----------------------------------------------------------------------------------


def end_late_ones() -> None:
    """A pre-pull that cannot begin in time is given up: that is not the image's fault. While other
    servers get the image one after another, its turn comes."""
    late = Prepull.objects.filter(status=PrepullStatus.WAITING, deadline__lte=Now())
    lately = Now() - settings.IMAGE_SWITCH_TIMEOUT
    done = Prepull.objects.filter(status=PrepullStatus.DONE, ended_at__gt=lately)
    for each in late.exclude(Exists(done.filter(image=OuterRef("image")))):
        end_prepull(each, PrepullStatus.GIVEN_UP, f"It could not begin in time. {each.detail}")


def end_prepull(prepull: Prepull, status: PrepullStatus, detail: str) -> bool:
    """`pulling` stays until Coolify is known to have ended it."""
    same = Prepull.objects.filter(pk=prepull.pk, status__in=OPEN)
    ended = same.update(
        status=status, status_since=Now(), ended_at=Now(), detail=detail, next_try_at=None
    )
    if ended:
        prepull.refresh_from_db()
        level = logging.WARNING if status == PrepullStatus.FAILED else logging.INFO
        log_prepull(prepull, f"{prepull.get_status_display().lower()}: {detail}", level=level)
    return bool(ended)


def say(prepull: Prepull, detail: str) -> None:
    if prepull.detail != detail:
        Prepull.objects.filter(pk=prepull.pk).update(detail=detail)
        prepull.detail = detail


def log_prepull(prepull: Prepull, words: str, *, level: int = logging.INFO) -> None:
    fields = {"image": prepull.image, "server": prepull.server_uuid, "prepull": prepull.pk}
    text = f"[Images] Pre-pull of {prepull.image} on server {prepull.server_uuid}: {words}"
    logger.log(level, "%s", text, extra={"fields": fields})
