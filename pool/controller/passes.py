"""One pass over everything that is under way between Botpool and Coolify.

It never waits: it does what can be done now and leaves the rest to the next pass, which comes
within a second. Whatever died in between is found by its row.
"""

import logging
import time

from coolify.client import Coolify
from coolify.client.errors import BudgetExhausted, CoolifyError
from coolify.shared import shared_coolify
from core.clock import database_now
from pool.controller.deployments import end_pulls, remove_failed, watch
from pool.controller.images import (
    choose_leaders,
    let_warm_ones_through,
    note_who_waits,
    settle_pulls,
)
from pool.controller.observation_times import look_is_due
from pool.controller.observe import Look, look_at_coolify
from pool.controller.start import due_starts, give_places, start
from pool.controller.stop import stop_released
from slots.deployment import Watch

logger = logging.getLogger(__name__)

# A worker's task may take a minute: after so many seconds of a pass nothing more is learnt, and
# nothing more started, so that it ends well before. The next one goes on.
LEARN_WITHIN, START_WITHIN = 25.0, 40.0


def tend_slots() -> None:
    """Start what is assigned, stop what is released, and see how the rest gets on."""
    coolify, begin = shared_coolify(), time.monotonic()
    learn_from(_look_if_due(coolify), coolify, until=begin + LEARN_WITHIN)
    line_up()
    _start_those_due(coolify, until=begin + START_WITHIN)


def learn_from(look: Look | None, coolify: Coolify, *, until: float) -> None:
    """Take everything one step further that a look, if there is one, tells something about."""
    stop_released(look, coolify)
    remove_failed(look, coolify, until=until)
    if look is not None:
        watch(look, coolify, until=until)
        end_pulls(look, coolify, until=until)


def line_up() -> None:
    """Decide, without a call to Coolify, who may start."""
    settle_pulls()
    let_warm_ones_through()
    choose_leaders()
    note_who_waits()
    give_places()


def _start_those_due(coolify: Coolify, *, until: float) -> None:
    for deployment in due_starts():
        if time.monotonic() > until:
            break
        start(deployment, coolify)


# --- When to look ----------------------------------------------------------------------------


def look_soon() -> None:
    """Something is known to have changed in Coolify: the next pass looks, however soon."""
    Watch.objects.filter(looked_at__isnull=False).update(looked_at=None)


def _look_if_due(coolify: Coolify) -> Look | None:
    watch_row = Watch.objects.first()
    last_look = watch_row.looked_at if watch_row else None
    is_wanted = watch_row is not None and last_look is None
    if is_wanted or look_is_due(now=database_now(), last_look=last_look):
        return take_look(coolify)
    return None


def take_look(coolify: Coolify) -> Look | None:
    """Look now; None if Coolify does not answer properly, which proves nothing about anything."""
    try:
        look = look_at_coolify(coolify)
    except BudgetExhausted as error:
        logger.debug("Coolify is not looked at: %s", error)
        return None
    except CoolifyError as error:
        _note_failed_look(error)
        return None
    Watch.objects.update_or_create(
        pk=True, defaults={"looked_at": look.began_at, "failing_since": None, "error": ""}
    )
    return look


def _note_failed_look(error: CoolifyError) -> None:
    logger.warning("Coolify could not be looked at: %s", error)
    watch_row, _ = Watch.objects.get_or_create(pk=True)
    now = database_now()
    watch_row.looked_at = now
    watch_row.failing_since = watch_row.failing_since or now
    watch_row.error = str(error)
    watch_row.save()
