"""Faults of the environment are reported in one line."""

import os
import signal
import subprocess
import sys
from urllib.parse import quote

import pytest
from django.db import connection

from botpool.runtime.postgres import server as postgres
from bots.models import ApiKey
from tests.processes import PATIENCE, ROOT, Program, environment

AWAY = "postgres://u:p@127.0.0.1:1/x"
COMMANDS = [
    ["pool_status"],
    ["create_api_key", "ada"],
    ["release_slot", "pool-zoom-001", "--reason", "Stuck"],
    ["drain_queue"],
    ["reconcile"],
    ["cleanup_slots"],
    ["sync_descriptions"],
]


@pytest.fixture
def empty(data_dir):
    """The address of a database that was never migrated."""
    server = postgres.connection_settings(data_dir)
    return f"postgres://{server['USER']}@{quote(server['HOST'], safe='')}:{server['PORT']}/postgres"


def run(*words, data_dir, **variables):
    program = Program(*words, env=environment(data_dir, **variables))
    return program.wait(), program.lines


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: words[0])
def test_a_database_without_tables_must_be_migrated(words, data_dir, empty):
    code, [line] = run(*words, data_dir=data_dir, DATABASE_URL=empty)
    assert code == 1
    assert "run manage.py migrate" in line


@pytest.mark.parametrize("words", [["pool_status"], ["create_api_key", "ada"]])
def test_an_unreachable_database_is_reported_with_postgresqls_reason(words, data_dir):
    code, [line] = run(*words, data_dir=data_dir, DATABASE_URL=AWAY)
    assert code == 1
    assert line.startswith("botpool: PostgreSQL: connection failed")


@pytest.fixture
def read_only(data_dir, transactional_db):
    """The address of the test's database, on which nothing can be written."""
    server = postgres.connection_settings(data_dir)
    place = f"{server['USER']}@{quote(server['HOST'], safe='')}:{server['PORT']}"
    option = quote("-c default_transaction_read_only=on")
    return f"postgres://{place}/{connection.settings_dict['NAME']}?options={option}"


@pytest.mark.parametrize("words", [["create_api_key", "ada"], ["reconcile"], ["cleanup_slots"]])
def test_a_read_only_database_is_reported_in_one_line(words, data_dir, read_only):
    code, lines = run(*words, data_dir=data_dir, DATABASE_URL=read_only)
    assert code == 1
    assert lines[-1].startswith("botpool: PostgreSQL: cannot execute ")
    assert "Traceback" not in "".join(lines)


def test_the_doctor_names_a_read_only_database(data_dir, read_only):
    code, lines = run("doctor", data_dir=data_dir, DATABASE_URL=read_only)
    assert code == 1
    assert any(line.startswith("FAULT  database writes: PostgreSQL is read-only") for line in lines)
    assert lines[-1].endswith("found.")


def test_a_key_that_could_not_be_shown_is_not_kept(data_dir, transactional_db):
    server = postgres.connection_settings(data_dir)
    place = f"{server['USER']}@{quote(server['HOST'], safe='')}:{server['PORT']}"
    url = f"postgres://{place}/{connection.settings_dict['NAME']}"
    with open("/dev/full", "w") as full:
        code, text = run_quietly(
            "create_api_key", "ada", data_dir=data_dir, stdout=full, env={"DATABASE_URL": url}
        )
    assert code == 1
    assert text.endswith("botpool: No space left on device\n")
    assert not ApiKey.objects.exists()


@pytest.mark.parametrize(
    "words",
    [
        ["release_slot", "\udcff", "--reason", "x"],
        ["drain_server", "\udcff"],
        ["warm_image", "x:y", "--server", "\udcff"],
        ["\udcff"],
    ],
)
def test_an_argument_that_is_not_utf_8_is_refused_with_one_line(words, data_dir):
    code, [line] = run(*words, data_dir=data_dir, DATABASE_URL=AWAY)
    assert code == 1
    assert line == r"botpool: the argument '\udcff' is not UTF-8"


def test_the_doctor_skips_checks_that_need_an_unreachable_database(data_dir):
    code, lines = run("doctor", data_dir=data_dir, DATABASE_URL=AWAY)
    assert code == 1
    assert lines[0].startswith("FAULT  database: connection failed")
    assert "skip   worker, ticker and Coolify: these checks need the database" in lines
    assert lines[-1].endswith("faults found.")


def test_the_doctor_counts_missing_migrations(data_dir, empty):
    code, lines = run("doctor", data_dir=data_dir, DATABASE_URL=empty)
    assert code == 1
    [line] = [line for line in lines if line.startswith("FAULT  migrations: ")]
    assert " not applied, first contenttypes.0001_initial" in line
    assert lines[-1].endswith("faults found.")


@pytest.mark.parametrize("command", ["showmigrations", "doctor"])
def test_a_command_ends_quietly_when_its_output_is_closed(command, data_dir, empty):
    words = [sys.executable, "manage.py", command]
    env = environment(data_dir, DATABASE_URL=empty)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(words, cwd=ROOT, env=env, **pipes) as process:
        process.stdout.close()
        assert process.stderr.read() == b""


def run_quietly(*words, data_dir, **options):
    """Return the exit code and what was written to stderr."""
    program = [sys.executable, "manage.py", *words]
    env = environment(data_dir, DATABASE_URL=AWAY) | options.pop("env", {})
    done = subprocess.run(
        program, cwd=ROOT, env=env, stderr=subprocess.PIPE, text=True, timeout=PATIENCE, **options
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize("words", [["version"], ["doctor"], ["--help"]])
def test_a_full_output_is_one_line(words, data_dir):
    with open("/dev/full", "w") as full:
        code, text = run_quietly(*words, data_dir=data_dir, stdout=full)
    assert (code, text) == (1, "botpool: No space left on device\n")


def test_a_closed_output_is_one_line(data_dir):
    code, text = run_quietly("version", data_dir=data_dir, preexec_fn=lambda: os.close(1))
    assert (code, text) == (1, "botpool: the output is closed; use > /dev/null instead\n")


@pytest.mark.parametrize("module", ["django", "dj_database_url", "django_htmx"])
def test_ctrl_c_during_the_start_ends_it_quietly(module, data_dir, tmp_path):
    """While the first modules are imported, then the settings, then the apps."""
    text = "import os, signal; os.kill(os.getpid(), signal.SIGINT)"
    (tmp_path / f"{module}.py").write_text(text)
    env = {"PYTHONPATH": str(tmp_path)}
    with open("/dev/null", "w") as nowhere:
        done = run_quietly(
            "doctor",
            data_dir=data_dir,
            stdout=nowhere,
            env=env,
            # Shells let commands in the background ignore it, and their children inherit that.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
    assert done == (130, "")
