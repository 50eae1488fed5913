"""Check a bot against the contract in docs/bots.md: python examples/check_bot.py "python bot.py"

Runs the bot against a small Botpool of its own and reports each rule in a sentence. Put a test mode
into your bot that stays for `config.meetingSeconds` instead of joining a meeting.
"""

import argparse
import base64
import json
import os
import shlex
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

ENDS = ("DONE", "FAILED")
JOINED = ("JOINING_CALL", "IN_WAITING_ROOM", "IN_CALL")
TOKEN, SLOT, BOT = "the-token", "the-slot", 7
ENDLESS = 3600


class FakeBotpool:
    """Answers a bot's calls as Botpool would, and notes them."""

    def __init__(self) -> None:
        self.calls: list[str] = []  # ASK, HEARTBEAT or the status that was reported
        self.strangers = 0  # calls without the token, or to an unknown path
        self.status = "JOINING_CALL"
        self.released = False
        self.data: dict[str, Any] = {}  # what BOT_DATA and the answer to ASK have in common
        self.outage = ""  # "503": answers that; "lost": closes the connection
        self.missed = 0  # calls during an outage
        fake = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                fake.answer(self)

            do_POST = do_GET

            def log_message(self, *args: object) -> None:
                """Keep the terminal for the report."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/api/v1"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()

    def answer(self, call: BaseHTTPRequestHandler) -> None:
        body = call.rfile.read(int(call.headers.get("Content-Length") or 0))
        if self.outage:
            self.missed += 1
            if self.outage == "503":
                send(call, 503, {"title": "Service Unavailable", "status": 503})
            return
        if call.headers.get("Authorization") != f"Bearer {TOKEN}":
            self.strangers += 1
            send(call, 401, {"title": "Unauthorized", "status": 401})
        elif (call.command, call.path) == ("GET", f"/api/v1/slots/{SLOT}/bot"):
            self.note("ASK")
            send(call, 200, self.bot())
        elif (call.command, call.path) == ("POST", f"/api/v1/bots/{BOT}/heartbeat"):
            self.note("HEARTBEAT")
            send(call, 200, {"shouldLeave": self.released})
        elif (call.command, call.path) == ("POST", f"/api/v1/bots/{BOT}/status"):
            self.note(json.loads(body)["status"])
            send(call, 200, {"shouldLeave": self.released or self.status in ENDS})
        else:
            self.strangers += 1
            send(call, 404, {"title": "Not Found", "status": 404})

    def note(self, what: str) -> None:
        self.calls.append(what)
        if what not in ("ASK", "HEARTBEAT"):
            self.status = what

    def bot(self) -> dict[str, Any]:
        fields = {"id": BOT, "status": self.status, "released": self.released}
        return {**fields, "shouldLeave": self.released, **self.data}

    def environment(self, meeting_seconds: float) -> dict[str, str]:
        self.data = {
            "meetingUrl": "https://meet.google.com/abc-defg-hij",
            "botDisplayName": "Checked bot",
            "platform": "google-meet",
            "correlationId": "check",
            "config": {"meetingSeconds": meeting_seconds},
        }
        whole = {"botId": BOT, "token": TOKEN, "epoch": 1, "apiUrl": self.url, **self.data}
        encoded = base64.b64encode(json.dumps(whole).encode()).decode()
        return {**os.environ, "POOL_SLOT_UUID": SLOT, "BOT_DATA": encoded}


def send(call: BaseHTTPRequestHandler, status: int, body: dict[str, Any]) -> None:
    text = json.dumps(body).encode()
    call.send_response(status)
    kind = "application/json" if status == 200 else "application/problem+json"
    call.send_header("Content-Type", kind)
    call.send_header("Content-Length", str(len(text)))
    with suppress(ConnectionError):  # the bot was killed, or gave up
        call.end_headers()
        call.wfile.write(text)


class Check:
    """One bot in one situation."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.botpool = FakeBotpool()
        self.processes: list[subprocess.Popen[bytes]] = []
        self.results: list[tuple[bool, str]] = []

    def close(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()
        self.botpool.close()

    def start(
        self, meeting_seconds: float = ENDLESS, *, without: tuple[str, ...] = ()
    ) -> subprocess.Popen[bytes]:
        whole = self.botpool.environment(meeting_seconds)
        process = subprocess.Popen(
            shlex.split(self.options.command),
            env={name: value for name, value in whole.items() if name not in without},
            stdout=None if self.options.verbose else subprocess.DEVNULL,
            stderr=None if self.options.verbose else subprocess.DEVNULL,
        )
        self.processes.append(process)
        return process

    def rule(self, is_kept: bool, sentence: str) -> bool:
        self.results.append((is_kept, sentence))
        return is_kept

    def within(self, seconds: float, happened: Callable[[], object]) -> bool:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if happened():
                return True
            time.sleep(0.02)
        return bool(happened())

    def hears(self, seconds: float, happened: Callable[[], bool]) -> bool:
        """As `within`, but does not wait for a bot that has exited."""
        process = self.processes[-1]
        self.within(seconds, lambda: happened() or process.poll() is not None)
        return happened()

    def exits(self, process: subprocess.Popen[bytes], *, extra: float = 0.0) -> bool:
        return self.within(self.options.grace + extra, lambda: process.poll() is not None)

    def reaches_the_call(self) -> bool:
        in_call = self.hears(self.options.patience, lambda: "IN_CALL" in self.botpool.calls)
        return self.rule(in_call, "The bot reports IN_CALL.")

    def statuses(self) -> list[str]:
        return [call for call in self.botpool.calls if call not in ("ASK", "HEARTBEAT")]


def normal_life(check: Check) -> None:
    meeting = max(check.options.meeting, 3 * check.options.heartbeat)
    process = check.start(meeting)
    ended = check.hears(meeting + check.options.patience, lambda: check.botpool.status in ENDS)
    reported = check.statuses()
    check.rule(check.botpool.calls[:1] == ["ASK"], "The first call asks for the bot.")
    check.rule(check.botpool.strangers == 0, "Each call has the token and a known address.")
    check.rule(
        check.botpool.calls.count("HEARTBEAT") >= 2,
        f"Heartbeats arrive about every {check.options.heartbeat:g} s.",
    )
    order = [status for status in (*JOINED, "LEAVING", *ENDS) if status in reported]
    check.rule("IN_CALL" in reported and reported == order, "Statuses come once and in order.")
    check.rule(ended, "DONE or FAILED is reported at the end.")
    check.rule(check.exits(process), "The bot exits after its last report.")


def released_in_the_meeting(check: Check) -> None:
    process = check.start()
    if check.reaches_the_call():
        check.botpool.released = True
        left = check.exits(process, extra=check.options.heartbeat)
        check.rule(left, "The bot leaves and exits when an answer says shouldLeave.")


def released_before_the_first_call(check: Check) -> None:
    check.botpool.released = True
    process = check.start()
    left = check.exits(process)
    check.rule("ASK" in check.botpool.calls, "The bot asks.")
    joined = set(JOINED) & set(check.botpool.calls)
    check.rule(not joined, "A released bot joins nothing.")
    check.rule(left, "A released bot exits.")


def no_answer_at_first(check: Check) -> None:
    check.botpool.outage = "503"
    process = check.start()
    check.rule(
        check.hears(check.options.patience, lambda: check.botpool.missed >= 2),
        "A first call that is answered with 503 is repeated.",
    )
    check.botpool.outage = ""
    check.reaches_the_call()
    check.rule(process.poll() is None, "The bot does not exit because of a 503.")
    check.rule(check.botpool.calls[:1] == ["ASK"], "It joins only after an answer.")


def lost_network(check: Check) -> None:
    process = check.start()
    if not check.reaches_the_call():
        return
    for outage in ("503", "lost"):
        check.botpool.missed, check.botpool.outage = 0, outage
        tried = check.hears(
            check.options.patience + 2 * check.options.heartbeat, lambda: check.botpool.missed >= 2
        )
        kind = "answers 503" if outage == "503" else "closes the connection"
        check.rule(
            tried and process.poll() is None, f"The bot stays and tries again if Botpool {kind}."
        )
    check.botpool.outage = ""
    seen = len(check.botpool.calls)
    again = check.hears(
        check.options.patience + 2 * check.options.heartbeat,
        lambda: len(check.botpool.calls) > seen,
    )
    check.rule(again, "Heartbeats go on after the outage.")


def restart(check: Check) -> None:
    process = check.start()
    if not check.reaches_the_call():
        return
    process.kill()
    process.wait()
    time.sleep(0.5)  # its last call may still be answered
    check.botpool.calls.clear()
    check.start()
    check.hears(check.options.patience, lambda: "IN_CALL" in check.botpool.calls)
    check.rule(check.botpool.calls[:1] == ["ASK"], "After a crash, the bot asks again first.")
    check.rule("IN_CALL" in check.botpool.calls, "After a crash, the bot is in its call again.")


def started_without_data(check: Check) -> None:
    process = check.start(without=("BOT_DATA",))
    check.rule(check.exits(process), "Without BOT_DATA, the bot exits.")
    check.rule(not check.botpool.calls and not check.botpool.strangers, "It calls nothing.")


def sigterm(check: Check) -> None:
    process = check.start()
    if check.reaches_the_call():
        process.terminate()
        check.rule(check.exits(process), f"SIGTERM ends it within {check.options.grace:g} s.")
        check.rule(check.botpool.status in ENDS, "It reports its end before it exits.")


SITUATIONS = {
    "life": normal_life,
    "release": released_in_the_meeting,
    "late": released_before_the_first_call,
    "unanswered": no_answer_at_first,
    "outage": lost_network,
    "restart": restart,
    "sigterm": sigterm,
    "pull": started_without_data,
}


def main() -> int:
    parser = argparse.ArgumentParser(description="Check a bot against docs/bots.md.")
    parser.add_argument("command", help='how to start it, such as "python examples/bot.py"')
    parser.add_argument("--only", choices=SITUATIONS, help="one situation; default: all")
    parser.add_argument("--heartbeat", type=float, default=30, help="its interval in seconds")
    parser.add_argument(
        "--meeting", type=float, default=20, help="config.meetingSeconds, if it ends"
    )
    parser.add_argument("--patience", type=float, default=60, help="seconds to wait for a report")
    parser.add_argument("--grace", type=float, default=30, help="seconds to leave and exit")
    parser.add_argument("--verbose", action="store_true", help="show what the bot prints")
    options = parser.parse_args()
    if not shutil.which(options.command.split()[0] if options.command.strip() else ""):
        parser.error(f"{options.command!r} does not begin with a program that exists")
    broken = 0
    for name in [options.only] if options.only else SITUATIONS:
        check = Check(options)
        try:
            SITUATIONS[name](check)
        finally:
            check.close()
        print(SITUATIONS[name].__name__.replace("_", " ").capitalize())
        for is_kept, sentence in check.results:
            print(f"  {'pass' if is_kept else 'FAIL'}  {sentence}", flush=True)
            broken += not is_kept
    hint = "--verbose shows what the bot prints."
    print(f"Broken rules: {broken}. {hint}" if broken else "All rules are kept.")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
