"""What Coolify's servers can take."""

import logging

from coolify.client.errors import CoolifyError
from coolify.server_limits import remember_servers
from coolify.shared import shared_coolify

logger = logging.getLogger(__name__)


def read_servers() -> None:
    """Ask how many builds each server takes at once. Without an answer the last one stands."""
    try:
        remember_servers(shared_coolify().servers())
    except CoolifyError as error:
        logger.info("The servers were not read: %s", error)
