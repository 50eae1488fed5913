"""How many builds Coolify's servers take at once."""

import logging

from coolify.client.errors import CoolifyError
from coolify.server_limits import remember_servers
from coolify.shared import shared_coolify

logger = logging.getLogger(__name__)


def read_servers() -> None:
    """Ask Coolify and store the answer. Without an answer, the last one stays."""
    try:
        remember_servers(shared_coolify().servers())
    except CoolifyError as error:
        logger.info("Coolify's servers could not be read: %s", error)
