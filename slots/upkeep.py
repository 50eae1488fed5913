"""Small periodic work: the texts in Coolify's own list, and what its servers can take."""

import logging

from django.conf import settings

from coolify.errors import CoolifyError
from coolify.server_limits import remember_servers
from coolify.shared import shared_coolify
from slots.descriptions import sync_descriptions

logger = logging.getLogger(__name__)


def write_settled_descriptions() -> None:
    sync_descriptions(shared_coolify(), settled_for=settings.DESCRIPTION_SETTLED_AFTER)


def read_servers() -> None:
    """Ask how many builds each server takes at once. Without an answer the last one stands."""
    try:
        remember_servers(shared_coolify().servers())
    except CoolifyError as error:
        logger.info("The servers were not read: %s", error)
