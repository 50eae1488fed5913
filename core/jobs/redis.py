"""The task queue in Redis; imported only where REDIS_URL is set."""

from django_q.brokers.redis_broker import Redis

from core.jobs.broker import LANE, PAUSE_WHEN_FULL, Lanes, pausing_without_database

POLL = 1.0


class RedisBroker(Redis):
    def __init__(self, list_key: str | None = None) -> None:
        super().__init__(list_key)
        self.lanes = Lanes(self.list_key)

    def enqueue(self, task: str, *, lane: str = "") -> int:
        key = self.lanes.limited if lane == LANE else self.lanes.main
        length: int = self.connection.rpush(key, task)
        return length

    def dequeue(self) -> list[tuple[None, bytes]] | None:
        with pausing_without_database("take tasks"):
            lanes = self.lanes.open()
            taken = self.connection.blpop(lanes, POLL if len(lanes) > 1 else PAUSE_WHEN_FULL)
            if taken:
                lane, task = taken
                self.lanes.note(lane.decode(), task.decode())
                return [(None, task)]
        return None

    def queue_size(self) -> int:
        lanes = (self.lanes.main, self.lanes.limited)
        return sum(self.connection.llen(lane) for lane in lanes)

    def is_waiting(self, receipt: str) -> bool:
        lanes = (self.lanes.main, self.lanes.limited)
        return any(self.connection.lpos(lane, receipt) is not None for lane in lanes)

    def withdraw(self, receipt: str) -> None:
        for lane in (self.lanes.main, self.lanes.limited):
            self.connection.lrem(lane, 1, receipt)
