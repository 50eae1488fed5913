from html import escape

import pytest
import requests

from coolify.simulator.http.page import ONCE
from coolify.simulator.http.scenes import SCENES
from coolify.simulator.settings import server_uuids
from tests.simulated_coolify import IMAGE


def test_the_page_lists_applications_deployments_and_servers(api):
    uuid = api.create("pool-zoom-001", description="[BUSY] Bot #1")
    api.run(uuid)
    page = requests.get(api.simulator.url, timeout=10)
    assert page.headers["Content-Type"].startswith("text/html")
    for text in ("pool-zoom-001", "[BUSY] Bot #1", f"{IMAGE}:1", "finished", "server-1"):
        assert text in page.text


def test_an_empty_page_says_so(api):
    assert requests.get(api.simulator.url, timeout=10).text.count("None yet.") == 2


def test_the_page_escapes_what_it_shows(api):
    api.create("<script>alert(1)</script>")
    page = requests.get(api.simulator.url, timeout=10).text
    assert "<script>" not in page
    assert "&lt;script&gt;" in page


def test_the_page_loads_nothing_from_other_hosts(api):
    page = requests.get(api.simulator.url, timeout=10).text
    assert "http://" not in page
    assert "https://" not in page


# Scenes

BROWSER = {"Accept": "text/html,application/xhtml+xml"}


def submit(api, path):
    url = f"{api.simulator.url}/_simulator/{path}"
    return requests.post(url, headers=BROWSER, timeout=10)


def page(api):
    return requests.get(api.simulator.url, headers=BROWSER, timeout=10).text


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.name)
def test_each_scene_can_be_switched_on_and_off_on_the_page(api, scene):
    assert scene.title in page(api)
    assert escape(scene.sentence) in page(api)
    answer = submit(api, f"scenes/{scene.name}?on=true")
    assert (answer.status_code, answer.url) == (200, f"{api.simulator.url}/")
    assert [name for name, on in api.control.scenes().items() if on] == [scene.name]
    assert f"scenes/{scene.name}?on=false" in answer.text
    submit(api, f"scenes/{scene.name}?on=false")
    assert not any(api.control.scenes().values())
    assert api.control.faults() == []


def test_switching_a_scene_on_twice_is_the_same_as_once(api):
    for _ in range(2):
        api.control.switch_scene("slow-coolify")
    api.control.switch_scene("slow-coolify", on=False)
    assert api.simulator.settings.longest_call == 0


@pytest.mark.parametrize("simulator", [{"servers": server_uuids(2)}], indirect=True)
def test_everything_can_be_healed_at_once(api):
    for scene in SCENES:
        api.control.switch_scene(scene.name)
    api.control.add_fault("error", status=418)
    api.control.set_reachable(False)
    api.control.restart_coolify(outage_seconds=1000)
    submit(api, "actions/heal")
    assert not any(api.control.scenes().values())
    assert api.control.faults() == []
    assert [each["is_reachable"] for each in api.get("/servers").json()] == [True, True]
    assert api.simulator.settings.longest_call == 0


@pytest.mark.parametrize("simulator", [{"servers": server_uuids(2)}], indirect=True)
def test_the_scene_of_a_lost_server_leaves_the_first_one_alone(api):
    api.control.switch_scene("server-gone")
    assert [each["is_reachable"] for each in api.get("/servers").json()] == [True, False]


def test_with_a_full_queue_a_start_creates_nothing(api):
    api.control.switch_scene("queue-full")
    missing = api.start(api.create())
    assert api.get(f"/deployments/{missing}").status_code == 404


@pytest.mark.parametrize("path", [path for _, _, path in ONCE])
def test_what_happens_once_can_be_done_on_the_page(api, path):
    assert f"/_simulator/{path}" in page(api)
    assert submit(api, path).url == f"{api.simulator.url}/"


def test_an_unknown_scene_is_refused_with_a_list_of_scenes(api):
    with pytest.raises(ValueError, match="slow-coolify"):
        api.control.switch_scene("gremlins")


def test_a_container_can_be_crashed_on_the_page(api, botpool):
    api.control.change(shortest_restart=1e9)
    uuid = api.create()
    api.set_bot_data(uuid, botpool.data())
    api.run(uuid)
    submit(api, "actions/crash-any")
    assert api.running(uuid)[0]["state"] == "restarting"
