import re

import pytest
from django.core.management import call_command
from django.db.models.functions import Now

from coolify.simulator.control_client import SimulatorControl
from coolify.simulator.settings import Token
from core.jobs.jobs import WORKER_HEARTBEAT
from core.jobs.ticker import LEASE, LEASE_TTL
from core.leases import Lease, acquire_lease
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
        settings.COOLIFY_SIMULATED = True  # which allows a local address
        yield running


def everything_runs():
    Lease.objects.create(key=WORKER_HEARTBEAT, finished_at=Now())
    acquire_lease(LEASE, ttl=LEASE_TTL)


def run_doctor(capsys):
    """Return the exit code and the output."""
    try:
        call_command("doctor")
    except SystemExit as end:
        return end.code, capsys.readouterr().out
    return 0, capsys.readouterr().out


def test_a_healthy_installation_has_no_fault(simulator, capsys):
    everything_runs()
    code, out = run_doctor(capsys)
    assert (code, "FAULT" in out) == (0, False), out
    assert "All is well" in out


def test_it_names_the_processes_that_do_not_run(simulator, capsys):
    code, out = run_doctor(capsys)
    assert code == 1
    assert "FAULT  worker: " in out
    assert "FAULT  ticker: " in out
    assert "manage.py worker" in out


def test_it_says_when_coolify_cannot_be_reached(settings, capsys):
    settings.COOLIFY_API_URL = "http://127.0.0.1:9/api/v1"
    code, out = run_doctor(capsys)
    assert code == 1
    assert "FAULT  Coolify: " in out


@pytest.mark.parametrize("simulator", [READ_ONLY], indirect=True)
def test_it_names_the_abilities_that_the_token_is_missing(simulator, capsys):
    code, out = run_doctor(capsys)
    assert code == 1
    assert "ok     token may read" in out
    assert "FAULT  token may write" in out
    assert "FAULT  token may deploy" in out


def test_a_coolify_that_asks_for_a_pause_is_not_a_fault(simulator, capsys):
    everything_runs()
    with SimulatorControl(simulator.url) as control:
        control.answer_with(429, retry_after=60)
        code, out = run_doctor(capsys)
    assert (code, "FAULT" in out) == (0, False), out
    assert re.search(r"skip   Coolify: Coolify is busy, try again in \d+ s", out)
    assert "Coolify asked for a pause until" in out
    assert "All is well" not in out


def test_it_lists_the_checks_that_a_spent_budget_prevents(simulator, settings, capsys):
    everything_runs()
    settings.COOLIFY_RATE_LIMIT = 1
    run_doctor(capsys)
    code, out = run_doctor(capsys)
    assert (code, "FAULT" in out) == (0, False), out
    for name in ("Coolify", "token may read", "token may write", "project and servers"):
        assert f"skip   {name}: Coolify is busy" in out


@pytest.mark.parametrize("status", [500, 422])
def test_a_failed_call_is_not_a_missing_ability(simulator, capsys, status):
    with SimulatorControl(simulator.url) as control:
        control.answer_with(status, path="/envs/bulk")
        _, out = run_doctor(capsys)
    assert "FAULT  token may write" in out
    assert "`write` is missing" not in out


def test_it_lists_the_projects_and_servers_that_exist(simulator, settings, capsys):
    settings.COOLIFY_PROJECT_UUID = "elsewhere"
    settings.COOLIFY_SERVER_UUIDS = ["nowhere"]
    code, out = run_doctor(capsys)
    assert code == 1
    assert "simulated-project" in out
    assert "FAULT  server nowhere: unknown to Coolify" in out


def test_it_changes_nothing_in_coolify(simulator, capsys):
    everything_runs()
    run_doctor(capsys)
    assert not simulator.world.applications


def test_a_local_public_address_is_a_fault_with_a_real_coolify(simulator, settings, capsys):
    settings.COOLIFY_SIMULATED = False
    settings.PUBLIC_URL = "http://127.0.0.1:8000"
    _, out = run_doctor(capsys)
    assert "FAULT  public address" in out


def test_a_public_address_that_does_not_answer_is_a_fault(simulator, settings, capsys):
    settings.PUBLIC_URL = "http://127.0.0.1:9"
    _, out = run_doctor(capsys)
    assert "FAULT  public address: http://127.0.0.1:9 does not answer: ConnectionError" in out


def test_a_public_address_of_another_program_is_a_fault(simulator, settings, capsys):
    settings.PUBLIC_URL = f"{simulator.url}/project"
    _, out = run_doctor(capsys)
    assert f"FAULT  public address: {simulator.url}/project/healthz answers 200" in out


def test_a_generated_secret_key_is_a_fault_with_a_shared_database(
    simulator, settings, capsys, tmp_path
):
    settings.EMBEDDED_POSTGRES = False
    settings.DATA_DIR = tmp_path
    (tmp_path / "secret_key").write_text(settings.SECRET_KEY)
    _, out = run_doctor(capsys)
    assert "FAULT  secret key" in out


def test_a_short_secret_key_is_a_fault(simulator, settings, capsys):
    settings.SECRET_KEY = "k" * 31
    _, out = run_doctor(capsys)
    assert "FAULT  secret key: SECRET_KEY has only 31 characters" in out


def test_default_images_are_a_fault_with_a_real_coolify(simulator, settings, capsys):
    settings.COOLIFY_SIMULATED = False
    settings.BOT_IMAGES = {**settings.BOT_IMAGES, "zoom": "ghcr.io/us/bot:1"}
    settings.MAX_POOL_SIZES = {**settings.MAX_POOL_SIZES, "teams": 0}
    _, out = run_doctor(capsys)
    assert "FAULT  bot images: registry.example/… does not exist" in out
    assert "Set BOT_IMAGE_GOOGLE_MEET; " in out


def test_configured_images_are_no_fault(simulator, settings, capsys):
    settings.COOLIFY_SIMULATED = False
    settings.BOT_IMAGES = dict.fromkeys(settings.BOT_IMAGES, "ghcr.io/us/bot:1")
    _, out = run_doctor(capsys)
    assert "ok     bot images" in out


@pytest.mark.parametrize("ours", ["EMBEDDED_POSTGRES", "COOLIFY_SIMULATED"])
def test_debug_mode_is_a_fault_with_a_real_database_or_coolify(simulator, settings, capsys, ours):
    settings.DEBUG = True
    settings.EMBEDDED_POSTGRES = settings.COOLIFY_SIMULATED = True
    setattr(settings, ours, False)
    _, out = run_doctor(capsys)
    assert "FAULT  debug mode" in out


def test_debug_mode_is_no_fault_in_a_trial(simulator, settings, capsys):
    settings.DEBUG = settings.EMBEDDED_POSTGRES = True
    _, out = run_doctor(capsys)
    assert "ok     debug mode" in out


def test_it_explains_what_an_unreachable_redis_means(simulator, settings, capsys):
    settings.REDIS_URL = "redis://:hunter2@127.0.0.1:9/0"
    code, out = run_doctor(capsys)
    assert code == 1
    assert "FAULT  Redis: Error 111 connecting to 127.0.0.1:9. Connection refused." in out
    assert "no task is run" in out
    assert "hunter2" not in out


def test_an_invalid_redis_url_is_a_fault_and_not_shown(simulator, settings, capsys):
    settings.REDIS_URL = "redis://:hunter/2@127.0.0.1:6379/0"
    _, out = run_doctor(capsys)
    assert "FAULT  Redis: REDIS_URL is not a valid address" in out
    assert "hunter" not in out


def test_a_redis_that_answers_is_no_fault(simulator, settings, capsys):
    with redis() as url:
        settings.REDIS_URL = url
        _, out = run_doctor(capsys)
    assert "ok     Redis: answers" in out


def test_it_never_prints_the_token(simulator, capsys):
    _, out = run_doctor(capsys)
    assert simulator.settings.tokens[0].plain not in out
