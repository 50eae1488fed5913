import re
from datetime import timedelta

import pytest
from django.core.management import call_command
from django.db.models.functions import Now

from coolify.simulator.control_client import SimulatorControl
from coolify.simulator.settings import Token
from core.jobs.jobs import WORKER_HEARTBEAT
from core.jobs.ticker import LEASE, LEASE_TTL
from core.leases import Lease, acquire_lease
from slots.models import Finding
from tests.factories import SlotFactory
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


def run_doctor(capsys, *options):
    """Return the exit code and the output."""
    try:
        call_command("doctor", *options)
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


@pytest.mark.parametrize("simulator", [{"tokens": [Token(role="member")]}], indirect=True)
def test_it_names_the_role_that_the_tokens_user_is_missing(simulator, capsys):
    out = run_doctor(capsys)[1]
    assert "FAULT  Coolify: " in out
    assert "Make the token's user an admin of its team" in out


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


def test_a_token_of_another_team_is_a_fault(simulator, capsys):
    SlotFactory(coolify_uuid="app-1")
    SimulatorControl(simulator.url).add_fault("wrong_team")
    code, out = run_doctor(capsys)
    assert code == 1
    assert "FAULT  our applications: Coolify does not show our project" in out
    assert "belongs to the team of COOLIFY_PROJECT_UUID" in out


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


def test_workers_that_cannot_reach_the_public_address_are_a_fault(simulator, capsys):
    error = "SSLError: certificate verify failed"
    Finding.objects.create(
        kind="unheard", subject="pool", reason="No proof", evidence={"error": error}
    )
    _, out = run_doctor(capsys)
    assert "FAULT  bots can be heard: No proof" in out
    assert error in out


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


@pytest.mark.parametrize("damage", [lambda p: p.mkdir(), lambda p: p.write_bytes(b"\xff" * 40)])
def test_a_damaged_file_beside_a_given_secret_key_does_not_matter(
    simulator, settings, capsys, tmp_path, damage
):
    settings.DATA_DIR = tmp_path
    damage(tmp_path / "secret_key")
    _, out = run_doctor(capsys)
    assert "secret key: from SECRET_KEY" in out


def test_a_short_secret_key_is_a_fault(simulator, settings, capsys):
    settings.SECRET_KEY = "k" * 31
    _, out = run_doctor(capsys)
    assert "FAULT  secret key: SECRET_KEY holds 31 characters" in out


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


# --- How Coolify is set up --------------------------------------------------------------------


def test_several_destinations_need_a_choice(simulator, settings, capsys):
    everything_runs()
    server = simulator.world.servers[settings.COOLIFY_SERVER_UUIDS[0]]
    server.destinations = ["first", "second"]
    code, out = run_doctor(capsys)
    assert code == 1
    assert "COOLIFY_DESTINATION_UUID to one of: first, second" in out
    settings.COOLIFY_DESTINATION_UUID = "second"
    assert run_doctor(capsys)[0] == 0
    settings.COOLIFY_DESTINATION_UUID = "typo"
    code, out = run_doctor(capsys)
    assert (code, "typo is not a destination of this server" in out) == (1, True)


def test_a_clean_up_that_keeps_no_images_is_a_fault(simulator, settings, capsys):
    everything_runs()
    server = simulator.world.servers[settings.COOLIFY_SERVER_UUIDS[0]]
    server.docker_cleanup = {**server.docker_cleanup, "disable_application_image_retention": True}
    code, out = run_doctor(capsys)
    assert (code, "keeps no image of a stopped application" in out) == (1, True)


@pytest.mark.parametrize(
    ("settings_of_coolify", "finding"),
    [
        ({}, "keeps the images of slots\n"),
        ({"docker_cleanup_frequency": "daily"}, "keeps the images of slots\n"),
        ({"docker_cleanup_frequency": "30 3 * * *"}, "It runs at 03:30 by the server's clock"),
        ({"docker_cleanup_frequency": "0 */6 * * *"}, "It runs at “0 */6 * * *” by"),
        (
            {"docker_cleanup_frequency": "30 3 * * *", "force_docker_cleanup": False},
            "keeps the images of slots\n",
        ),
    ],
)
def test_a_clean_up_at_another_time_is_pointed_out(
    simulator, settings, capsys, settings_of_coolify, finding
):
    everything_runs()
    server = simulator.world.servers[settings.COOLIFY_SERVER_UUIDS[0]]
    server.docker_cleanup = {**server.docker_cleanup, **settings_of_coolify}
    settings.IMAGE_CLEANUP_TIMES = [timedelta()]
    code, out = run_doctor(capsys)
    assert (code, finding in out) == (0, True), out


@pytest.mark.parametrize("simulator", [{"concurrent_builds": 6}], indirect=True)
def test_more_builds_than_workers_are_pointed_out(simulator, capsys):
    everything_runs()
    assert "6 at a time, but Coolify has 4 workers by default" in run_doctor(capsys)[1]


@pytest.mark.parametrize(
    ("simulator", "words"),
    [
        ({"version": "4.3.11"}, "version 4.3.11 at http"),
        ({"version": "4.5.0"}, "newer than 4.3.11, the last one that Botpool was tried with"),
        ({"version": "4.1.0"}, "older than 4.3.11"),
    ],
    indirect=["simulator"],
)
def test_it_says_what_is_known_of_the_version(simulator, capsys, words):
    assert words in run_doctor(capsys)[1]


@pytest.mark.parametrize("answer", ["y", "n"])
def test_it_sets_up_notifications_with_consent_only(simulator, monkeypatch, capsys, answer):
    everything_runs()
    simulator.settings.webhook_allowed_hosts = ["localhost", "127.0.0.1"]
    monkeypatch.setattr("builtins.input", lambda question: answer)
    code, out = run_doctor(capsys, "--fix")
    assert code == 0, out
    assert bool(simulator.settings.webhook_url) == (answer == "y")
    assert ("Coolify notifies a webhook of failed deployments" in out) == (answer == "y")


def test_a_private_address_that_coolify_refuses_is_explained(simulator, settings, capsys):
    out = run_doctor(capsys, "--fix", "--no-input")[1]
    assert "as their address" in out
    assert "Settings, Advanced" in out
    assert settings.COOLIFY_WEBHOOK_SECRET not in out


@pytest.mark.parametrize("simulator", [READ_ONLY], indirect=True)
def test_it_tries_again_what_coolify_refused_before(simulator, capsys):
    for _ in range(2):
        assert "lacks the ability deploy" in run_doctor(capsys)[1]
