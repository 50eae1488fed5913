import re

import pytest
from django.core.management import call_command

from coolify.simulator.control_client import SimulatorControl
from coolify.simulator.settings import Token
from core.jobs.periodic import WORKER_HEARTBEAT, PeriodicWork
from core.jobs.ticker import TickerLease
from tests.ops.neighbours import redis
from tests.pool_under_test import point_at
from tests.simulated_coolify import simulated_coolify

pytestmark = pytest.mark.django_db(transaction=True)

READ_ONLY = {"tokens": [Token(plain="2|reader", abilities=frozenset({"read"}))]}


@pytest.fixture
def simulator(request, settings, live_server):
    with simulated_coolify(**getattr(request, "param", {})) as running:
        for name, value in point_at(running, public_url=live_server.url).items():
            setattr(settings, name, value)
        settings.COOLIFY_SIMULATED = True  # a local address is no fault then
        yield running


def everything_runs():
    from django.db.models.functions import Now

    PeriodicWork.objects.create(name=WORKER_HEARTBEAT, finished_at=Now())
    TickerLease.objects.update_or_create(pk=True, defaults={"holder": "me", "seen_at": Now()})


def consult(capsys):
    """The exit code and what was said."""
    try:
        call_command("doctor")
    except SystemExit as end:
        return end.code, capsys.readouterr().out
    return 0, capsys.readouterr().out


def test_a_healthy_installation_has_no_fault(simulator, capsys):
    everything_runs()
    code, out = consult(capsys)
    assert (code, "FAULT" in out) == (0, False), out
    assert "All is well" in out


def test_it_names_the_parts_that_do_not_run(simulator, capsys):
    code, out = consult(capsys)
    assert code == 1
    assert "FAULT  worker: " in out
    assert "FAULT  ticker: " in out
    assert "manage.py worker" in out


def test_it_says_when_coolify_cannot_be_reached(settings, capsys):
    settings.COOLIFY_API_URL = "http://127.0.0.1:9/api/v1"
    code, out = consult(capsys)
    assert code == 1
    assert "FAULT  Coolify: " in out


@pytest.mark.parametrize("simulator", [READ_ONLY], indirect=True)
def test_it_names_the_abilities_that_the_token_lacks(simulator, capsys):
    code, out = consult(capsys)
    assert code == 1
    assert "ok     token may read" in out
    assert "FAULT  token may write" in out
    assert "FAULT  token may deploy" in out


def test_a_coolify_that_wants_no_more_calls_is_busy_and_not_at_fault(simulator, capsys):
    everything_runs()
    with SimulatorControl(simulator.url) as control:
        control.answer_with(429, retry_after=60)
        code, out = consult(capsys)
    assert (code, "FAULT" in out) == (0, False), out
    assert re.search(r"skip   Coolify: could not be asked: busy, ask again in \d+ s", out)
    assert "Coolify wants no more until" in out
    assert "All is well" not in out


def test_with_its_budget_spent_it_names_all_that_it_could_not_ask(simulator, settings, capsys):
    everything_runs()
    settings.COOLIFY_RATE_LIMIT = 1
    consult(capsys)
    code, out = consult(capsys)
    assert (code, "FAULT" in out) == (0, False), out
    for name in ("Coolify", "token may read", "token may write", "project and servers"):
        assert f"skip   {name}: could not be asked: busy" in out


@pytest.mark.parametrize("status", [500, 422])
def test_a_call_that_fails_is_no_missing_ability(simulator, capsys, status):
    with SimulatorControl(simulator.url) as control:
        control.answer_with(status, path="/envs/bulk")
        _, out = consult(capsys)
    assert "FAULT  token may write" in out
    assert "`write` is missing" not in out


def test_it_names_the_projects_and_servers_there_are(simulator, settings, capsys):
    settings.COOLIFY_PROJECT_UUID = "elsewhere"
    settings.COOLIFY_SERVER_UUIDS = ["nowhere"]
    code, out = consult(capsys)
    assert code == 1
    assert "simulated-project" in out
    assert "FAULT  server nowhere: unknown to Coolify" in out


def test_it_changes_nothing_in_coolify(simulator, capsys):
    everything_runs()
    consult(capsys)
    assert not simulator.world.applications


def test_bots_must_be_able_to_call_back(simulator, settings, capsys):
    settings.COOLIFY_SIMULATED = False
    settings.PUBLIC_URL = "http://127.0.0.1:8000"
    _, out = consult(capsys)
    assert "FAULT  public address" in out


def test_a_public_address_that_does_not_answer_is_a_fault(simulator, settings, capsys):
    settings.PUBLIC_URL = "http://127.0.0.1:9"
    _, out = consult(capsys)
    assert "FAULT  public address: http://127.0.0.1:9 does not answer: ConnectionError" in out


def test_a_public_address_at_which_something_else_answers_is_a_fault(simulator, settings, capsys):
    settings.PUBLIC_URL = f"{simulator.url}/project"
    _, out = consult(capsys)
    assert f"FAULT  public address: {simulator.url}/project/healthz answers 200" in out


def test_machines_around_one_database_need_one_secret_key(simulator, settings, capsys, tmp_path):
    settings.EMBEDDED_POSTGRES = False
    settings.DATA_DIR = tmp_path
    (tmp_path / "secret_key").write_text(settings.SECRET_KEY)
    _, out = consult(capsys)
    assert "FAULT  secret key" in out


def test_a_secret_key_that_can_be_guessed_is_a_fault(simulator, settings, capsys):
    settings.SECRET_KEY = "k" * 31
    _, out = consult(capsys)
    assert "FAULT  secret key: SECRET_KEY has only 31 characters" in out


def test_images_that_nobody_named_are_a_fault_with_a_coolify_of_its_own(
    simulator, settings, capsys
):
    settings.COOLIFY_SIMULATED = False
    settings.BOT_IMAGES = {**settings.BOT_IMAGES, "zoom": "ghcr.io/us/bot:1"}
    settings.MAX_POOL_SIZES = {**settings.MAX_POOL_SIZES, "teams": 0}
    _, out = consult(capsys)
    assert "FAULT  bot images: registry.example/… does not exist" in out
    assert "Set BOT_IMAGE_GOOGLE_MEET; " in out


def test_images_that_are_named_are_no_fault(simulator, settings, capsys):
    settings.COOLIFY_SIMULATED = False
    settings.BOT_IMAGES = dict.fromkeys(settings.BOT_IMAGES, "ghcr.io/us/bot:1")
    _, out = consult(capsys)
    assert "ok     bot images" in out


@pytest.mark.parametrize("ours", ["EMBEDDED_POSTGRES", "COOLIFY_SIMULATED"])
def test_debug_mode_is_a_fault_where_it_is_more_than_a_try(simulator, settings, capsys, ours):
    settings.DEBUG = True
    settings.EMBEDDED_POSTGRES = settings.COOLIFY_SIMULATED = True
    setattr(settings, ours, False)
    _, out = consult(capsys)
    assert "FAULT  debug mode" in out


def test_debug_mode_is_no_fault_where_all_is_simulated(simulator, settings, capsys):
    settings.DEBUG = settings.EMBEDDED_POSTGRES = True
    _, out = consult(capsys)
    assert "ok     debug mode" in out


def test_it_says_what_follows_when_redis_is_away(simulator, settings, capsys):
    settings.REDIS_URL = "redis://:hunter2@127.0.0.1:9/0"
    code, out = consult(capsys)
    assert code == 1
    assert "FAULT  Redis: Error 111 connecting to 127.0.0.1:9. Connection refused." in out
    assert "no task is run" in out
    assert "hunter2" not in out


def test_an_address_that_is_no_redis_is_a_fault_and_not_shown(simulator, settings, capsys):
    settings.REDIS_URL = "redis://:hunter/2@127.0.0.1:6379/0"
    _, out = consult(capsys)
    assert "FAULT  Redis: REDIS_URL is no address of a Redis" in out
    assert "hunter" not in out


def test_a_redis_that_answers_is_no_fault(simulator, settings, capsys):
    with redis() as url:
        settings.REDIS_URL = url
        _, out = consult(capsys)
    assert "ok     Redis: answers" in out


def test_it_tells_nobody_the_token(simulator, capsys):
    _, out = consult(capsys)
    assert simulator.settings.tokens[0].plain not in out
