"""Runs the examples in docs/api.md, unchanged, against a live server."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from api.keys import create_api_key
from api.webhooks.signatures import sign
from bots.status import MOVES, RUNNING, BotStatus
from tests.api.conftest import Assigned
from tests.factories import SlotFactory

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]

PAGE = Path(__file__).parents[2] / "docs" / "api.md"


def examples(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(), re.DOTALL)


@pytest.fixture
def environment(live_server):
    key = create_api_key(name="ops", role="operator")
    return {**os.environ, "BOTPOOL": live_server.url, "KEY": key}


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_the_curl_examples_work(environment):
    SlotFactory(number=1)
    Assigned()  # for the example that releases a slot
    calls = [example for example in examples("sh") if "curl" in example]
    assert len(calls) == 3
    for call in calls:
        done = subprocess.run(
            ["bash", "-eu", "-c", call.replace("curl -sS", "curl -sS --fail-with-body -w '\\n'")],
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        answers = done.stdout.strip().splitlines()
        assert len(answers) == call.count("curl")
        assert all(isinstance(json.loads(answer), dict) for answer in answers)


def test_the_python_example_works(environment):
    (example,) = [example for example in examples("python") if "urllib" in example]
    done = subprocess.run(
        [sys.executable, "-c", example],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().endswith("CANCELLED")


def test_the_receivers_example_accepts_only_valid_signatures():
    (example,) = [example for example in examples("python") if "is_from_botpool" in example]
    names: dict = {}
    exec(example, names)
    body, now = b'{"botId":7}', int(time.time())
    secret = hashlib.sha256(b"bp_key").hexdigest()
    headers = {
        "X-Botpool-Timestamp": str(now),
        "X-Botpool-Signature": sign(body, secret=secret, timestamp=now),
    }
    assert names["is_from_botpool"](headers, body, api_key="bp_key")
    assert not names["is_from_botpool"](headers, body + b" ", api_key="bp_key")
    assert not names["is_from_botpool"](headers, body, api_key="bp_other")


@pytest.mark.parametrize("status", RUNNING)
def test_the_table_of_moves_matches_the_code(status):
    row = re.search(rf"^\| `{status}`.*?\|(.*?)\|", PAGE.read_text(), re.MULTILINE)
    assert row is not None
    reported = set(MOVES[status]) - {BotStatus.CANCELLED}
    assert set(re.findall(r"`(\w+)`", row[1])) == reported


def test_the_json_examples_are_valid():
    assert all(json.loads(example) for example in examples("json"))
