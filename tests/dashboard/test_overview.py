"""The headline and the cards of the overview, and the page of a slot behind a cell."""

import pytest

from bots.status import Platform
from pool.steering import pause_platform, set_pool_size
from servers.models import Server
from slots.models import SlotTransition
from tests.dashboard.populated import ask, run
from tests.factories import DeploymentFactory, SlotFactory

pytestmark = pytest.mark.django_db


def test_free_slots_of_others_are_no_comfort_for_those_who_wait(viewer):
    pause_platform(Platform.ZOOM, reason="New disk", actor="user:otto")
    ask(Platform.ZOOM)
    page = viewer.get("/").text
    assert "<b>1</b> waiting · none free for them</p>" in page


def test_a_smaller_pool_says_which_slots_are_beyond_its_size(viewer):
    for _ in range(3):
        run(ask(Platform.ZOOM))
    set_pool_size(Platform.ZOOM, 1, reason="Smaller", actor="user:otto")
    page = viewer.get("/").text
    assert "<b>3</b> of 1 in use" in page
    assert "over its size" in page
    assert "300 %</p>" not in page
    link = "/slots/?platform=zoom&amp;cordoned=beyond"
    assert link in page
    assert "2 beyond the size</a>" in page
    found = viewer.get("/slots/?platform=zoom&cordoned=beyond").text
    assert "2 slots" in found


def test_a_slots_page_names_its_server(viewer):
    slot = SlotFactory(server_uuid="k4gkos0c")
    Server.objects.create(uuid="k4gkos0c", name="frankfurt")
    assert 'title="k4gkos0c">frankfurt</a>' in viewer.get(f"/slots/{slot.name}/").text


def test_a_slots_page_shows_its_newest_changes_and_links_to_the_rest(viewer):
    slot = SlotFactory()
    for number in range(20):
        SlotTransition.objects.create(
            slot=slot, slot_name=slot.name, to_status="idle", reason=f"Change {number}.", epoch=1
        )
    page = viewer.get(f"/slots/{slot.name}/").text
    assert "Change 19." in page
    assert "Change 2." not in page
    assert f'href="/activity/?slot={slot.name}"' in page
    assert "Change 2." in viewer.get(f"/activity/?slot={slot.name}").text


def test_lists_can_be_of_one_slot(viewer):
    mine, other = DeploymentFactory(), DeploymentFactory()
    page = viewer.get(f"/deployments/?slot={mine.slot_name}").text
    assert f'href="/bots/{mine.bot_id}/"' in page
    assert f'href="/bots/{other.bot_id}/"' not in page
    assert f'Only those of <a href="/slots/{mine.slot_name}/">' in page
    assert viewer.get("/deployments/?slot=none/such").status_code == 200
    assert viewer.get("/activity/?slot=none/such").status_code == 200
