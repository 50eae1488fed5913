"""A slot's application in Coolify: its settings, and what its environment keeps."""

import json

import pytest

from bots.meetings import LONGEST_ADDRESS
from coolify.bot_data import BOT_DATA, decode_bot_data
from pool.controller.applications import SETTINGS_VERSION
from pool.controller.start import container_environment
from slots.models import Slot
from tests.factories import BotFactory, SlotFactory
from tests.simulated_coolify import PlainApi

pytestmark = pytest.mark.django_db(transaction=True)

LARGEST_ENVIRONMENT = 97.7 * 1024
WHAT_COOLIFY_ADDS = 2_000  # PORT, HOST, COOLIFY_… and SOURCE_COMMIT


@pytest.fixture
def plain(pool):
    plain = PlainApi(pool.simulator)
    yield plain
    plain.close()


def run_one(pool) -> Slot:
    bot = pool.request(meetingSeconds=1)
    pool.until(lambda: pool.count([bot], "DONE") and pool.all_idle())
    return Slot.objects.get()


def test_the_largest_bot_that_the_api_accepts_fits_into_an_environment():
    config = {"text": "x" * (64 * 1024 - len('{"text": ""}'))}
    bot = BotFactory(meeting_url="h" * LONGEST_ADDRESS, display_name="ü" * 255, config=config)
    slot = SlotFactory(status="deploying", assigned_bot=bot, coolify_uuid="a" * 24)
    written = container_environment(slot, bot)
    assert decode_bot_data(written[BOT_DATA])["config"] == config
    size = sum(len(f"{key}='{value}'\n") for key, value in written.items())
    assert size + WHAT_COOLIFY_ADDS < LARGEST_ENVIRONMENT


def test_an_application_of_an_earlier_version_gets_its_settings_once(pool, plain):
    slot = run_one(pool)
    Slot.objects.update(settings_version=0)
    sent = []

    def note(request, answer):
        if request.method == "PATCH" and request.path.endswith(slot.coolify_uuid):
            sent.append(json.loads(request.body))

    pool.simulator.observe(note)
    for _ in range(2):
        slot = run_one(pool)
    with_settings = [body for body in sent if "docker_images_to_keep" in body]
    assert len(with_settings) == 1
    assert with_settings[0]["max_restart_count"] == 0
    assert slot.settings_version == SETTINGS_VERSION


def test_the_copy_for_previews_keeps_no_bot_data(pool, plain):
    slot = run_one(pool)
    rows = plain.get(f"/applications/{slot.coolify_uuid}/envs").json()
    values = {each["is_preview"]: each["value"] for each in rows if each["key"] == BOT_DATA}
    assert values[True] == "-"
    assert decode_bot_data(values[False])["botId"]
