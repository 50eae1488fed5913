"""examples/check_bot.py passes the example and finds what is wrong with broken bots."""

import os
import subprocess
import sys

import pytest

from tests.processes import ROOT

pytestmark = pytest.mark.slow

BOT = ROOT / "examples" / "bot.py"
CHECK = ROOT / "examples" / "check_bot.py"
TERM = "signal.signal(signal.SIGTERM, stay.terminate)"

# What is wrong with a bot, the change that makes it so, the situation, and the rule that it breaks.
BROKEN = {
    "joins before it asks": (
        "bot = botpool.ask()",
        'botpool.report("JOINING_CALL"); bot = botpool.ask()',
        "life",
        "The first call asks for the bot.",
    ),
    "sends no heartbeats": (
        "threading.Thread(target=botpool.send_heartbeats, daemon=True).start()",
        "pass",
        "life",
        "Heartbeats arrive",
    ),
    "sends a wrong token": (
        "Bearer {self.token}",
        "Bearer wrong",
        "life",
        "Each call has the token",
    ),
    "does not report its end": (
        'say(f"{status} {reason}".strip())',
        'if status in ("DONE", "FAILED"): return',
        "life",
        "DONE or FAILED is reported at the end.",
    ),
    "ignores shouldLeave": (
        'answer and answer.get("shouldLeave")',
        "False",
        "release",
        "The bot leaves and exits",
    ),
    "joins although it is released": (
        ' or bot.get("released") or bot.get("shouldLeave")',
        "",
        "late",
        "A released bot joins nothing.",
    ),
    "crashes on a 503": (
        'say(f"{error.url}: {error.code}")',
        "os._exit(1)",
        "unanswered",
        "A first call that is answered with 503 is repeated.",
    ),
    "gives up without a network": (
        'say(f"{method} {path}: {error}")',
        "os._exit(1)",
        "outage",
        "The bot stays and tries again if Botpool closes the connection.",
    ),
    "does not ask after a crash": (
        "bot = botpool.ask()",
        "bot = ask_once(botpool)",
        "restart",
        "After a crash, the bot asks again first.",
    ),
    "waits without BOT_DATA": (
        'os.environ["BOT_DATA"]',
        'os.environ.get("BOT_DATA") or __import__("time").sleep(60)',
        "pull",
        "Without BOT_DATA, the bot exits.",
    ),
    "ignores SIGTERM": (
        TERM,
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)",
        "sigterm",
        "SIGTERM ends it",
    ),
    "dies of SIGTERM": (
        TERM,
        "signal.signal(signal.SIGTERM, signal.SIG_DFL)",
        "sigterm",
        "It reports its end before it exits.",
    ),
}
# For a bot that keeps the first answer in a file beside it.
ASK_ONCE = """
def ask_once(botpool):
    kept = __file__ + ".json"
    if not os.path.exists(kept):
        with open(kept, "w") as file:
            json.dump(botpool.ask(), file)
    with open(kept) as file:
        return json.load(file)


def main("""


def check(bot, *options):
    command = [sys.executable, CHECK, f"{sys.executable} {bot}", "--heartbeat", "0.3", *options]
    done = subprocess.run(
        command,
        env={**os.environ, "HEARTBEAT_SECONDS": "0.3"},
        capture_output=True,
        text=True,
        timeout=240,
    )
    return done.returncode, done.stdout + done.stderr


def test_the_example_keeps_every_rule():
    code, report = check(BOT, "--meeting", "3")
    assert code == 0, report
    assert "All rules are kept." in report


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_bot_is_found(what, tmp_path):
    sound, broken, situation, rule = BROKEN[what]
    source = BOT.read_text()
    assert source.count(sound) == 1
    bot = tmp_path / "bot.py"
    bot.write_text(source.replace(sound, broken).replace("\ndef main(", ASK_ONCE))
    code, report = check(bot, "--only", situation, "--meeting", "3", "--grace", "4")
    assert code == 1, report
    assert f"FAIL  {rule}" in report


def test_a_program_that_does_not_exist_is_named():
    done = subprocess.run([sys.executable, CHECK, "no-such-bot"], capture_output=True, text=True)
    assert done.returncode == 2
    assert "'no-such-bot' does not begin with a program that exists" in done.stderr
