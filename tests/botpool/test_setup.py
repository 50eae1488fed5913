"""`manage.py setup` asks for what is missing, tests it against Coolify, and writes .env."""

import os
import stat
import subprocess
import sys
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from botpool.management.commands import setup
from botpool.setup import env_file, values
from botpool.setup.env_file import CannotBeWritten, EnvFile
from coolify.simulator.settings import DEFAULT_PROJECT, DEFAULT_TOKEN, Token
from tests.processes import ROOT
from tests.simulated_coolify import simulated_coolify

IMAGE = "registry.example/team/zoom-bot:1.4"
PUBLIC = "https://botpool.example"
READER = "2|reader"


@pytest.fixture(scope="module")
def simulator():
    tokens = [Token(), Token(plain=READER, abilities=frozenset({"read"}))]
    with simulated_coolify(servers=["one", "two"], tokens=tokens) as running:
        yield running


@pytest.fixture
def file(tmp_path, monkeypatch):
    path = tmp_path / ".env"
    monkeypatch.setenv("BOTPOOL_ENV_FILE", str(path))
    monkeypatch.setattr(values, "fault_in", no_fault)  # a process of its own for each is slow
    monkeypatch.setattr("botpool.setup.coolify.fault_in", no_fault)
    monkeypatch.setattr("botpool.setup.setup.fault_in", no_fault)
    return path


def no_fault(values):
    return ""


@pytest.fixture
def known(simulator):
    """Everything that setup needs."""
    return {
        "COOLIFY_API_URL": simulator.api_url,
        "COOLIFY_API_TOKEN": DEFAULT_TOKEN,
        "COOLIFY_PROJECT_UUID": DEFAULT_PROJECT,
        "COOLIFY_SERVER_UUID": "one,two",
        "BOT_IMAGE_ZOOM": IMAGE,
        "BOTPOOL_PUBLIC_URL": PUBLIC,
        "POSTGRES_PASSWORD": "f00",
    }


class Terminal:
    """Answers by a word of the question; each is given once, in order."""

    def __init__(self, monkeypatch, *answers):
        self.answers = list(answers)
        self.questions: list[str] = []
        monkeypatch.setattr(setup, "input", self.answer, raising=False)
        monkeypatch.setattr(setup, "getpass", self.answer)

    def answer(self, question):
        self.questions.append(question)
        word, answer = self.answers.pop(0)
        assert word in question, (word, question)
        if isinstance(answer, BaseException):
            raise answer
        return answer


def run(capsys, *options):
    call_command("setup", *options)
    return capsys.readouterr().out


def written(path):
    return EnvFile(path).values


def test_all_is_asked_for_tried_and_written(simulator, file, monkeypatch, capsys):
    terminal = Terminal(
        monkeypatch,
        ("address", simulator.url),
        ("token", DEFAULT_TOKEN),
        ("servers", "2"),
        ("Google Meet", ""),
        ("Teams", ""),
        ("Zoom", IMAGE),
        ("reach Botpool", f"{PUBLIC}/"),
        ("Number", "1"),
    )
    said = run(capsys)
    assert terminal.answers == []
    found = written(file)
    secrets = [found.pop(n) for n in ("SECRET_KEY", "POSTGRES_PASSWORD", "COOLIFY_WEBHOOK_SECRET")]
    assert len(set(secrets)) == 3
    assert min(len(each) for each in secrets) == 64
    assert found == {
        "COOLIFY_API_URL": simulator.api_url,
        "COOLIFY_API_TOKEN": DEFAULT_TOKEN,
        "COOLIFY_PROJECT_UUID": DEFAULT_PROJECT,
        "COOLIFY_SERVER_UUID": "two",
        "MAX_POOL_SIZE_GOOGLE_MEET": "0",
        "MAX_POOL_SIZE_TEAMS": "0",
        "BOT_IMAGE_ZOOM": IMAGE,
        "BOTPOOL_PUBLIC_URL": PUBLIC,
    }
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert not any(secret in said for secret in [*secrets, DEFAULT_TOKEN])


def test_without_input_all_comes_from_the_environment(known, file, monkeypatch, capsys):
    for name, value in known.items():
        monkeypatch.setenv(name, value)
    run(capsys, "--no-input")
    assert known.items() <= written(file).items()


def test_a_second_run_changes_nothing(known, file, capsys):
    file.write_text("".join(f"{name}={value}\n" for name, value in known.items()))
    run(capsys, "--no-input")
    first = file.read_text()
    run(capsys, "--no-input")
    assert file.read_text() == first


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("COOLIFY_API_TOKEN", "9|wrong", "with the abilities read, write and deploy"),
        ("COOLIFY_API_TOKEN", READER, "it lacks the ability write"),
        ("COOLIFY_API_URL", "http://127.0.0.1:1/api/v1", "could not be reached"),
        ("COOLIFY_PROJECT_UUID", "typo", f"It knows: {DEFAULT_PROJECT}."),
        ("COOLIFY_SERVER_UUID", "one,typo", "It knows: one, two."),
        ("COOLIFY_ENVIRONMENT_NAME", "typo", "It knows: production."),
        ("COOLIFY_DESTINATION_UUID", "typo", "It knows: one-destination."),
        ("BOTPOOL_PUBLIC_URL", "http://127.0.0.1:8000", "points a bot's container at itself"),
        ("BOTPOOL_PUBLIC_URL", f"{PUBLIC}/bots?x", f"without a path, as {PUBLIC}"),
        ("BOT_IMAGE_ZOOM", "", "no bot could start"),
        ("POSTGRES_PASSWORD", "", "DATABASE_URL"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_written(known, file, monkeypatch, name, value, says):
    for each, right in {**known, name: value}.items():
        monkeypatch.setenv(each, right)
    with pytest.raises(CommandError, match=r"is as it was\.") as caught:
        call_command("setup", "--no-input", stdout=StringIO())
    assert says in str(caught.value)
    assert "9|wrong" not in str(caught.value)
    assert not file.exists()


def test_a_wrong_answer_is_asked_for_again(known, file, monkeypatch, capsys):
    del known["COOLIFY_API_TOKEN"], known["COOLIFY_SERVER_UUID"]
    file.write_text("".join(f"{name}={value}\n" for name, value in known.items()))
    Terminal(
        monkeypatch,
        ("token", "9|wrong"),
        ("token", DEFAULT_TOKEN),
        ("servers", "3"),
        ("servers", "all"),
        ("Google Meet", ""),
        ("Teams", ""),
    )
    said = run(capsys)
    assert "FAULT  Coolify does not accept the token" in said
    assert "'3' is not a number from 1 to 2" in said
    assert written(file)["COOLIFY_SERVER_UUID"] == "one,two"


def test_a_server_with_several_destinations_needs_a_choice(
    simulator, known, file, monkeypatch, capsys
):
    server = simulator.world.servers["one"]
    monkeypatch.setattr(server, "destinations", ["first", "second"])
    known |= {
        "COOLIFY_SERVER_UUID": "one",
        "BOT_IMAGE_TEAMS": IMAGE,
        "BOT_IMAGE_GOOGLE_MEET": IMAGE,
    }
    file.write_text("".join(f"{name}={value}\n" for name, value in known.items()))
    Terminal(monkeypatch, ("destinations", "2"))
    run(capsys)
    assert written(file)["COOLIFY_DESTINATION_UUID"] == "second"


@pytest.mark.parametrize("end", [KeyboardInterrupt(), EOFError()])
def test_an_early_end_leaves_the_file_as_it_was(simulator, file, monkeypatch, end):
    file.write_text("# mine\nLOG_LEVEL=DEBUG\n")
    Terminal(monkeypatch, ("address", simulator.url), ("token", end))
    with pytest.raises((SystemExit, CommandError)):
        call_command("setup", stdout=StringIO())
    assert file.read_text() == "# mine\nLOG_LEVEL=DEBUG\n"


def test_an_answer_that_the_environment_hides_is_named(known, file, monkeypatch, capsys):
    for name, value in known.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("BOTPOOL_PUBLIC_URL", "http://localhost")
    monkeypatch.setenv("MAX_POOL_SIZE_TEAMS", "0")
    monkeypatch.setenv("MAX_POOL_SIZE_GOOGLE_MEET", "0")
    Terminal(monkeypatch, ("reach Botpool", PUBLIC))
    assert "BOTPOOL_PUBLIC_URL is also set in the environment, which wins" in run(capsys)


def test_a_new_file_keeps_the_words_of_the_example(known, file, monkeypatch, capsys):
    for name, value in known.items():
        monkeypatch.setenv(name, value)
    run(capsys, "--no-input")
    lines = file.read_text().splitlines()
    assert (
        "# Images with their tags. For a platform without bots, set its size to 0 instead." in lines
    )
    assert f"BOT_IMAGE_ZOOM={IMAGE}" in lines
    assert len(lines) == len((ROOT / ".env.example").read_text().splitlines())


# --- The file -----------------------------------------------------------------------------------


def test_lines_and_comments_are_kept(tmp_path):
    path = tmp_path / ".env"
    path.write_text("# About us\nexport LOG_LEVEL=INFO\n# COOLIFY_API_URL=https://…\n\nX='a b'\n")
    file = EnvFile(path)
    file.set("LOG_LEVEL", "DEBUG")
    file.set("COOLIFY_API_URL", "https://coolify.example/api/v1")
    file.set("X", "a b")
    file.set("SECRET_KEY", "a$b #c")
    file.write()
    assert path.read_text() == (
        "# About us\nLOG_LEVEL=DEBUG\nCOOLIFY_API_URL=https://coolify.example/api/v1\n\nX='a b'\n"
        "SECRET_KEY='a$b #c'\n"
    )
    assert EnvFile(path).values["SECRET_KEY"] == "a$b #c"


@pytest.mark.parametrize("value", ["it's", "a\nb", "a\\b"])
def test_what_programs_read_differently_is_refused(value):
    with pytest.raises(CannotBeWritten):
        env_file.quoted(value)


def test_values_are_tested_by_the_settings_themselves():
    assert values.fault_in({"BOT_IMAGE_ZOOM": IMAGE}) == ""
    assert "allowed: an image with its tag" in values.fault_in({"BOT_IMAGE_ZOOM": "no-tag"})


def test_a_database_is_tried():
    assert "PostgreSQL: " in values.fault_of_database("postgres://u:p@127.0.0.1:1/x")


def test_a_password_that_libpq_cannot_read_is_not_shown():
    fault = values.fault_of_database("postgres://u:hunter%zz@127.0.0.1:1/x")
    assert "percent-encoded" in fault
    assert "hunter" not in fault


# --- Every command reads it ---------------------------------------------------------------------


def manage(path, *words, **variables):
    done = subprocess.run(
        [sys.executable, str(ROOT / "manage.py"), *words],
        env={**os.environ, "BOTPOOL_ENV_FILE": str(path), **variables},
        capture_output=True,
        text=True,
        timeout=60,
    )
    return done.stdout + done.stderr


def test_commands_read_the_file_and_the_environment_wins(tmp_path):
    path = tmp_path / ".env"
    path.write_text("MAX_POOL_SIZE=many\n")
    assert "MAX_POOL_SIZE is 'many'" in manage(path, "check")
    assert "no issues" in manage(path, "check", MAX_POOL_SIZE="5")


def test_setup_mends_a_file_that_settings_refuse(tmp_path):
    path = tmp_path / ".env"
    path.write_text("COOLIFY_API_URL=nowhere\n")
    said = manage(path, "setup", "--no-input")
    assert "COOLIFY_API_URL" in said
    assert "is as it was" in said
