import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import requests

from coolify.simulator.control_client import SimulatorControl
from coolify.simulator.settings import DEFAULT_TOKEN, Settings
from coolify.simulator.simulator import Simulator
from coolify.simulator.state import StateUnreadable
from tests.processes import free_port
from tests.simulated_coolify import NEVER, PlainApi, new_application, simulated_coolify, wait_until


@pytest.fixture
def state_file(tmp_path):
    return str(tmp_path / "deep" / "coolify.json")


def test_a_restart_restores_everything(state_file, botpool):
    with simulated_coolify(state_file=state_file) as simulator:
        api = PlainApi(simulator)
        uuid = api.create("kept", description="[IDLE] Available")
        api.set_bot_data(uuid, botpool.data(simulate={"meetingSeconds": NEVER}))
        deployment = api.run(uuid)
        before = {path: api.get(path).json() for path in (f"/applications/{uuid}/envs", "/servers")}
        api.close()
    with simulated_coolify(state_file=state_file) as simulator:
        api = PlainApi(simulator)
        assert [each["name"] for each in api.get("/applications").json()] == ["kept"]
        assert {path: api.get(path).json() for path in before} == before
        assert api.deployment_status(deployment) == "finished"
        api.close()


def test_a_bot_continues_after_a_restart(state_file, botpool):
    # The container must not restart before the test reads its past lives.
    slow = {"state_file": state_file, "speed": 100, "shortest_restart": NEVER}
    with simulated_coolify(**slow) as simulator:
        api = PlainApi(simulator)
        uuid = api.create()
        api.control.warm_image("registry.example/bot:1")
        api.set_bot_data(uuid, botpool.data(simulate={"meetingSeconds": 200}))
        api.run(uuid)
        wait_until(lambda: "JOINING_CALL" in botpool.statuses())
        api.close()
    with simulated_coolify(**slow) as simulator:
        wait_until(lambda: "DONE" in botpool.statuses())
        api = PlainApi(simulator)
        wait_until(lambda: api.running(uuid)[0]["past_lives"])
        assert api.running(uuid)[0]["past_lives"][0]["reason"] == "reported DONE"
        api.close()
    assert botpool.statuses().count("JOINING_CALL") == 1


def test_a_deployment_continues_after_a_restart(state_file):
    with simulated_coolify(state_file=state_file, speed=200) as simulator:
        api = PlainApi(simulator)
        deployment = api.start(api.create())
        assert api.deployment_status(deployment) == "in_progress"
        api.close()
    with simulated_coolify(state_file=state_file, speed=200) as simulator:
        api = PlainApi(simulator)
        wait_until(lambda: api.deployment_status(deployment) == "finished")
        assert api.control.record()["coldPulls"] == 1
        api.close()


def test_a_container_restart_continues_after_a_restart(state_file):
    with simulated_coolify(state_file=state_file, shortest_restart=0.5) as simulator:
        api = PlainApi(simulator)
        uuid = api.create(max_restart_count=0)
        api.run(uuid)
        wait_until(lambda: api.running(uuid)[0]["state"] == "restarting")
        api.close()
    with simulated_coolify(state_file=state_file) as simulator:
        api = PlainApi(simulator)
        wait_until(lambda: api.running(uuid)[0]["lives"] > 1)
        api.close()


def test_the_state_is_saved_while_it_runs(state_file):
    with simulated_coolify(state_file=state_file) as simulator:
        api = PlainApi(simulator)
        uuid = api.create()
        wait_until(lambda: os.path.exists(state_file) and uuid in open_text(state_file))
        api.close()


def open_text(path):
    with open(path) as file:
        return file.read()


def test_a_broken_state_file_is_refused_by_name(tmp_path):
    path = tmp_path / "state.json"
    path.write_text(json.dumps({"applications": []}))
    simulator = Simulator(Settings(state_file=str(path)))
    with pytest.raises(StateUnreadable, match=r"state\.json"):
        simulator.start()
    simulator.stop()
    assert json.loads(path.read_text()) == {"applications": []}


# The command


@pytest.mark.slow
def test_the_simulator_needs_no_django():
    check = "import sys, coolify.simulator.simulator; sys.exit('django' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0


def command(*arguments):
    return subprocess.Popen(
        [sys.executable, "manage.py", "coolify_simulator", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.slow
def test_the_command_runs_until_sigterm(state_file):
    port = str(free_port())
    arguments = ("--port", port, "--speed", "1000", "--state", state_file, "--token", "8|abc:read")
    began = time.monotonic()
    with command(*arguments) as process:
        assert f"http://127.0.0.1:{port}" in process.stdout.readline()
        start = time.monotonic() - began
        url = f"http://127.0.0.1:{port}/api/v1/applications"
        assert requests.get(url, headers={"Authorization": "Bearer 8|abc"}, timeout=10).json() == []
        began = time.monotonic()
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        assert time.monotonic() - began < max(5, start)  # a busy machine is slow at both
        assert os.path.exists(state_file)


@pytest.mark.slow
def test_the_state_survives_a_kill(state_file):
    port = str(free_port())
    arguments = ("--port", port, "--state", state_file)
    url = f"http://127.0.0.1:{port}"
    with command(*arguments) as process:
        process.stdout.readline()
        uuid = create_over_http(url)
        wait_until(lambda: os.path.exists(state_file) and uuid in open_text(state_file))
        process.kill()
    with command(*arguments) as process:
        process.stdout.readline()
        with SimulatorControl(url) as control:
            assert [each["uuid"] for each in control.state()["applications"]] == [uuid]
        process.terminate()


def create_over_http(url):
    headers = {"Authorization": f"Bearer {DEFAULT_TOKEN}"}
    answer = requests.post(
        f"{url}/api/v1/applications/dockerimage",
        json=new_application(),
        headers=headers,
        timeout=10,
    )
    return answer.json()["uuid"]


@pytest.mark.slow
def test_a_port_in_use_is_reported_in_one_line():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        with command("--port", port) as process:
            _, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert (
        errors.strip() == f"CommandError: Cannot listen on 127.0.0.1:{port}: Address already in use"
    )


@pytest.mark.slow
def test_a_malformed_token_is_reported_in_one_line():
    with command("--token", "nonsense") as process:
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "'nonsense' is not a token" in errors
    assert len(errors.strip().splitlines()) == 1


def test_only_the_owner_can_read_the_state_file(state_file):
    with simulated_coolify(state_file=state_file):
        pass
    assert Path(state_file).stat().st_mode & 0o777 == 0o600
