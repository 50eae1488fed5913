"""Runs the examples in docs/api.md, unchanged, against a live server."""

import base64
import json
import os
import re
import shutil
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from api.keys import create_api_key
from api.webhooks.signatures import signed_headers
from bots.status import MOVES, RUNNING, BotStatus
from coolify.bot_data import decode_bot_data
from pool.controller.start import container_environment
from tests.api.conftest import Assigned
from tests.factories import SlotFactory

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "api.md"
BOTS = DOCS / "bots.md"


def examples(language: str, *, page: Path = PAGE) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(), re.DOTALL)


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
    body, now = b'{"botId":7}', datetime.now(UTC)
    secret, other = ("whsec_" + base64.b64encode(bytes([n]) * 32).decode() for n in (1, 2))
    headers = signed_headers(body, message_id="event_1", at=now, secrets=[secret])
    late = signed_headers(body, message_id="event_1", at=now - timedelta(hours=1), secrets=[secret])
    assert names["is_from_botpool"](headers, body, secret=secret)
    assert not names["is_from_botpool"](headers, body + b" ", secret=secret)
    assert not names["is_from_botpool"](headers, body, secret=other)
    assert not names["is_from_botpool"](late, body, secret=secret)


@pytest.mark.parametrize("status", RUNNING)
def test_the_table_of_moves_matches_the_code(status):
    row = re.search(rf"^\| `{status}`.*?\|(.*?)\|", PAGE.read_text(), re.MULTILINE)
    assert row is not None
    reported = set(MOVES[status]) - {BotStatus.CANCELLED}
    assert set(re.findall(r"`(\w+)`", row[1])) == reported


def test_the_json_examples_are_valid():
    assert all(json.loads(example) for example in examples("json"))


def test_the_page_for_bot_authors_names_what_a_container_gets():
    SlotFactory()
    assigned = Assigned()
    environment = container_environment(assigned.slot, assigned.bot)
    fields = decode_bot_data(environment["BOT_DATA"])
    named = re.findall(r"`(\w+)`", BOTS.read_text())
    assert {*environment, *fields} <= set(named)


def test_the_answers_shown_to_bot_authors_are_as_in_the_code():
    SlotFactory(coolify_uuid="the-slot")
    assigned = Assigned()
    asked, stays, _ = (json.loads(example) for example in examples("json", page=BOTS))
    assert set(asked) <= set(assigned.api.get("slots/the-slot/bot").json())
    assert assigned.heartbeat().json() == stays
