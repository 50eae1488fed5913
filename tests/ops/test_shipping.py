"""The Dockerfile, compose.yaml and start script, checked without running containers."""

import fnmatch
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
START = ROOT / "ops" / "start.sh"
PROCESSES = ("web", "worker", "ticker")


def instructions() -> list[tuple[str, str]]:
    text = re.sub(r"\\\n\s*", " ", (ROOT / "Dockerfile").read_text())
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(line.split()[0], line.split(maxsplit=1)[1]) for line in lines]


def last_stage() -> list[tuple[str, str]]:
    all_of_them = instructions()
    starts = [n for n, (word, _) in enumerate(all_of_them) if word == "FROM"]
    return all_of_them[starts[-1] :]


def services() -> dict:
    return yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]


# --- The image -------------------------------------------------------------------------------


def test_the_image_runs_without_root():
    users = [rest for word, rest in last_stage() if word == "USER"]
    assert users == ["10001:10001"]


def test_every_base_image_is_pinned_to_a_version():
    for word, rest in instructions():
        if word == "FROM":
            assert re.match(r"[a-z/]+:\d+\.\d+", rest), rest


def test_installed_packages_are_pinned_by_hash():
    for word, rest in instructions():
        if word == "RUN" and "pip install" in rest:
            assert "--require-hashes" in rest


def test_the_image_contains_no_secrets():
    for word, rest in instructions():
        if word in {"ENV", "ARG"}:
            assert not re.search(r"SECRET|TOKEN|PASSWORD", rest)


def test_nothing_else_is_downloaded_or_installed():
    for word, rest in instructions():
        assert word != "ADD"
        assert not re.search(r"\b(curl|wget|sudo|apt-get|apt)\b", rest)


def test_copied_files_exist_and_are_not_ignored():
    for word, rest in instructions():
        if word == "COPY" and "--from" not in rest:
            for source in rest.split()[:-1]:
                assert (ROOT / source).exists(), source
                assert _is_included(source), source


def _is_included(path: str) -> bool:
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    included = [line[1:] for line in lines if line.startswith("!")]
    assert "*" in lines
    return any(fnmatch.fnmatch(path, pattern) for pattern in included)


def test_every_app_is_in_the_image(settings):
    copied = {rest.split()[0] for word, rest in last_stage() if word == "COPY"}
    own = {app for app in settings.INSTALLED_APPS if (ROOT / app).is_dir()}
    assert own <= copied


def test_the_image_checks_its_health_and_starts_through_the_script():
    words = dict(last_stage())
    assert '"/app/ops/start.sh", "healthy", "web"' in words["HEALTHCHECK"]
    assert words["ENTRYPOINT"] == '["/app/ops/start.sh"]'


def test_the_image_has_the_redis_version_that_is_tested():
    pinned = (ROOT / "ops" / "requirements-redis.txt").read_text()
    tested = (ROOT / "requirements-dev.txt").read_text()
    assert [line for line in pinned.splitlines() if line not in tested] == []


# --- compose.yaml ----------------------------------------------------------------------------


def test_every_process_has_a_health_check():
    for name in PROCESSES:
        assert services()[name]["healthcheck"]["test"][-2:] == ["healthy", name]


def test_every_process_is_confined():
    for name in (*PROCESSES, "migrate"):
        service = services()[name]
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert service["tmpfs"] == ["/tmp"]
        assert "no-new-privileges:true" in service["security_opt"]


def test_processes_wait_for_migrations_which_wait_for_the_database():
    wanted = {"migrate": {"condition": "service_completed_successfully"}}
    for name in PROCESSES:
        assert services()[name]["depends_on"] == wanted
        assert services()[name]["command"] == [name]
    assert services()["migrate"]["depends_on"] == {"db": {"condition": "service_healthy"}}


def test_worker_and_ticker_check_their_own_health():
    for name in ("worker", "ticker"):
        assert services()[name]["healthcheck"]["test"][-2:] == ["healthy", name]


def test_only_the_web_server_has_a_port():
    assert [name for name, service in services().items() if "ports" in service] == ["web"]


def test_the_web_server_listens_on_localhost_by_default():
    [port] = services()["web"]["ports"]
    assert port == "${WEB_ADDRESS:-127.0.0.1}:${WEB_PORT:-8000}:8000"


def test_the_database_is_not_healthy_during_its_setup():
    """During its setup, PostgreSQL listens on its socket only."""
    probe = services()["db"]["healthcheck"]["test"]
    assert probe[1:4] == ["pg_isready", "--host", "127.0.0.1"]


def test_every_process_keeps_its_host_name_across_containers():
    for name in PROCESSES:
        assert services()[name]["hostname"] == f"${{BOTPOOL_NODE:-botpool}}-{name}"


def test_every_secret_is_required():
    text = (ROOT / "compose.yaml").read_text()
    for name in ("POSTGRES_PASSWORD", "SECRET_KEY", "COOLIFY_API_TOKEN", "COOLIFY_WEBHOOK_SECRET"):
        assert re.search(rf"\${{{name}:\?", text), name


def test_required_variables_have_no_text_after_the_question_mark():
    """Coolify would use the text after `:?` as the initial value."""
    text = (ROOT / "compose.yaml").read_text()
    assert set(re.findall(r"\$\{\w+:\?([^}]*)\}", text)) == {""}


def test_every_variable_that_is_set_is_also_read():
    source = "\n".join(
        path.read_text()
        for path in [ROOT / "botpool" / "settings.py", *(ROOT / "ops").glob("*.py")]
    )
    for name in services()["web"]["environment"]:
        known = f'"{name}"' in source or name.startswith(("BOT_IMAGE_", "MAX_POOL_SIZE"))
        assert known, name


# --- The script ------------------------------------------------------------------------------


def run(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(START), *words],
        env={**os.environ, "PYTHON": sys.executable, **variables},
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_the_script_prints_its_usage():
    assert run().returncode == 64
    assert run("dance").returncode == 64
    assert "usage" in run("dance").stderr


def test_the_script_runs_management_commands():
    done = run("manage", "version")
    assert done.returncode == 0, done.stderr
    assert re.match(r"\d+\.\d+", done.stdout)


def test_gunicorn_accepts_its_configuration():
    gunicorn = [sys.executable, "-m", "gunicorn", "--check-config"]
    gunicorn += ["--config", "python:botpool.runtime.web.configuration", "botpool.wsgi:application"]
    done = subprocess.run(gunicorn, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("process", PROCESSES)
def test_a_missing_process_is_not_healthy(process):
    nowhere = {"WEB_BIND": "127.0.0.1:1", "DATABASE_URL": "postgres://u@127.0.0.1:1/d"}
    done = run("healthy", process, **nowhere)
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) <= 2


@pytest.mark.parametrize("process", ["ticker", "migrate"])
def test_ticker_and_migrations_bypass_pgbouncer(process, tmp_path):
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\necho "$DATABASE_URL"\n')
    python.chmod(0o755)
    urls = {"DATABASE_URL": "postgres://pooled", "DIRECT_DATABASE_URL": "postgres://direct"}
    assert run(process, **urls, PYTHON=str(python)).stdout == "postgres://direct\n"
    assert run("worker", **urls, PYTHON=str(python)).stdout == "postgres://pooled\n"


def test_the_redis_requirements_are_complete_on_every_supported_python():
    """redis needs async-timeout below Python 3.11.3, which Debian 12 has."""
    pinned = (ROOT / "ops" / "requirements-redis.txt").read_text()
    assert re.search(r"^async-timeout==\S+ ; python_full_version < '3.11.3' ", pinned, re.MULTILINE)
