"""The servers: what Coolify reports about them, and what follows for their slots."""

import logging
from datetime import timedelta

from django.conf import settings
from django.db.models import Max

from coolify.client.errors import BudgetExhausted, CoolifyError
from coolify.shared import shared_coolify
from core.clock import database_now
from pool.controller.observe import observe_soon
from pool.servers.moves import move_idle_slots
from pool.servers.states import refresh_servers
from servers.models import Server
from servers.reports import remember_servers

logger = logging.getLogger(__name__)

# Of the budget of calls. Observations also show which servers Coolify cannot reach.
MOST_OF_THE_BUDGET = 0.05


def look_after_servers() -> None:
    """Periodic work: read what Coolify reports, judge each server, move slots."""
    if _may_be_read():
        read_servers()
    refresh_servers()
    move_idle_slots()


def _may_be_read() -> bool:
    last = Server.objects.aggregate(Max("read_at"))["read_at__max"]
    pause = timedelta(minutes=1) / (MOST_OF_THE_BUDGET * settings.COOLIFY_RATE_LIMIT)
    return last is None or database_now() - last >= pause


def read_servers() -> None:
    """Ask Coolify and store the answer. Without an answer, the last one stays.

    Slots know by observations whether their server is within reach. One that waits to be stopped
    there does not have to wait for the next that is due.
    """
    try:
        if remember_servers(shared_coolify().servers()):
            observe_soon()
    except BudgetExhausted as error:
        logger.debug("Coolify's servers were not read: %s", error)
    except CoolifyError as error:
        logger.info("Coolify's servers could not be read: %s", error)
