"""Statuses, how late they are, container restarts, and Coolify's webhooks."""

import pytest

from coolify.simulator.settings import DEFAULT_SERVER
from tests.simulated_coolify import NEVER, PlainApi, simulated_coolify, wait_until

# The agent runs only when a test asks for it.
unreported = pytest.mark.parametrize("simulator", [{"agent_seconds": NEVER}], indirect=True)


@unreported
def test_a_crash_shows_only_after_the_agents_next_pass(api, botpool):
    api.control.change(shortest_restart=NEVER)
    uuid = api.create()
    api.set_bot_data(uuid, botpool.data())
    api.run(uuid)
    api.control.crash_container(uuid)
    assert api.status(uuid) == "running:unknown"
    api.control.report_statuses()
    assert api.status(uuid) == "restarting:unknown"


@unreported
def test_the_status_does_not_change_while_deploying(api):
    api.control.change(start_seconds=NEVER)
    uuid = api.create()
    api.start(uuid)
    api.control.report_statuses()
    assert api.status(uuid) == "exited:unhealthy"


@unreported
def test_an_unreachable_server_freezes_its_statuses(api, botpool):
    api.control.change(shortest_restart=NEVER)
    uuid = api.create()
    api.set_bot_data(uuid, botpool.data())
    api.run(uuid)
    api.control.set_reachable(False)
    api.control.crash_container(uuid)
    api.control.report_statuses()
    shown = api.get(f"/applications/{uuid}").json()
    assert (shown["status"], shown["server_status"]) == ("running:unknown", False)
    [server] = api.get("/servers").json()
    assert server["is_reachable"] is False
    api.control.set_reachable(True)
    api.control.report_statuses()
    assert api.status(uuid) == "restarting:unknown"


def test_nothing_starts_or_stops_on_an_unreachable_server(api):
    uuid = api.create()
    api.run(uuid)
    api.control.set_reachable(False)
    deployment = api.start(uuid)
    api.stop(uuid)
    wait_until(lambda: api.deployment_status(deployment) == "failed")
    wait_until(lambda: not api.control.state()["jobs"])
    assert len(api.running(uuid)) == 1


def test_the_agent_reports_regularly(api):
    uuid = api.create()
    api.control.set_status(uuid, "running:unknown")
    wait_until(lambda: api.status(uuid) == "exited:unhealthy")


@pytest.mark.parametrize(
    "simulator", [{"agent_seconds": NEVER, "boot_seconds": NEVER}], indirect=True
)
def test_an_unchanged_status_leaves_updated_at_alone(api):
    uuid = api.create()
    api.run(uuid)
    before = api.get(f"/applications/{uuid}").json()

    def reported():
        api.control.report_statuses()
        after = api.get(f"/applications/{uuid}").json()
        assert after["updated_at"] == before["updated_at"]
        return after["last_online_at"] > before["last_online_at"]

    wait_until(reported)  # timestamps have whole seconds


@unreported
def test_before_4_3_3_a_stop_left_the_status_to_the_agent(api):
    api.control.change(version="4.3.2")
    uuid = api.create()
    api.run(uuid)
    api.stop(uuid)
    wait_until(lambda: not api.running(uuid))
    assert api.status(uuid) != "exited:unhealthy"
    api.control.report_statuses()
    assert api.status(uuid) == "exited:unhealthy"


# Restarts: the policy is always unless-stopped


def test_a_container_that_exits_restarts_until_it_is_stopped(api):
    """It has no BOT_DATA, so it exits every time."""
    uuid = api.create(max_restart_count=0)
    api.run(uuid)
    wait_until(lambda: api.get(f"/applications/{uuid}").json()["restart_count"] >= 2)
    assert len(api.control.containers()) == 1
    api.stop(uuid)
    wait_until(lambda: not api.running(uuid))
    lives = api.control.containers()[0]["lives"]
    assert api.get(f"/applications/{uuid}").json()["restart_count"] == 0
    assert api.control.containers()[0]["lives"] == lives


def test_a_container_that_restarts_too_often_is_removed():
    with simulated_coolify(max_restart_count=2, shortest_restart=0.01) as simulator:
        api = PlainApi(simulator)
        uuid = api.create()
        api.run(uuid)
        wait_until(lambda: not api.running(uuid))
        assert api.control.containers()[0]["end_reason"] == "restart limit reached"
        wait_until(lambda: api.status(uuid) == "exited:unhealthy")
        assert api.get(f"/applications/{uuid}").json()["restart_count"] >= 2
        api.close()


def test_the_restart_limit_cleans_up_images():
    with simulated_coolify(max_restart_count=1, shortest_restart=0.01) as simulator:
        api = PlainApi(simulator)
        api.control.warm_image("other/bot:1")
        uuid = api.create()
        api.run(uuid)
        wait_until(lambda: not api.running(uuid))
        assert "other/bot:1" not in api.control.state()["servers"][0]["cached_images"]
        api.close()


# Webhooks


def events(botpool):
    return [body for _, path, body in botpool.calls if path.endswith("/webhook")]


@pytest.fixture
def webhook(api, botpool):
    api.control.change(webhook_url=f"{botpool.url}/webhook")
    return botpool


def test_a_failed_deployment_sends_a_webhook(api, webhook):
    api.control.add_fault("pull_fails")
    uuid = api.create()
    deployment = api.start(uuid)
    [event] = wait_until(lambda: events(webhook))
    assert event["event"] == "deployment_failed"
    assert (event["application_uuid"], event["deployment_uuid"]) == (uuid, deployment)


def test_a_successful_deployment_sends_a_webhook_only_when_enabled(api, webhook):
    api.run(api.create("silent"))
    api.control.change(webhook_events=["deployment_success"])
    uuid = api.create("reported")
    api.run(uuid)
    [event] = wait_until(lambda: events(webhook))
    assert (event["event"], event["application_uuid"]) == ("deployment_success", uuid)


def test_an_unreachable_server_and_its_return_send_webhooks(api, webhook):
    api.control.set_reachable(False)
    api.control.set_reachable(True)
    wait_until(lambda: len(events(webhook)) == 2)
    assert {each["event"] for each in events(webhook)} == {
        "server_unreachable",
        "server_reachable",
    }
    assert {each["server_uuid"] for each in events(webhook)} == {DEFAULT_SERVER}


def test_a_restart_limit_sends_a_webhook(api, webhook):
    uuid = api.create(max_restart_count=1)
    api.run(uuid)
    event = wait_until(lambda: events(webhook))[0]
    assert (event["event"], event["application_uuid"]) == ("restart_limit_reached", uuid)


def test_a_webhook_names_deployment_project_and_environment(api, webhook):
    api.control.add_fault("pull_fails")
    uuid = api.create("pool-zoom-001")
    deployment = api.start(uuid)
    [event] = wait_until(lambda: events(webhook))
    assert (event["success"], event["application_name"]) == (False, "pool-zoom-001")
    assert event["deployment_url"].endswith(f"/application/{uuid}/deployment/{deployment}")
    assert (event["project"], event["environment"]) == ("Simulated project", "production")


# Setting them up through the API

HOOK = "/notifications/webhook"


def test_a_webhook_is_set_up_through_the_api(api, botpool):
    api.control.change(webhook_allowed_hosts=["127.0.0.1"])
    assert api.get(HOOK).json()["webhook_enabled"] is False
    body = {
        "webhook_enabled": True,
        "webhook_url": f"{botpool.url}/webhook",
        "deployment_success_webhook_notifications": True,
    }
    response = api.patch(HOOK, json=body)
    assert (response.status_code, response.json() | body) == (200, response.json())
    api.run(api.create())
    wait_until(lambda: [each["event"] for each in events(botpool)] == ["deployment_success"])


@pytest.mark.parametrize(
    "url",
    ["http://127.0.0.1/x", "http://10.1.2.3/x", "http://localhost/x", "http://[::1]/x", "nonsense"],
)
def test_a_private_address_for_webhooks_is_refused(api, url):
    response = api.patch(HOOK, json={"webhook_url": url})
    assert response.status_code == 422
    assert list(response.json()["errors"]) == ["webhook_url"]
    assert api.get(HOOK).json()["webhook_url"] is None


def test_a_private_address_may_be_allowed(api):
    api.control.change(webhook_allowed_hosts=["10.1.2.3"])
    assert api.patch(HOOK, json={"webhook_url": "http://10.1.2.3/x"}).status_code == 200


def test_an_unknown_notification_is_refused(api):
    assert api.patch(HOOK, json={"surprise": True}).status_code == 422
