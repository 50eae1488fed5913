"""Stops that Docker refuses, from the request of a bot to the page, with the simulated Coolify."""

import pytest

from bots.moves import Outcome
from bots.status import BotStatus
from coolify.shared import shared_coolify
from pool.controller.observe import observe
from pool.lifecycle import end_bot
from slots.models import Slot

pytestmark = pytest.mark.django_db(transaction=True)


def in_its_meeting(pool):
    bot = pool.request()
    pool.until(lambda: pool.count([bot], "IN_CALL"))
    pool.until(
        lambda: observe(shared_coolify()) and Slot.objects.get().container_status == "RUNNING"
    )
    return bot


@pytest.mark.parametrize("pool", [{"agent_seconds": 1e9, "heartbeat_seconds": 1e9}], indirect=True)
def test_a_slot_is_not_given_away_while_its_old_container_is_in_a_meeting(pool):
    """The status stays `exited`, as between two checks of Coolify, and the bot has not called."""
    bot = in_its_meeting(pool)
    fault = pool.control.add_fault("stop_refused")
    end_bot(bot, Outcome(BotStatus.CANCELLED, "Not needed", "test"))
    pool.until(lambda: Slot.objects.get().stop_refused_at)
    slot = Slot.objects.get()
    assert (slot.status, slot.application_state) == ("stopping", "exited")
    assert [each["state"] for each in pool.containers_of(bot)] == ["running"]
    assert slot.stop_problem == "Coolify reports the container as stopped, but it still runs."
    pool.control.remove_fault(fault)
    pool.until(pool.all_idle)
    assert [each["state"] for each in pool.containers_of(bot)] == ["removed"]
