"""A bot for Botpool: one file, the standard library only. docs/bots.md explains the contract.

Replace `join_meeting` and `Meeting` with your own code. The rest can stay as it is.
"""

import base64
import http.client
import json
import os
import random
import signal
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

HEARTBEAT_SECONDS = float(os.environ.get("HEARTBEAT_SECONDS", "30"))
CALL_TIMEOUT = 10.0
LONGEST_PAUSE = 30.0
# Docker kills the container 30 s after SIGTERM: keep most of that for leaving the meeting.
TRY_AFTER_SIGTERM = 8.0
PROBLEM = "application/problem+json"


# --- Your code ----------------------------------------------------------------------------------


class Meeting:
    """A stub that is let in after a second and ends after `config.meetingSeconds`."""

    def __init__(self, bot: dict[str, Any]) -> None:
        self.joined_at = time.monotonic()
        self.seconds = float(bot["config"].get("meetingSeconds", 60))

    def is_let_in(self) -> bool:
        return time.monotonic() - self.joined_at > 1

    def is_over(self) -> bool:
        return time.monotonic() - self.joined_at > self.seconds

    def leave(self) -> None:
        """Must be quick, and safe to call at any time: also before the bot was let in."""


def join_meeting(bot: dict[str, Any]) -> Meeting:
    """YOUR CODE HERE: open `meetingUrl` as `botDisplayName`. Raise an exception if that fails."""
    say(f"joining {bot['meetingUrl']} as {bot['botDisplayName']} (a stub: no browser is opened)")
    return Meeting(bot)


# --- The contract -------------------------------------------------------------------------------


class Unwanted(Exception):
    """Botpool does not know this bot. A retry would not change that."""


class Stay:
    """Whether the bot may stay. Plain values only: a signal handler must not take locks."""

    def __init__(self) -> None:
        self.must_leave = False
        self.terminated_at: float | None = None

    def terminate(self, *signal_and_frame: object) -> None:
        self.terminated_at = self.terminated_at or time.monotonic()
        self.must_leave = True

    def may_retry(self) -> bool:
        """Until the answer comes; after SIGTERM, only for as long as there is time."""
        began = self.terminated_at
        return began is None or time.monotonic() - began < TRY_AFTER_SIGTERM

    def until(self, is_so: Callable[[], bool]) -> None:
        while not self.must_leave and not is_so():
            time.sleep(0.1)


class Botpool:
    """Calls Botpool as the bot in BOT_DATA."""

    def __init__(self, data: dict[str, Any], *, slot: str, stay: Stay) -> None:
        self.bot = f"/bots/{data['botId']}"
        self.slot = slot
        self.url, self.token = data["apiUrl"], data["token"]
        self.stay = stay

    def ask(self) -> dict[str, Any] | None:
        """The bot with its config. None if SIGTERM came before an answer."""
        return self._until_answered("GET", f"/slots/{self.slot}/bot")

    def report(self, status: str, reason: str = "") -> None:
        say(f"{status} {reason}".strip())
        body = {"status": status, "reason": reason}
        self._obey(self._until_answered("POST", f"{self.bot}/status", body))

    def send_heartbeats(self) -> None:
        """In a thread, for as long as the process lives. One that fails is not repeated: the next
        one follows soon."""
        while True:
            try:
                self._obey(self._call("POST", f"{self.bot}/heartbeat", {}))
            except Unwanted as error:
                say(str(error))
                self.stay.must_leave = True
            time.sleep(HEARTBEAT_SECONDS)

    def _obey(self, answer: dict[str, Any] | None) -> None:
        if answer and answer.get("shouldLeave"):
            self.stay.must_leave = True

    def _until_answered(self, *call: Any) -> dict[str, Any] | None:
        pause = 1.0
        while self.stay.may_retry():
            answer = self._call(*call)
            if answer is not None:
                return answer
            self._sleep(pause * random.uniform(0.5, 1.0))  # not all bots at once
            pause = min(2 * pause, LONGEST_PAUSE)
        return None

    def _sleep(self, seconds: float) -> None:
        """In short naps, to notice SIGTERM."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and self.stay.may_retry():
            time.sleep(0.1)

    def _call(self, method: str, path: str, body: Any = None) -> dict[str, Any] | None:
        """The answer; None if there was none, and a retry makes sense."""
        request = urllib.request.Request(
            f"{self.url}{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={
                "Authorization": f"Bearer {self.token}",
                "Content-Type": "application/json",
            },
        )
        try:
            with urllib.request.urlopen(request, timeout=CALL_TIMEOUT) as response:
                answer = json.load(response)
                return answer if isinstance(answer, dict) else None
        except urllib.error.HTTPError as error:
            return self._refused(error)
        # No network, or no JSON: a proxy's page.
        except (OSError, ValueError, http.client.HTTPException) as error:
            say(f"{method} {path}: {error}")
            return None

    def _refused(self, error: urllib.error.HTTPError) -> dict[str, Any] | None:
        say(f"{error.url}: {error.code}")
        from_botpool = error.headers.get_content_type() == PROBLEM  # a proxy answers 404, too
        if from_botpool and error.code in (401, 403, 404):
            raise Unwanted(f"Botpool does not know this bot ({error.code})")
        if from_botpool and error.code in (400, 413, 415, 422):
            return {}  # our mistake, and it would be the same mistake again
        wait = error.headers.get("Retry-After", "")
        if wait.isdecimal():
            self._sleep(min(float(wait), LONGEST_PAUSE))
        return None


def run(botpool: Botpool, stay: Stay) -> None:
    bot = botpool.ask()
    if bot is None or bot.get("released") or bot.get("shouldLeave"):
        say("not wanted any more: joining nothing")
        return
    threading.Thread(target=botpool.send_heartbeats, daemon=True).start()
    if bot["status"] == "LEAVING":  # Docker started us again, and the meeting is behind us
        botpool.report("DONE", "Restarted while leaving")
        return
    try:
        attend(bot, botpool, stay)
    except Unwanted:
        raise
    except Exception as error:
        botpool.report("FAILED", f"{type(error).__name__}: {error}")
        return
    if stay.terminated_at is not None:
        botpool.report("FAILED", "Stopped by SIGTERM")  # ignored if it was released before
    else:
        botpool.report("DONE", "Told to leave" if stay.must_leave else "The meeting is over")


def attend(bot: dict[str, Any], botpool: Botpool, stay: Stay) -> None:
    botpool.report("JOINING_CALL")
    if stay.must_leave:
        return
    meeting = join_meeting(bot)
    try:
        if not meeting.is_let_in():
            botpool.report("IN_WAITING_ROOM")
            stay.until(meeting.is_let_in)
        if not stay.must_leave:
            botpool.report("IN_CALL")
            stay.until(meeting.is_over)
    finally:
        meeting.leave()
    botpool.report("LEAVING")


def say(line: str) -> None:
    print(time.strftime("%H:%M:%S"), line, flush=True)


def main() -> int:
    stay = Stay()
    signal.signal(signal.SIGTERM, stay.terminate)
    signal.signal(signal.SIGINT, stay.terminate)
    try:
        data = json.loads(base64.b64decode(os.environ["BOT_DATA"]))
        botpool = Botpool(data, slot=os.environ["POOL_SLOT_UUID"], stay=stay)
    except (KeyError, ValueError) as error:
        say(f"BOT_DATA or POOL_SLOT_UUID is missing or unreadable: {type(error).__name__}")
        return 1
    try:
        run(botpool, stay)
    except Unwanted as error:
        say(str(error))
    return 0


if __name__ == "__main__":
    sys.exit(main())
