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
    api.control.report_statuses()
    after = api.get(f"/applications/{uuid}").json()
    assert after["updated_at"] == before["updated_at"]
    assert after["last_online_at"] > before["last_online_at"]


@unreported
def test_before_4_3_3_a_stop_left_the_status_to_the_agent(api):
    api.control.change(version="4.3.2")
    uuid = api.create()
    api.run(uuid)
    api.stop(uuid)
    wait_until(lambda: not api.running(uuid))
    assert api.status(uuid) == "running:unknown"
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
        assert api.status(uuid) == "exited:unhealthy"
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
