"""The texts in Coolify's own list, and what its servers can take."""

from datetime import timedelta

import pytest

from coolify.models import ServerReading
from coolify.server_limits import concurrent_deployments
from coolify.shared import shared_coolify
from pool.controller.descriptions import write_settled_descriptions
from pool.controller.servers import read_servers
from slots.models import Slot

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]


def shown(slot):
    return shared_coolify().application(slot.coolify_uuid).description


@pytest.mark.parametrize("pool", [{"concurrent_builds": 5}], indirect=True)
def test_the_build_places_of_each_server_are_read_and_outlive_an_outage(pool, settings):
    settings.MAX_CONCURRENT_DEPLOYMENTS = 0
    read_servers()
    pool.control.answer_with(500, path="/servers$")
    read_servers()
    (server,) = settings.COOLIFY_SERVER_UUIDS
    assert concurrent_deployments([server]) == {server: 5}
    assert ServerReading.objects.get().is_reachable


def test_a_state_is_written_once_it_has_settled(pool, settings):
    bot = pool.request()
    pool.until(lambda: pool.all_run([bot]))
    slot = Slot.objects.get()
    settings.DESCRIPTION_SETTLED_AFTER = timedelta(minutes=1)
    write_settled_descriptions()
    assert shown(slot).startswith("[DEPLOYING]")

    settings.DESCRIPTION_SETTLED_AFTER = timedelta()
    write_settled_descriptions()
    assert shown(slot).startswith(f"[BUSY] Bot #{bot.pk} - ")


def test_a_state_that_is_shown_already_costs_no_call(pool, settings):
    bot = pool.request()
    pool.until(lambda: pool.all_run([bot]))
    settings.DESCRIPTION_SETTLED_AFTER = timedelta()
    write_settled_descriptions()
    pool.control.answer_with(500, method="PATCH", path="/applications/")
    write_settled_descriptions()
    assert pool.control.faults()[0]["hits"] == 0
