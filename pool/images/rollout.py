"""The switch to a new image: a changed `BOT_IMAGE_…` is pulled on each server before bots use it
there. Until then they go on with the old one.

An image that could not be pulled is never switched to. One that merely takes longer than
IMAGE_SWITCH_TIMEOUT is used all the same: the first bot pulls it. Unless a server has shown that it
can be pulled, that is tried on one server alone.
"""

import logging
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import Max, Q, QuerySet
from django.db.models.functions import Now

from core.clock import database_now, process_started_at
from pool.images.in_use import has_rejected_image, image_in_use
from pool.images.prepulls import ask_prepull, end_prepull
from pool.images.trials import failed_pulls, failed_starts, is_proven
from pool.images.warmth import is_warm
from servers.health import IN_SERVICE
from servers.models import Server
from slots.deployment import WAITING, Deployment, DeploymentStatus
from slots.history import log_deployment
from slots.images import OPEN, UNDER_WAY, ImageSwitch, PlatformImage, Prepull, PrepullStatus
from slots.models import Slot

logger = logging.getLogger(__name__)

ACTOR = "images"
PULL_ATTEMPTS = 3
# Before the second attempt; the pause before the third is four times as long.
PULL_PAUSE = timedelta(minutes=1)
NOT_RESTORED = {"restored_at": None, "restored_by": "", "restored_reason": ""}
# Of a start that Coolify knows nothing about.
IN_LINE_AGAIN = {
    "status": DeploymentStatus.WAITING_FOR_IMAGE,
    "status_since": Now(),
    "waited_for_image": False,
    "leader": False,
    "pulling": False,
    "start_asked_at": None,
}
REJECTED = "Its image is no longer used: it waits for the one that is"


class NothingToRestore(Exception):
    """There is no earlier image, or it is in use already."""


# --- The environment names an image ------------------------------------------------------------


def follow_environment() -> None:
    """Begin a switch for each platform whose image has changed in the environment. Processes that
    were started earlier may still have the old one."""
    known = PlatformImage.objects.in_bulk()
    for platform, image in settings.BOT_IMAGES.items():
        row = known.get(platform)
        if row is not None and row.named == image:
            continue
        at = process_started_at()
        if row is None:
            first = PlatformImage(platform=platform, image=image, named=image, named_at=at)
            PlatformImage.objects.bulk_create([first], ignore_conflicts=True)
        elif row.named_at <= at:
            _begin(row, image, at=at)


def _begin(row: PlatformImage, image: str, *, at: datetime) -> None:
    with transaction.atomic():
        rows = PlatformImage.objects.select_for_update()
        same = rows.filter(pk=row.pk, named=row.named).first()
        if same is None:
            return
        # An image that an operator has rejected is none to go back to.
        previous = same.previous if same.restored_at is None else ""
        PlatformImage.objects.filter(pk=row.pk).update(
            named=image, named_at=at, previous=previous, **NOT_RESTORED
        )
        _want(row.platform, image)


def _want(platform: str, image: str) -> None:
    """Switch to this image. A platform without slots has no bots to protect: it does at once."""
    row = PlatformImage.objects.get(pk=platform)
    ImageSwitch.objects.filter(platform=platform).delete()
    is_new = image != row.image
    PlatformImage.objects.filter(pk=platform).update(
        wanted=image if is_new else "", wanted_since=Now() if is_new else None
    )
    _use_it_in_line(platform, row.image)
    _log(platform, f"to switch from {row.image} to {image}" if is_new else f"stays with {image}")
    if is_new and not Slot.objects.filter(platform=platform).exists():
        _finish(PlatformImage.objects.get(pk=platform))


# --- The switch, server by server --------------------------------------------------------------


def advance_rollouts() -> None:
    for row in PlatformImage.objects.exclude(wanted=""):
        _take_back_failed_ones(row)
        servers = settings.COOLIFY_SERVER_UUIDS or [""]
        left = [server for server in servers if not _advance(row, server)]
        if not left and is_proven(row):
            _finish(row)


def _advance(row: PlatformImage, server: str) -> bool:
    """Whether the server has switched."""
    switched = ImageSwitch.objects.filter(platform=row.platform, server_uuid=server)
    if switched.exists():
        return True
    if is_warm(row.wanted, server):
        return _switch(row, server, "the image is there")
    if is_overdue(row) and not failed_pulls(row) and _may_try(row, server):
        return _switch(row, server, "IMAGE_SWITCH_TIMEOUT is over, the first bot pulls it")
    _ask(row, server)
    return False


def _may_try(row: PlatformImage, server: str) -> bool:
    """Not where it is pulled at this moment, or an operator has cancelled that. Of an image that no
    server ever had, bots on one server try whether it can be pulled."""
    last = _own_prepulls(row, server).last()
    if last is not None and last.status in (*UNDER_WAY, PrepullStatus.CANCELLED):
        return False
    if is_proven(row):
        return True
    away = Server.objects.exclude(state__in=IN_SERVICE).values_list("uuid", flat=True)
    trials = ImageSwitch.objects.filter(platform=row.platform).exclude(server_uuid__in=away)
    return server not in away and not trials.exists()


def _take_back_failed_ones(row: PlatformImage) -> None:
    """Where bots could not pull the image, they use the old one again."""
    servers = set(failed_starts(row).values_list("server_uuid", flat=True))
    switched = ImageSwitch.objects.filter(platform=row.platform, server_uuid__in=servers)
    for switch in switched:
        if is_warm(row.wanted, switch.server_uuid):
            continue
        with transaction.atomic():
            if not _locked(row):
                return
            switch.delete()
            _use_it_in_line(row.platform, row.image, server_uuid=switch.server_uuid)
        words = f"{row.wanted} could not be pulled on server {switch.server_uuid}, so bots there"
        _log(row.platform, f"{words} use {row.image} again", level=logging.WARNING)


def is_overdue(row: PlatformImage) -> bool:
    """Servers pull one after another: as long as one after the other is done, the rest wait."""
    now = database_now()
    since = row.wanted_since or now
    done = Prepull.objects.filter(image=row.wanted, status=PrepullStatus.DONE, ended_at__gt=since)
    last: datetime = done.aggregate(at=Max("ended_at"))["at"] or since
    return now - last > settings.IMAGE_SWITCH_TIMEOUT


def _ask(row: PlatformImage, server: str) -> None:
    """The automatic pre-pull of a switch: again after a failure, a few times."""
    same = Prepull.objects.filter(image=row.wanted, server_uuid=server, status__in=OPEN)
    if same.exists() or not _is_due(_own_prepulls(row, server)):
        return
    reason = f"The new image of {row.get_platform_display()}"
    ask_prepull(image=row.wanted, server_uuid=server, actor=ACTOR, reason=reason)


def _own_prepulls(row: PlatformImage, server: str) -> QuerySet[Prepull]:
    """Of the wanted image on this server since it is wanted, or still open."""
    same = Prepull.objects.filter(image=row.wanted, server_uuid=server)
    since_then = Q(created_at__gte=row.wanted_since or row.since)
    return same.filter(since_then | Q(status__in=OPEN)).order_by("pk")


def _is_due(earlier: QuerySet[Prepull]) -> bool:
    """One that was done counts as no attempt: a clean-up may have removed the image since."""
    over = [each for each in earlier if each.ended_at is not None]
    if not over:
        return True
    tries = [each for each in over if each.status != PrepullStatus.DONE]
    last = over[-1]
    if last.status == PrepullStatus.CANCELLED or len(tries) >= PULL_ATTEMPTS:
        return False
    return _pause_is_over(last.ended_at or database_now(), attempts=len(tries) or 1)


def _pause_is_over(ended_at: datetime, *, attempts: int) -> bool:
    return database_now() - ended_at > PULL_PAUSE * 4 ** (attempts - 1)


def end_abandoned_prepulls() -> None:
    """Those of a switch whose image no platform uses or is to use any more."""
    rows = PlatformImage.objects.all()
    ours = Prepull.objects.filter(status__in=OPEN, asked_by=ACTOR)
    abandoned = ours.exclude(image__in=rows.values("image"))
    for each in abandoned.exclude(image__in=rows.values("wanted")):
        end_prepull(each, PrepullStatus.CANCELLED, "No longer wanted")


def _switch(row: PlatformImage, server: str, why: str) -> bool:
    """Only if the image is still wanted: an operator may have restored the previous one."""
    with transaction.atomic():
        if not _locked(row):
            return False
        switch = ImageSwitch(platform=row.platform, server_uuid=server, image=row.wanted)
        ImageSwitch.objects.bulk_create([switch], ignore_conflicts=True)
    _log(row.platform, f"bots on server {server} use {row.wanted} from now on: {why}")
    return True


def _finish(row: PlatformImage) -> None:
    with transaction.atomic():
        if not _locked(row):
            return
        PlatformImage.objects.filter(pk=row.pk).update(
            image=row.wanted, previous=row.image, since=Now(), wanted="", wanted_since=None
        )
        ImageSwitch.objects.filter(platform=row.platform).delete()
    _log(row.platform, f"all servers use {row.wanted}; before, {row.image}")


def _locked(row: PlatformImage) -> bool:
    same = PlatformImage.objects.select_for_update().filter(pk=row.pk, wanted=row.wanted)
    return same.first() is not None


# --- Back to the previous image ----------------------------------------------------------------


def restore_image(platform: str, *, reason: str, actor: str) -> str:
    """Use the previous image again, on all servers at once, and return it. That holds until the
    environment names yet another image, or `follow_again`."""
    with transaction.atomic():
        row = PlatformImage.objects.select_for_update().filter(pk=platform).first()
        image = image_to_restore(row)
        if row is None or not image:
            raise NothingToRestore("There is no earlier image")
        changes = {} if row.wanted else {"image": image, "previous": row.image, "since": Now()}
        PlatformImage.objects.filter(pk=platform).update(
            wanted="",
            wanted_since=None,
            restored_at=Now(),
            restored_by=actor,
            restored_reason=reason,
            **changes,
        )
        ImageSwitch.objects.filter(platform=platform).delete()
        _use_it_in_line(platform, image)
    _log(platform, f"{image} was restored by {actor}: {reason}", level=logging.WARNING)
    return image


def image_to_restore(row: PlatformImage | None) -> str:
    """During a switch, the one that is in use; else the one before. Empty if there is none."""
    if row is None or row.restored_at is not None:
        return ""
    return row.image if row.wanted else row.previous


def follow_again(platform: str, *, reason: str, actor: str) -> bool:
    """Undo `restore_image`: switch to the environment's image as if it were new."""
    with transaction.atomic():
        row = PlatformImage.objects.select_for_update().filter(pk=platform).first()
        if row is None or row.restored_at is None:
            return False
        PlatformImage.objects.filter(pk=platform).update(**NOT_RESTORED)
        _want(platform, row.named)
    _log(platform, f"the environment's image is followed again, by {actor}: {reason}")
    return True


def _use_it_in_line(platform: str, image: str, **where: str) -> None:
    """Starts that have not begun use it, too. One that gets its slot at this very moment is put
    right when it begins (`line_up_again`)."""
    waiting = Deployment.objects.filter(status__in=WAITING, slot__platform=platform, **where)
    others = waiting.exclude(image=image)
    # Locked in the order in which build places are given.
    in_order = others.order_by("turn", "id").select_for_update(of=("self",), no_key=True)
    ids = list(in_order.values_list("pk", flat=True))
    Deployment.objects.filter(pk__in=ids).update(image=image, **IN_LINE_AGAIN)


def line_up_again(start: Deployment, *, platform: str) -> None:
    """A start that was not sent and has a rejected image waits for the one in use, like any other:
    that may have to be pulled."""
    place = {"platform": platform, "server": start.server_uuid}
    rejected = has_rejected_image(**place)
    in_use = image_in_use(**place, named=settings.BOT_IMAGES[platform])
    this = Deployment.objects.filter(rejected, pk=start.pk, status=DeploymentStatus.STARTING)
    if this.update(image=in_use, reason=REJECTED, **IN_LINE_AGAIN):
        log_deployment(start, to=DeploymentStatus.WAITING_FOR_IMAGE, reason=REJECTED)


def _log(platform: str, words: str, *, level: int = logging.INFO) -> None:
    fields = {"platform": platform}
    logger.log(level, "%s", f"[Images] {platform}: {words}", extra={"fields": fields})
