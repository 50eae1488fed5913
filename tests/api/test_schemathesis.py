"""Runs Schemathesis, with all its checks, against the OpenAPI description."""

import subprocess
import sys
from pathlib import Path

import pytest

from api.keys import create_api_key
from tests.api.conftest import Assigned
from tests.factories import SlotFactory

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]

HOOKS = '''
import schemathesis
from hypothesis import strategies as st

MEETINGS = {
    "google-meet": "https://meet.google.com/abc-defg-hij",
    "teams": "https://teams.live.com/meet/123",
    "zoom": "https://zoom.us/j/123456789",
}
schemathesis.openapi.format("meeting-url", st.sampled_from(sorted(MEETINGS.values())))
schemathesis.openapi.format("webhook-url", st.just("https://example.com/hook"))


@schemathesis.hook
def before_call(context, case, kwargs):
    """Match the address to the platform, which a schema cannot express."""
    body = case.body
    if isinstance(body, dict) and body.get("meetingUrl") in MEETINGS.values():
        platform = body.get("platform")
        if isinstance(platform, str) and platform in MEETINGS:
            body["meetingUrl"] = MEETINGS[platform]
'''

# No NUL characters: the API refuses them, but a schema cannot say so (test_asking_for_bots.py).
CONFIG = """
continue-on-failure = true
[generation]
allow-x00 = false
max-examples = {examples}
deterministic = true
[headers]
Authorization = "Bearer {operator}"

[[operations]]
include-tag = "Bot callbacks"
headers = {{ Authorization = "Bearer {bot}" }}
parameters = {{ "path.id" = {bot_id}, coolifyServiceUuid = "{uuid}" }}

[[operations]]
include-operation-id = "receiveCoolifyWebhook"
parameters = {{ secret = "{secret}" }}
"""


def run_schemathesis(url: str, directory: Path, **values: object) -> subprocess.CompletedProcess:
    (directory / "hooks.py").write_text(HOOKS)
    (directory / "schemathesis.toml").write_text(CONFIG.format(**values))
    command = [sys.executable, "-m", "schemathesis.cli", "run", f"{url}/api/v1/openapi.json"]
    command += ["--url", url]
    return subprocess.run(
        [*command, "--checks", "all", "--no-color"],
        cwd=directory,
        env={"SCHEMATHESIS_HOOKS": "hooks", "PATH": "/usr/bin:/bin", "PYTHONPATH": str(directory)},
        capture_output=True,
        text=True,
        timeout=240,
    )


def test_every_response_is_documented_and_none_is_a_server_error(live_server, tmp_path, settings):
    settings.API_RATE_LIMIT = 0
    SlotFactory()
    assigned = Assigned()
    result = run_schemathesis(
        live_server.url,
        tmp_path,
        operator=create_api_key(name="ops", role="operator"),
        bot=assigned.token,
        bot_id=assigned.bot.pk,
        uuid=assigned.slot.coolify_uuid,
        examples=5,
        secret=settings.COOLIFY_WEBHOOK_SECRET,
    )
    assert result.returncode == 0, result.stdout + result.stderr
