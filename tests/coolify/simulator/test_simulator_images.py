"""The images on a server: what Coolify lists, and what its clean-up removes."""

import pytest

from coolify.simulator.settings import DEFAULT_SERVER
from tests.simulated_coolify import IMAGE, NEVER, PlainApi, simulated_coolify, wait_until


@pytest.fixture
def simulator():
    with simulated_coolify(boot_seconds=NEVER) as running:
        yield running


def images(api):
    return api.control.state()["servers"][0]["cached_images"]


def warm(api, *tags, repository=IMAGE):
    for tag in tags:
        api.control.warm_image(f"{repository}:{tag}")


# The nightly clean-up


def test_each_application_keeps_its_two_newest_images(api):
    api.create()
    warm(api, "1", "2", "3")
    api.control.clean_up()
    assert images(api) == [f"{IMAGE}:2", f"{IMAGE}:3"]


def test_the_running_image_stays_beside_the_newest(api):
    api.run(api.create(docker_registry_image_tag="1"))
    warm(api, "2", "3", "4")
    api.control.clean_up()
    assert images(api) == [f"{IMAGE}:1", f"{IMAGE}:3", f"{IMAGE}:4"]


def test_idle_platforms_lose_their_image_if_they_are_tags_of_one_repository(api):
    for platform in ("google-meet", "teams", "zoom"):
        api.create(docker_registry_image_tag=platform)
    warm(api, "google-meet", "teams", "zoom")
    api.control.clean_up()
    assert images(api) == [f"{IMAGE}:teams", f"{IMAGE}:zoom"]


def test_a_repository_also_matches_longer_names(api):
    """`bot` counts `bot-zoom` as its own: the images of `bot-zoom` push its own out."""
    api.create(docker_registry_image_name=IMAGE)
    warm(api, "1")
    warm(api, "1", "2", repository=f"{IMAGE}-zoom")
    api.control.clean_up()
    assert images(api) == [f"{IMAGE}-zoom:1", f"{IMAGE}-zoom:2"]


def test_keeping_many_images_protects_them(api):
    for platform in ("google-meet", "teams", "zoom"):
        api.create(docker_registry_image_tag=platform, docker_images_to_keep=100)
    warm(api, "google-meet", "teams", "zoom")
    api.control.clean_up()
    assert len(images(api)) == 3


def test_an_image_without_an_application_goes(api):
    api.create()
    warm(api, "1", repository="other/image")
    api.control.clean_up()
    assert images(api) == []


def test_without_retention_everything_idle_goes(api):
    change = {"disable_application_image_retention": True}
    api.patch(f"/servers/{DEFAULT_SERVER}/docker-cleanup", json=change)
    api.run(api.create(docker_images_to_keep=100))
    warm(api, "2")
    api.control.clean_up()
    assert images(api) == [f"{IMAGE}:1"]


def test_the_clean_up_comes_every_night():
    with simulated_coolify(cleanup_seconds=1) as simulator:
        api = PlainApi(simulator)
        api.control.warm_image("other/image:1")
        wait_until(lambda: images(api) == [])
        api.close()


def test_no_night_cleans_up_if_it_is_switched_off(simulator, api):
    simulator.world.servers[DEFAULT_SERVER].docker_cleanup["force_docker_cleanup"] = False
    warm(api, "1", repository="other/image")
    simulator.agent.clean_up_by_night()
    assert images(api) == ["other/image:1"]


def test_a_server_that_is_cut_off_is_not_cleaned_up(api):
    warm(api, "1", repository="other/image")
    api.control.set_reachable(False)
    api.control.clean_up()
    assert images(api) == ["other/image:1"]


# Stops and deletions


@pytest.mark.parametrize("cleanup", ["true", "false"])
def test_a_stop_with_clean_up_follows_the_same_rule(api, cleanup):
    uuid = api.create()
    api.run(uuid)
    warm(api, "1", repository="other/image")
    api.stop(uuid, docker_cleanup=cleanup)
    wait_until(lambda: ("stop", uuid) not in api.jobs())
    assert images(api) == [f"{IMAGE}:1"] + ["other/image:1"] * (cleanup == "false")


def test_a_stop_cleans_up_by_default(api):
    uuid = api.create()
    api.run(uuid)
    warm(api, "1", repository="other/image")
    api.post(f"/applications/{uuid}/stop")
    wait_until(lambda: images(api) == [f"{IMAGE}:1"])


# What Coolify lists


def test_rollback_images_are_the_tags_on_the_server(api):
    uuid = api.create(docker_registry_image_tag="2")
    warm(api, "1")
    warm(api, "9", repository="other/image")
    api.run(uuid)
    shown = api.get(f"/applications/{uuid}/rollback-images").json()
    assert shown["current"] == "2"
    assert [(each["tag"], each["is_current"]) for each in shown["images"]] == [
        ("2", True),
        ("1", False),
    ]


def test_rollback_images_are_empty_on_any_error(api):
    uuid = api.create()
    warm(api, "1")
    api.control.set_reachable(False)
    assert api.get(f"/applications/{uuid}/rollback-images").json()["images"] == []


def test_rollback_images_are_unknown_before_4_3_0(api):
    api.control.change(version="4.2.9")
    assert api.get(f"/applications/{api.create()}/rollback-images").status_code == 404
