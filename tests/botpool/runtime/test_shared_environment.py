"""Other shells take over what `manage.py up` was started with, unless they say else."""

import os

import pytest

from botpool.runtime.postgres.file_locks import locked
from botpool.runtime.shared_environment import (
    FILE,
    LOCK,
    SECRETS,
    adopt_environment,
    environment_shared,
)


@pytest.fixture(autouse=True)
def shell(monkeypatch):
    """An environment of its own, in which `up` is started and then another command."""
    monkeypatch.setattr(os, "environ", {"MAX_POOL_SIZE": "5"})
    return os.environ


def left_by_up(directory, **chosen):
    """What is found while `up` runs, with the file of one that was killed."""
    with environment_shared(directory, chosen):
        text = (directory / FILE).read_text()
    (directory / FILE).write_text(text)
    os.environ.clear()


def adopt(directory):
    with locked(directory / LOCK):
        adopt_environment(directory)
    return os.environ


def test_what_is_not_set_is_taken_over(tmp_path):
    left_by_up(tmp_path, BOTPOOL_PUBLIC_URL="http://127.0.0.1:8123")
    assert adopt(tmp_path) == {
        "MAX_POOL_SIZE": "5",
        "BOTPOOL_PUBLIC_URL": "http://127.0.0.1:8123",
    }


def test_what_is_set_stays(tmp_path, shell):
    left_by_up(tmp_path)
    shell["MAX_POOL_SIZE"] = "7"
    assert adopt(tmp_path) == {"MAX_POOL_SIZE": "7"}


def test_secrets_are_not_written(tmp_path, shell):
    shell.update(dict.fromkeys(SECRETS, "postgres://ada:hunter2@db/botpool"))
    with environment_shared(tmp_path, {}):
        assert "hunter2" not in (tmp_path / FILE).read_text()


def test_nothing_is_left_at_the_end(tmp_path):
    with environment_shared(tmp_path, {}):
        pass
    assert not (tmp_path / FILE).exists()


def test_one_that_was_killed_counts_no_more(tmp_path):
    left_by_up(tmp_path)
    adopt_environment(tmp_path)
    assert os.environ == {}


def test_one_on_another_database_does_not_count(tmp_path, shell):
    left_by_up(tmp_path)
    shell["DATABASE_URL"] = "postgres://ada:hunter2@db/botpool"
    assert "MAX_POOL_SIZE" not in adopt(tmp_path)


def test_another_password_is_the_same_database(tmp_path, shell):
    shell["DATABASE_URL"] = "postgres://ada:hunter2@db/botpool"
    left_by_up(tmp_path)
    shell["DATABASE_URL"] = "postgres://bob:secret@db/botpool"
    assert adopt(tmp_path)["MAX_POOL_SIZE"] == "5"


def test_who_names_a_coolify_takes_nothing_over_of_another_one(tmp_path, shell):
    left_by_up(tmp_path, COOLIFY_SIMULATED="true")
    shell["COOLIFY_API_URL"] = "https://coolify.example/api/v1"
    assert "COOLIFY_SIMULATED" not in adopt(tmp_path)


def test_without_one_nothing_is_taken_over(tmp_path):
    os.environ.clear()
    adopt_environment(tmp_path)
    assert os.environ == {}
    assert list(tmp_path.iterdir()) == []
