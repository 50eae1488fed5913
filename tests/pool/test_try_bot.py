"""`manage.py try_bot`, with examples/bot.py as the author's bot."""

import os
import re
import subprocess
import sys
import time

import pytest
from django.core.management import CommandError, call_command

from botpool.management.commands import try_bot
from bots.models import Bot, BotEvent
from tests.processes import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]

LIFE = ["DEPLOYING", "JOINING_CALL", "IN_WAITING_ROOM", "IN_CALL", "LEAVING", "DONE"]


@pytest.fixture
def tried(pool, settings, tmp_path, monkeypatch, capsys):
    """Run the command; while it waits, the slots are tended and `meanwhile` is called with what
    it has printed."""
    settings.COOLIFY_SIMULATED = True
    settings.DATA_DIR = tmp_path
    monkeypatch.setitem(try_bot.CONFIG, "meetingSeconds", 1)

    def run(meanwhile):
        printed = ""

        def wait():
            nonlocal printed
            printed += capsys.readouterr().out
            pool.tend()
            meanwhile(printed)
            time.sleep(0.05)

        monkeypatch.setattr(try_bot, "pause", wait)
        call_command("try_bot")
        return printed + capsys.readouterr().out

    return run


def variables(printed):
    return dict(re.findall(r"^export (\w+)='?([^'\n]*)'?$", printed, re.MULTILINE))


def statuses():
    return list(BotEvent.objects.order_by("id").values_list("to_status", flat=True))


def test_a_bot_is_run_by_hand_with_what_the_command_prints(tried):
    started = []

    def run_the_example(printed):
        if not started and "python3 examples/bot.py" in printed:
            assert Bot.objects.get().last_heartbeat_at is None  # the simulator runs no bot for it
            command = [sys.executable, ROOT / "examples" / "bot.py"]
            environment = {**os.environ, **variables(printed)}
            started.append(
                subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
            )

    printed = tried(run_the_example)
    output, _ = started[0].communicate(timeout=60)
    assert (started[0].returncode, statuses()[-6:]) == (0, LIFE), output
    assert f"/bots/{Bot.objects.get().pk}/" in printed
    assert "IN_CALL" in printed
    assert "DONE: The meeting is over" in printed


def test_ctrl_c_cancels_the_bot(tried):
    def interrupt(printed):
        if "export BOT_DATA=" in printed:
            raise KeyboardInterrupt

    assert "is cancelled" in tried(interrupt)
    assert Bot.objects.get().status == "CANCELLED"


def test_it_asks_a_real_coolify_for_nothing(settings):
    settings.COOLIFY_SIMULATED = False
    with pytest.raises(CommandError, match="simulated Coolify only"):
        call_command("try_bot")
    assert not Bot.objects.exists()


def test_it_says_how_to_start_botpool_if_none_answers(settings, tmp_path):
    settings.COOLIFY_SIMULATED = True
    settings.DATA_DIR = tmp_path
    settings.PUBLIC_URL = "http://127.0.0.1:9"
    with pytest.raises(CommandError, match="make run"):
        call_command("try_bot")
