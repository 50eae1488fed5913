"""Commands in other shells take over the environment of a running `manage.py up`."""

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
    """A separate environment, first for `up` and then for another command."""
    monkeypatch.setattr(os, "environ", {"MAX_POOL_SIZE": "5"})
    return os.environ


def left_by_up(directory, **chosen):
    """Write the file of `up`, and leave it behind as a killed `up` would."""
    with environment_shared(directory, chosen):
        text = (directory / FILE).read_text()
    (directory / FILE).write_text(text)
    os.environ.clear()


def adopt(directory):
    with locked(directory / LOCK):
        adopt_environment(directory)
    return os.environ


def test_unset_variables_are_taken_over(tmp_path):
    left_by_up(tmp_path, BOTPOOL_PUBLIC_URL="http://127.0.0.1:8123")
    assert adopt(tmp_path) == {
        "MAX_POOL_SIZE": "5",
        "BOTPOOL_PUBLIC_URL": "http://127.0.0.1:8123",
    }


def test_set_variables_are_kept(tmp_path, shell):
    left_by_up(tmp_path)
    shell["MAX_POOL_SIZE"] = "7"
    assert adopt(tmp_path) == {"MAX_POOL_SIZE": "7"}


def test_secrets_are_not_written(tmp_path, shell):
    shell.update(dict.fromkeys(SECRETS, "postgres://ada:hunter2@db/botpool"))
    with environment_shared(tmp_path, {}):
        assert "hunter2" not in (tmp_path / FILE).read_text()


def test_the_file_is_removed_at_the_end(tmp_path):
    with environment_shared(tmp_path, {}):
        pass
    assert not (tmp_path / FILE).exists()


def test_a_killed_up_is_ignored(tmp_path):
    left_by_up(tmp_path)
    adopt_environment(tmp_path)
    assert os.environ == {}


def test_an_up_on_another_database_is_ignored(tmp_path, shell):
    left_by_up(tmp_path)
    shell["DATABASE_URL"] = "postgres://ada:hunter2@db/botpool"
    assert "MAX_POOL_SIZE" not in adopt(tmp_path)


def test_the_same_database_with_another_password_counts(tmp_path, shell):
    shell["DATABASE_URL"] = "postgres://ada:hunter2@db/botpool"
    left_by_up(tmp_path)
    shell["DATABASE_URL"] = "postgres://bob:secret@db/botpool"
    assert adopt(tmp_path)["MAX_POOL_SIZE"] == "5"


def test_settings_of_a_different_coolify_are_not_taken_over(tmp_path, shell):
    left_by_up(tmp_path, COOLIFY_SIMULATED="true")
    shell["COOLIFY_API_URL"] = "https://coolify.example/api/v1"
    assert "COOLIFY_SIMULATED" not in adopt(tmp_path)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[1, 2]",
        "7",
        "{}",
        '{"database": ""}',
        '{"database": "", "environment": [1]}',
        '{"database": "", "environment": {"WORKERS": 7}}',
        '{"database": "", "environment": {"A=B": "7"}}',
        '{"database": "", "environment": {"WORKERS": "7\\u0000"}}',
        "[" * 100_000,
    ],
)
def test_a_damaged_file_is_ignored(tmp_path, shell, content):
    (tmp_path / FILE).write_text(content)
    shell.clear()
    assert adopt(tmp_path) == {}


def test_without_a_running_up_nothing_changes(tmp_path):
    os.environ.clear()
    adopt_environment(tmp_path)
    assert os.environ == {}
    assert list(tmp_path.iterdir()) == []
