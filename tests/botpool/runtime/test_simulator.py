"""The simulator of `manage.py up`, alone."""

import json
import socket
import subprocess
from contextlib import closing

import pytest
import requests

from botpool.runtime import simulator as module
from botpool.runtime.ports import PortNotFree, check_port
from botpool.runtime.simulator import SimulatedCoolify
from tests.processes import free_port


@pytest.fixture(autouse=True)
def _place(monkeypatch, settings, tmp_path):
    monkeypatch.setattr(module, "PREFERRED_PORT", free_port())
    settings.DATA_DIR = tmp_path


def simulated() -> "closing[SimulatedCoolify]":
    return closing(SimulatedCoolify(speed=1000, servers=1))


def is_taken(port: int) -> bool:
    try:
        check_port(host="127.0.0.1", port=port)
    except PortNotFree:
        return True
    return False


def test_another_program_cannot_take_its_port_before_it_runs():
    with simulated() as simulator:
        assert simulator.port == module.PREFERRED_PORT
        assert is_taken(simulator.port)


def test_it_uses_another_port_if_its_own_is_taken():
    with socket.create_server(("127.0.0.1", module.PREFERRED_PORT)), simulated() as simulator:
        assert simulator.port != module.PREFERRED_PORT
        assert is_taken(simulator.port)


def test_its_port_is_free_once_it_is_closed():
    with simulated() as simulator:
        port = simulator.port
    assert not is_taken(port)


@pytest.mark.slow
def test_its_process_answers_at_its_address_each_time_it_is_started():
    with simulated() as simulator:
        for _ in range(2):
            process = simulator.process()
            with subprocess.Popen(
                process.command, pass_fds=process.pass_fds, stdout=subprocess.PIPE, text=True
            ) as running:
                assert running.stdout
                assert simulator.url in running.stdout.readline()
                assert projects(simulator) == ["simulated-project"]
                running.kill()
            assert is_taken(simulator.port)


def projects(simulator: SimulatedCoolify) -> list[str]:
    token = {"Authorization": f"Bearer {simulator.token}"}
    answer = requests.get(f"{simulator.url}/projects", headers=token, timeout=30)
    return [each["uuid"] for each in answer.json()]


def test_other_shells_find_its_address():
    with simulated() as simulator:
        simulator.write_address()
        assert json.loads(simulator.file.read_text())["url"] == simulator.url
