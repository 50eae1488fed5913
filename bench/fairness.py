"""How fair the line is between clients: simulated days of a full pool, in the product's order."""

import heapq
import random
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from bench.table import Row
from pool.sharing.turns import Shares, Waiter

HOUR = 3600.0
DAY = 24 * HOUR
SLOTS = 20
HOLD = 600.0
START = datetime(2026, 11, 16, tzinfo=UTC)
FLOODING, MODEST = 1, 2


@dataclass(order=True)
class Asked:
    """A bot that a client asks for."""

    at: float
    client: int
    number: int
    holds: float = field(compare=False)


@dataclass
class Pool:
    """Serves the line by `pool.sharing.turns`; `waits`: of each client, in the order of service."""

    slots: int
    share: dict[int, int] = field(default_factory=dict)
    held: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    ends: list[tuple[float, int]] = field(default_factory=list)
    line: dict[int, Asked] = field(default_factory=dict)
    waits: dict[int, list[float]] = field(default_factory=lambda: defaultdict(list))
    served: list[int] = field(default_factory=list)

    def run(self, asked: list[Asked]) -> None:
        for each in sorted(asked):
            self._free_until(each.at)
            self.line[each.number] = each
            self._serve(each.at)
        self._free_until(DAY)

    def _free_until(self, now: float) -> None:
        while self.ends and self.ends[0][0] <= now:
            when, client = heapq.heappop(self.ends)
            self.held[client] -= 1
            self._serve(when)

    def _serve(self, now: float) -> None:
        while self.line and len(self.ends) < self.slots:
            bot = self._next()
            del self.line[bot.number]
            self.held[bot.client] += 1
            heapq.heappush(self.ends, (now + bot.holds, bot.client))
            self.waits[bot.client].append(now - bot.at)
            self.served.append(bot.number)

    def _next(self) -> Asked:
        """As a drain does: of the first of each client."""
        firsts: dict[int, Asked] = {}
        for each in self.line.values():  # in the order of their requests
            firsts.setdefault(each.client, each)
        heads = [
            Waiter(lane=each.client, turn=START + timedelta(seconds=each.at), entry_id=each.number)
            for each in sorted(firsts.values())
        ]
        shares = Shares(held=dict(self.held), share=self.share)
        return self.line[shares.in_order(heads)[0].entry_id]


def _requests(client: int, *, per_hour: float, seed: int, holds: float = HOLD) -> list[Asked]:
    rng, now, found = random.Random(seed), 0.0, []
    while (now := now + rng.expovariate(per_hour / HOUR)) < DAY:
        number = 2 * len(found) + client % 2
        found.append(Asked(now, client, number, rng.expovariate(1 / holds)))
    return found


def _p95(waits: list[float]) -> float:
    return sorted(waits)[int(0.95 * (len(waits) - 1))]


def run() -> list[Row]:
    return [*_flood(), _starvation(), _alone()]


def _flood() -> list[Row]:
    """The modest client uses nine tenths of its share, the other asks for far more than it gets."""
    rows = []
    for share in (1, 3):
        own = SLOTS * share // (share + 1)
        modest = _requests(MODEST, per_hour=0.9 * own * HOUR / HOLD, seed=1)
        flood = _requests(FLOODING, per_hour=1.5 * SLOTS * HOUR / HOLD, seed=2)
        alone, together = Pool(own), Pool(SLOTS, share={MODEST: share})
        alone.run(modest)
        together.run(modest + flood)
        reference, value = _p95(alone.waits[MODEST]), _p95(together.waits[MODEST])
        rows.append(
            Row(
                figure=f"p95 wait beside a flooding client, share {share} of {share + 1}",
                value=f"{value:.0f} s",
                reference=f"alone with its share of the slots: {reference:.0f} s",
                ratio=value / reference,
                aim="≤ 1.2",
                met=value <= 1.2 * reference,
            )
        )
    return rows


def _starvation() -> Row:
    """A client of share 1 beside one of share 100 that floods a pool of four slots for a day."""
    small = _requests(MODEST, per_hour=2, seed=3)
    flood = _requests(FLOODING, per_hour=40, seed=4)
    pool = Pool(4, share={FLOODING: 100})
    pool.run(small + flood)
    got = len(pool.waits[MODEST])
    longest = max(pool.waits[MODEST])
    return Row(
        figure="bots served of a client of share 1 beside a flooding one of share 100, in a day",
        value=f"{got}, longest wait {longest:.0f} s",
        reference=f"requested: {len(small)}",
        ratio=got / len(small),
        aim="all but the last",
        met=got >= len(small) - 1 and longest < HOUR,
    )


def _alone() -> Row:
    asked = _requests(FLOODING, per_hour=1.2 * SLOTS * HOUR / HOLD, seed=5)
    pool = Pool(SLOTS, share={FLOODING: 7})
    pool.run(asked)
    in_turn = [each.number for each in sorted(asked)][: len(pool.served)]
    same = sum(a == b for a, b in zip(pool.served, in_turn, strict=True))
    return Row(
        figure="bots of a client alone that are served in the order of their turns",
        value=str(same),
        reference=f"served: {len(in_turn)}",
        ratio=same / len(in_turn),
        aim="all",
        met=same == len(in_turn),
    )
