"""The Python client against a live server: its README, every call, and what it promises to read."""

import asyncio
import os
import re
import subprocess
import sys
import zipfile
from dataclasses import fields
from datetime import UTC, datetime, timedelta

import botpool_client
import httpx
import pytest
from botpool_client import (
    AsyncBotpool,
    Botpool,
    BotStatus,
    InvalidRequest,
    NotAllowed,
    NotFound,
    Platform,
    Retries,
    operations,
    results,
)

from api.application import api
from api.keys import create_api_key
from bots import status
from bots.models import Bot
from pool.servers.states import refresh_servers
from tests.factories import SlotFactory
from tests.processes import ROOT

PACKAGE = ROOT / "clients" / "python"
MEETING = "https://meet.google.com/abc-defg-hij"


# --- One description of the calls, in step with the server's ------------------------------------


def snake(name):
    return re.sub(r"(?<=[a-z])[A-Z]", lambda match: "_" + match[0].lower(), name)


def test_every_call_of_clients_and_operators_is_there():
    described = {
        snake(operation["operationId"])
        for path in api.get_openapi_schema()["paths"].values()
        for operation in path.values()
        if operation["tags"][0] in ("Bots", "Pool", "Servers")
    }
    assert described <= {name for name in dir(operations) if not name.startswith("_")}
    for name in described:
        assert hasattr(Botpool, name)
        assert hasattr(AsyncBotpool, name)


def test_both_clients_have_the_same_methods():
    sync, other = ({n for n in dir(c) if not n.startswith("_")} for c in (Botpool, AsyncBotpool))
    assert sync - {"close"} == other - {"aclose"}


@pytest.mark.parametrize(
    "kind",
    [
        results.WaitingFor,
        results.BotEvent,
        results.BotLog,
        results.LogLine,
        results.PoolOfPlatform,
        results.PressureOfPlatform,
        results.Slot,
        results.SlotCounts,
        results.Waiter,
        results.Queue,
        results.Server,
        results.ServerPrepull,
    ],
)
def test_the_fields_are_those_of_the_description(kind):
    schemas = api.get_openapi_schema()["components"]["schemas"]
    ours = {each.name for each in fields(kind)}
    described = [{snake(name) for name in each.get("properties", {})} for each in schemas.values()]
    assert ours in described


def test_statuses_and_platforms_are_those_of_the_server():
    assert {each.value for each in BotStatus} == set(status.BotStatus.values)
    assert {each.value for each in Platform} == set(status.Platform.values)
    assert {each.value for each in botpool_client.TERMINAL} == {
        status.BotStatus(each).value for each in status.TERMINAL
    }


# --- The server answers -------------------------------------------------------------------------


@pytest.fixture
def key(transactional_db):
    return create_api_key(name="app")


@pytest.fixture
def botpool(live_server, key):
    with Botpool(live_server.url, key) as client:
        yield client


@pytest.mark.slow
def test_a_bot_from_its_request_to_its_end(botpool):
    placed = botpool.create_bot(MEETING, bot_display_name="Notetaker", config={"language": "en"})
    assert (placed.created, placed.replayed) == (True, False)
    assert placed.bot.bot_display_name == "Notetaker"
    assert Bot.objects.get().config == {"language": "en"}
    assert botpool.cancel_bot(placed.bot.id).has_ended
    assert botpool.wait_until_ended(placed.bot.id, timeout=30).status == BotStatus.CANCELLED
    assert [each.to_status for each in botpool.iter_bot_events(placed.bot.id)][-1] == "CANCELLED"


@pytest.mark.slow
def test_iterators_go_through_all_pages(botpool):
    made = [botpool.create_bot(MEETING).bot.id for _ in range(5)]
    assert [bot.id for bot in botpool.iter_bots(page_size=2)] == made[::-1]
    assert len(list(botpool.iter_bots(status="DONE"))) == 0


@pytest.mark.slow
def test_a_lost_answer_makes_one_bot(live_server, key):
    class Lossy(httpx.HTTPTransport):
        losses = 1

        def handle_request(self, request):
            response = super().handle_request(request)
            if request.method == "POST" and self.losses:
                self.losses -= 1
                response.close()
                raise httpx.ReadError("the answer was lost")
            return response

    with Botpool(
        live_server.url, key, transport=Lossy(), retries=Retries(first_pause=0.01)
    ) as client:
        placed = client.create_bot(MEETING)
    assert placed.replayed
    assert Bot.objects.count() == 1


@pytest.mark.slow
def test_errors_of_the_server_are_of_the_family(live_server, botpool):
    with pytest.raises(InvalidRequest) as caught:
        botpool.create_bot(MEETING, priority=5000)
    assert caught.value.errors == {"priority": ("Must be at most 1000.",)}
    assert caught.value.correlation_id
    with pytest.raises(NotFound):
        botpool.get_bot(1)
    with pytest.raises(NotAllowed):
        botpool.list_servers()
    with Botpool(live_server.url, "bp_wrong") as stranger, pytest.raises(NotAllowed):
        stranger.get_pool()


@pytest.mark.slow
def test_the_pool_and_its_servers_are_read(live_server, botpool, settings):
    settings.COOLIFY_SERVER_UUIDS = ["a", "b"]
    refresh_servers()
    slot = SlotFactory(server_uuid="a")
    settings.MAX_POOL_SIZES = {**settings.MAX_POOL_SIZES, "zoom": 0}
    waiting = botpool.create_bot("https://zoom.us/j/123456789")
    assert waiting.queue_position == 1
    assert botpool.get_bot(waiting.bot.id).queue_position == 1
    assert botpool.get_pool().platforms["google-meet"].slots.idle == 1
    assert botpool.get_pressure().platforms["google-meet"].would_place_now
    assert [each.slot_name for each in botpool.list_slots()] == [slot.name]
    assert [each.bot_id for each in botpool.list_queue().waiters] == [waiting.bot.id]
    operator = create_api_key(name="ops", role="operator")
    with Botpool(live_server.url, operator) as operators:
        assert [each.uuid for each in operators.list_servers()] == ["a", "b"]
        begins = datetime.now(UTC).replace(microsecond=0) + timedelta(days=1)
        server = operators.plan_maintenance(
            "a", reason="Kernel", begins=begins, ends=begins + timedelta(hours=1)
        )
        assert server.maintenance.begins == begins


@pytest.mark.slow
def test_the_async_client_does_the_same(live_server, key):
    async def life():
        async with AsyncBotpool(live_server.url, key) as client:
            placed = await client.create_bot(MEETING)
            await client.cancel_bot(placed.bot.id)
            ended = await client.wait_until_ended(placed.bot.id, timeout=30)
            return ended.status, [bot.id async for bot in client.iter_bots()], placed.bot.id

    ended, listed, made = asyncio.run(life())
    assert (ended, listed) == ("CANCELLED", [made])


def test_the_key_is_not_shown():
    assert "bp_secret" not in repr(Botpool("http://botpool.example", "bp_secret"))


@pytest.mark.parametrize(
    "url", ["http://botpool.example/", "http://botpool.example/api/v1", "http://botpool.example"]
)
def test_the_address_may_have_the_path_of_the_api(url):
    assert Botpool(url, "bp_key").url == "http://botpool.example"


@pytest.mark.parametrize(
    ("url", "key"), [("botpool.example", "k"), ("http://x", ""), ("http://x", "a b")]
)
def test_a_wrong_address_or_key_is_refused_at_once(url, key):
    with pytest.raises(ValueError, match=r"begins with|API key"):
        Botpool(url, key)


# --- The package --------------------------------------------------------------------------------


def readme(language="python"):
    return re.findall(rf"```{language}\n(.*?)```", (PACKAGE / "README.md").read_text(), re.DOTALL)


@pytest.mark.slow
@pytest.mark.parametrize("number", [0, 1])
def test_the_examples_of_its_readme_work(live_server, key, number, settings):
    # Its bot fails, because no worker runs here and the bot gives up at once.
    settings.MAX_POOL_SIZES = dict.fromkeys(settings.MAX_POOL_SIZES, 0)
    example = readme()[number].replace("timeout=600", "timeout=1, poll_interval=0.2")
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", example],
        env={
            **os.environ,
            "BOTPOOL": live_server.url,
            "KEY": key,
            "PYTHONPATH": str(PACKAGE / "src"),
        },
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert "QUEUED" in done.stdout


@pytest.mark.slow
def test_it_builds_as_a_wheel_that_can_be_imported(tmp_path):
    build = [sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", str(tmp_path)]
    subprocess.run([*build, str(PACKAGE)], check=True, capture_output=True, timeout=120)
    (wheel,) = tmp_path.glob("botpool_client-*.whl")
    assert "botpool_client/py.typed" in zipfile.ZipFile(wheel).namelist()
    program = "import botpool_client; print(botpool_client.__file__, botpool_client.__version__)"
    environment = {**os.environ, "PYTHONPATH": str(wheel)}
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert str(wheel) in done.stdout
    assert botpool_client.__version__ in done.stdout
