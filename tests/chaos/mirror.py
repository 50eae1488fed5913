"""Watches the mirror: whether the descriptions in Coolify say what each slot does."""

import threading
import time
from dataclasses import dataclass, field
from typing import Any

import psycopg

from tests.chaos.fleet import Fleet

EVERY = 1.0
_SLOTS = "SELECT name, coolify_uuid, status, epoch, assigned_bot_id FROM slots_slot"
_WORDS = {
    "deploying": "[DEPLOYING] Bot #{bot} ",
    "busy": "[BUSY] Bot #{bot} ",
    "stopping": "[STOPPING] ",
    "error": "[ERROR] ",
    "idle": "[IDLE] ",
}


@dataclass(frozen=True)
class Wrong:
    """A state of a slot that Coolify shows wrongly."""

    slot: str
    status: str
    epoch: int
    shown: str

    def __str__(self) -> str:
        return f"Coolify shows {self.shown!r} for {self.slot}, which is {self.status}"


@dataclass
class Mirror:
    fleet: Fleet
    longest: dict[Wrong, tuple[float, float]] = field(default_factory=dict)  # from, until
    since: dict[Wrong, float] = field(default_factory=dict)
    done: threading.Event = field(default_factory=threading.Event)

    def watch(self) -> None:
        self.thread = threading.Thread(target=self._watch, name="mirror")
        self.thread.start()

    def stop(self) -> None:
        self.done.set()
        self.thread.join()

    def wrong_now(self) -> list[Wrong]:
        shown = {
            each["uuid"]: each["description"] or ""
            for each in self.fleet.control.state()["applications"]
        }
        return [
            Wrong(name, status, epoch, shown[uuid])
            for name, uuid, status, epoch, bot in self.fleet.ask(_SLOTS)
            if uuid in shown and not _says(shown[uuid], status, bot)
        ]

    def _watch(self) -> None:
        while not self.done.wait(EVERY):
            try:
                self.note(self.wrong_now(), at=time.time())
            except (psycopg.Error, ValueError, OSError):
                continue  # PostgreSQL is down: what was wrong stays so until it is asked again

    def note(self, wrong: list[Wrong], *, at: float) -> None:
        self.since = {each: self.since.get(each, at) for each in wrong}
        for each, begin in self.since.items():
            spans = self.longest.get(each, (begin, begin)), (begin, at)
            self.longest[each] = max(spans, key=lambda span: span[1] - span[0])


def _says(text: str, status: str, bot: Any) -> bool:
    return f"{text} ".startswith(_WORDS[status].format(bot=bot))
