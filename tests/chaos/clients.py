"""The users during the chaos: clients request and cancel bots, an operator releases slots.

What each of them does is drawn from the seed beforehand.
"""

import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import requests

from tests.chaos import scale

CALLERS = 48
CALL_TIMEOUT = 12.0
PAUSE_BEFORE_NEXT_TRY = 0.5
LONGEST_TRY = 120.0
ON_THE_HOUR = 15
NORMAL = 14  # of 20 bots
PLANS: tuple[dict[str, Any], ...] = (
    {"plan": "crash", "times": 1},
    {"plan": "crash"},
    {"plan": "fail"},
    {"plan": "silent"},
    {"plan": "exit", "times": 1},
    {"plan": "hang"},
)
# One client floods the pool, the other one asks now and then.
CLIENTS = ("client", "client", "client", "client-2")
RECEIVERS = ("", "steady", "moody")
MEETINGS = {
    "google-meet": "https://meet.google.com/abc-defg-hij",
    "teams": "https://teams.microsoft.com/meet/1234567890?p=abcdef",
    "zoom": "https://zoom.us/j/1234567890",
}


@dataclass(frozen=True)
class Wish:
    """A client's request for one bot."""

    number: int
    at: float  # seconds after the start of the run
    platform: str
    simulate: dict[str, Any]
    priority: int
    queue_timeout_ms: int
    cancelled_after: float | None
    client: str = "client"
    receiver: str = ""  # of its webhooks

    def body(self, receivers: dict[str, str]) -> dict[str, Any]:
        webhook = {"webhookUrl": receivers[self.receiver]} if self.receiver else {}
        return {
            **webhook,
            "meetingUrl": MEETINGS[self.platform],
            "platform": self.platform,
            "botDisplayName": f"Chaos {self.number}",
            "priority": self.priority,
            "queueTimeoutMs": self.queue_timeout_ms,
            "config": {"simulate": self.simulate},
        }


def draw_wishes(dice: random.Random, *, seconds: float, per_second: float) -> list[Wish]:
    wishes: list[Wish] = []
    at = 0.0
    while at < seconds:
        # Many at the start, on an empty pool; then mostly one by one, sometimes six at once.
        for _ in range(dice.choice((1, 1, 1, 1, 1, 6)) if wishes else ON_THE_HOUR):
            wishes.append(_draw_wish(dice, number=len(wishes), at=at))
        at += dice.expovariate(per_second / 1.8)
    return wishes


def _draw_wish(dice: random.Random, *, number: int, at: float) -> Wish:
    trouble = dice.randrange(20) >= NORMAL
    plan = dict(dice.choice(PLANS)) if trouble else {"plan": "normal"}
    hangs = plan["plan"] == "hang"
    return Wish(
        number=number,
        at=at,
        platform=dice.choice(scale.PLATFORMS),
        simulate={**plan, "meetingSeconds": dice.uniform(60, 500)},
        priority=dice.choice((50, 100, 100, 100, 200)),
        queue_timeout_ms=dice.choice((3_000, 30_000, 60_000, 60_000)),
        cancelled_after=dice.uniform(0, 15) if hangs or dice.random() < 0.12 else None,
        client=dice.choice(CLIENTS),
        receiver=dice.choice(RECEIVERS),
    )


@dataclass
class Accepted:
    wish: Wish
    bot_id: int
    asked_at: float
    answered_at: float


@dataclass
class Clients:
    url: str
    keys: dict[str, str]
    receivers: dict[str, str] = field(default_factory=dict)
    accepted: list[Accepted] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    cancelled: dict[int, float] = field(default_factory=dict)  # when it was first asked for
    shown_to_others: list[int] = field(default_factory=list)  # bots that another client saw
    released: list[tuple[float, str]] = field(default_factory=list)
    operator_allowed_many: int = 0
    calls_that_failed: int = 0
    under_way: list[Future[None]] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def fulfil(
        self, wishes: list[Wish], *, releases: list[tuple[float, int]]
    ) -> Callable[[], None]:
        """Start the requests; call the returned function to wait until all are answered."""
        begin = time.monotonic()
        pool = ThreadPoolExecutor(CALLERS, thread_name_prefix="client")
        actions: list[tuple[float, Callable[[], None]]] = [
            (wish.at, lambda wish=wish: self._ask(wish)) for wish in wishes
        ]
        actions += [(at, lambda number=number: self._release(number)) for at, number in releases]
        timer = threading.Thread(
            target=self._in_time, args=(sorted(actions, key=lambda action: action[0]), begin, pool)
        )
        timer.start()

        def wait() -> None:
            timer.join()
            pool.shutdown()
            for action in self.under_way:
                action.result()

        return wait

    def _in_time(
        self,
        actions: list[tuple[float, Callable[[], None]]],
        begin: float,
        pool: ThreadPoolExecutor,
    ) -> None:
        for at, action in actions:
            time.sleep(max(0.0, begin + at - time.monotonic()))
            self.under_way.append(pool.submit(action))

    def _ask(self, wish: Wish) -> None:
        asked_at = time.time()
        answer = self._call(
            "POST",
            "/bots",
            by=wish.client,
            json=wish.body(self.receivers),
            headers={"Idempotency-Key": f"wish-{wish.number}"},
        )
        if answer is None or answer.status_code != 201:
            why = "no answer" if answer is None else f"{answer.status_code} {answer.text[:200]}"
            with self.lock:
                self.refused.append(f"request {wish.number}: {why}")
            return
        bot_id = int(answer.json()["bot"]["id"])
        with self.lock:
            self.accepted.append(Accepted(wish, bot_id, asked_at, time.time()))
        self._spy_on(bot_id, of=wish.client)
        if wish.cancelled_after is not None:
            time.sleep(wish.cancelled_after)
            self.cancel(bot_id, by=wish.client)

    def _spy_on(self, bot_id: int, *, of: str) -> None:
        """The other client must not see this bot."""
        other = next(name for name in CLIENTS if name != of)
        answer = self._call("GET", f"/bots/{bot_id}", by=other)
        if answer is not None and answer.status_code != 404:
            with self.lock:
                self.shown_to_others.append(bot_id)

    def cancel(self, bot_id: int, *, by: str) -> None:
        with self.lock:
            self.cancelled.setdefault(bot_id, time.time())
        self._call("POST", f"/bots/{bot_id}/cancel", by=by)

    def _release(self, number: int) -> None:
        """Release one of the slots that hold a bot now."""
        answer = self._call("GET", "/slots", by="operator")
        slots = answer.json()["slots"] if answer is not None and answer.ok else []
        held = sorted(slot["slotName"] for slot in slots if slot["status"] in ("busy", "deploying"))
        if not held:
            return
        name = held[number % len(held)]
        with self.lock:
            self.released.append((time.time(), name))
        self._call("POST", f"/slots/{name}/release", by="operator", json={"reason": "chaos"})

    def _call(
        self, method: str, path: str, *, by: str, **arguments: Any
    ) -> requests.Response | None:
        """Retry until the call is answered, for at most LONGEST_TRY seconds."""
        headers = {"Authorization": f"Bearer {self.keys[by]}", **arguments.pop("headers", {})}
        give_up_at = time.monotonic() + LONGEST_TRY
        while time.monotonic() < give_up_at:
            try:
                answer = requests.request(
                    method,
                    f"{self.url}/api/v1{path}",
                    headers=headers,
                    timeout=CALL_TIMEOUT,
                    **arguments,
                )
                if answer.status_code < 500:
                    return answer
            except requests.RequestException:
                pass
            with self.lock:
                self.calls_that_failed += 1
            time.sleep(PAUSE_BEFORE_NEXT_TRY)
        return None
