"""Asking Coolify whether an image that is doubted is still there, which saves a lonely pull.

After the nightly clean-up no image counts as warm until one start has shown that it is there, and
all others wait for that one. One call for each image and server settles it beforehand.
"""

import logging
from datetime import timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import Q, Subquery
from django.db.models.functions import Now

from coolify.client import Coolify
from coolify.client.errors import BudgetExhausted, CoolifyError
from coolify.client.image import Image
from pool.controller.images import note_image
from pool.images.warmth import SAME_IMAGE, is_cleanup_near
from slots.deployment import WarmImage
from slots.models import Slot

logger = logging.getLogger(__name__)

# An image that is not listed may be gone, or Coolify could not look.
ASK_AGAIN = timedelta(minutes=30)


def confirm_doubted_image(coolify: Coolify) -> bool:
    """Ask about one image at most; True if it is there. Around a clean-up no answer would last."""
    if is_cleanup_near():
        return False
    doubted = _doubted()
    if doubted is None:
        return False
    WarmImage.objects.filter(pk=doubted.pk).update(asked_at=Now())
    if not _is_listed(doubted, coolify) or not _note_as_listed(doubted):
        return False
    logger.info("[Images] %s is still there: Coolify lists it", doubted)
    return True


def _note_as_listed(doubted: WarmImage) -> bool:
    """Unless there is other evidence by now: the answer may be older than that."""
    with transaction.atomic():
        same = WarmImage.objects.select_for_update().filter(
            pk=doubted.pk, cold_since__isnull=True, trusted_until=doubted.trusted_until
        )
        if is_cleanup_near() or same.first() is None:
            return False
        note_image(doubted.image, doubted.server_uuid, evidence=WarmImage.Evidence.LISTED)
    return True


def _doubted() -> WarmImage | None:
    """One that a slot's application on that server uses: Coolify is asked about applications."""
    using = Slot.objects.filter(**SAME_IMAGE).exclude(coolify_uuid="")
    due = Q(asked_at__isnull=True) | Q(asked_at__lt=Now() - ASK_AGAIN)
    doubted = WarmImage.objects.filter(
        due,
        cold_since__isnull=True,
        trusted_until__lte=Now(),
        warmed_at__gt=Now() - settings.IMAGE_WARM_FOR,
    )
    with_application = doubted.annotate(
        application=Subquery(using.order_by("pk").values("coolify_uuid")[:1])
    )
    return with_application.filter(application__isnull=False).order_by("pk").first()


def _is_listed(doubted: WarmImage, coolify: Coolify) -> bool:
    application: str = doubted.application  # type: ignore[attr-defined]
    try:
        return Image.parse(doubted.image).tag in coolify.image_tags(application)
    except BudgetExhausted as error:
        WarmImage.objects.filter(pk=doubted.pk).update(asked_at=doubted.asked_at)
        logger.debug("Coolify was not asked for images: %s", error)
    except CoolifyError as error:
        logger.info("Coolify was asked for images in vain: %s", error)
    return False
