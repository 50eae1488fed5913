"""One pass over everything that is under way between Botpool and Coolify.

It never waits: it does what can be done now and leaves the rest to the next pass, which comes
within a second. Whatever died in between is found by its row.
"""

import logging
import time

from botpool.clock import database_now
from coolify.client import Coolify
from coolify.errors import BudgetExhausted, CoolifyError
from coolify.shared import shared_coolify
from slots.deployment import Watch
from slots.images import (
    choose_leaders,
    let_warm_ones_through,
    note_who_waits,
    settle_pulls,
)
from slots.look import Look, look_at_coolify
from slots.look_times import look_is_due
from slots.starting import due_starts, give_places, start
from slots.stopping import stop_released
from slots.watching import end_pulls, remove_failed, watch

logger = logging.getLogger(__name__)

# A worker's task may take a minute: a pass ends well before, and the next one goes on.
LONGEST_PASS = 25.0


def tend_slots() -> None:
    """Start what is assigned, stop what is released, and see how the rest gets on."""
    coolify = shared_coolify()
    learn_from(_look_if_due(coolify), coolify)
    line_up()
    _start_those_due(coolify)


def learn_from(look: Look | None, coolify: Coolify) -> None:
    """Take everything one step further that a look, if there is one, tells something about."""
    stop_released(look, coolify)
    remove_failed(look, coolify)
    if look is not None:
        watch(look, coolify)
        end_pulls(look, coolify)


def line_up() -> None:
    """Decide, without a call to Coolify, who may start."""
    settle_pulls()
    let_warm_ones_through()
    choose_leaders()
    note_who_waits()
    give_places()


def _start_those_due(coolify: Coolify) -> None:
    end = time.monotonic() + LONGEST_PASS
    for deployment in due_starts():
        if time.monotonic() > end:
            break
        start(deployment, coolify)


# --- When to look ----------------------------------------------------------------------------


def look_soon() -> None:
    """Something is known to have changed in Coolify: the next pass looks, however soon."""
    Watch.objects.filter(looked_at__isnull=False).update(looked_at=None)


def _look_if_due(coolify: Coolify) -> Look | None:
    last_look = Watch.objects.values_list("looked_at", flat=True).first()
    if not look_is_due(now=database_now(), last_look=last_look):
        return None
    return take_look(coolify)


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
