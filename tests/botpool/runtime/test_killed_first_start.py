"""`up` is killed at a precise moment of its first start; the next start has to work."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import ROOT, Up, environment, free_port, new_data_dir

pytestmark = pytest.mark.slow

KILLED = """
import os, signal, sys
os.environ["DJANGO_SETTINGS_MODULE"] = "botpool.settings"
import django
django.setup()
from {module} import {owner}

real = {owner}.{function}

def killed(*arguments, **options):
    if {condition}:
        os.kill(os.getpid(), signal.SIGKILL)
    return real(*arguments, **options)

{owner}.{function} = killed
from botpool.runtime.command_line import main
main(["manage.py", "up", "--no-demo", "--port", sys.argv[1]])
"""


def kill_before(data_dir: Path, module: str, owner: str, function: str, condition: str) -> None:
    names = {"module": module, "owner": owner, "function": function, "condition": condition}
    words = [sys.executable, "-c", KILLED.format(**names), str(free_port())]
    done = subprocess.run(
        words, cwd=ROOT, env=environment(data_dir), capture_output=True, text=True, check=False
    )
    assert done.returncode == -signal.SIGKILL, done.stdout + done.stderr


@pytest.mark.parametrize("migration", ["bots.0001_initial", "queues.0003_lanes"])
def test_the_next_start_works_after_a_kill_before_a_migration_was_recorded(migration):
    with new_data_dir() as data_dir:
        condition = f"'.'.join(arguments[1:]) == {migration!r}"
        recorder = ("django.db.migrations.recorder", "MigrationRecorder", "record_applied")
        kill_before(data_dir, *recorder, condition)

        up = Up(data_dir)
        up.wait_until_ready()
        assert up.stop() == 0


def test_the_operators_password_is_shown_although_the_first_start_was_killed():
    with new_data_dir() as data_dir:
        command = ("botpool.management.commands", "up", "box")
        kill_before(data_dir, *command, "True")

        up = Up(data_dir)
        up.wait_until_ready()
        assert "│ password  " in up.output
        assert up.stop() == 0
