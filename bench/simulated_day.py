"""`make scale`: a day of 10,000 slots on 60 simulated servers, compressed into a few minutes.

On each hour comes a wave of bots, whose meetings last most of the hour. All processes of Botpool
run, with their default intervals. It prints what clients, the queue, Coolify and each process saw.
"""

import argparse
import os
import random
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from statistics import quantiles
from typing import Any

import psutil
import requests

from bench.big_coolify import DESCRIPTION, IMAGE, BigCoolify, Place, big_coolify
from coolify.simulator.settings import DEFAULT_TOKEN

HOURS = 24
PLATFORMS = ("google-meet", "teams", "zoom")
CLIENTS = 16
KINDS = {"gunicorn": "web", "ticker": "ticker", "worker": "worker", "qcluster": "worker"}


def main() -> int:
    options = _options()
    os.environ.pop("DATABASE_URL", None)
    speed = HOURS * 60 / options.minutes
    places = _places(options.slots, options.servers)
    with tempfile.TemporaryDirectory(prefix="botpool-scale-", ignore_cleanup_errors=True) as home:
        Path(home).chmod(0o755)
        _set_environment(Path(home), options.slots)
        with big_coolify(places, speed=speed) as coolify:
            found = _run(Path(home), coolify, options)
    for name, value in found.items():
        print(f"{name}: {value}")
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.simulated_day", description=__doc__)
    parser.add_argument("--slots", type=int, default=10_000)
    parser.add_argument("--servers", type=int, default=60)
    parser.add_argument("--wave", type=int, default=150, help="bots on each hour")
    parser.add_argument("--minutes", type=float, default=6.0)
    return parser.parse_args()


def _places(slots: int, servers: int) -> list[Place]:
    return [
        Place(
            name=f"pool-{platform}-{number // len(PLATFORMS) + 1:03d}",
            platform=platform,
            server=f"server-{number % servers + 1:02d}",
        )
        for number in range(slots)
        for platform in [PLATFORMS[number % len(PLATFORMS)]]
    ]


def _set_environment(home: Path, slots: int) -> None:
    os.environ |= {
        "BOTPOOL_DATA_DIR": str(home),
        "DJANGO_SETTINGS_MODULE": "botpool.settings",
        "LOG_LEVEL": "ERROR",
        "IDLE_TRANSACTION_LIMIT": "60000",  # to make the slots on a busy machine
        "MAX_POOL_SIZE": str(min(10_000, slots)),
        "COOLIFY_RATE_LIMIT": "100000",
        "API_RATE_LIMIT": "0",
        **{
            f"BOT_IMAGE_{platform.upper().replace('-', '_')}": IMAGE.format(platform=platform)
            for platform in PLATFORMS
        },
    }


def _run(home: Path, coolify: BigCoolify, options: argparse.Namespace) -> dict[str, Any]:
    servers = ",".join(dict.fromkeys(place.server for place in coolify.places))
    os.environ["COOLIFY_SERVER_UUID"] = servers
    from botpool.runtime.postgres import server as postgres

    with postgres.running(home):
        import django
        from django.core.management import call_command

        django.setup()
        call_command("migrate", verbosity=0)
        from api.keys import create_api_key
        from bench.processes import Botpool, botpool, free_port

        key = create_api_key(name="scale")
        _make_slots(coolify.places)
        pointing = _Pointing(coolify)
        port = free_port()
        changes = {"COOLIFY_SERVER_UUID": servers}
        with (
            botpool(pointing, key=key, port=port, **changes) as pool,
            Watching(coolify) as watching,
        ):
            assert isinstance(pool, Botpool)
            day = Day(pool.url, key, watching)
            day.run(options)
            return {**day.figures(), **watching.figures(), **_rows(), **_observation(coolify)}


class _Pointing:
    """What bench.processes.botpool needs of a Coolify."""

    def __init__(self, coolify: BigCoolify) -> None:
        self.simulator = coolify


def _make_slots(places: list[Place]) -> None:
    from pool.controller.applications import SETTINGS_VERSION
    from slots.models import Slot
    from slots.status import SlotStatus

    Slot.objects.bulk_create(
        [
            Slot(
                platform=place.platform,
                number=int(place.name.rpartition("-")[2]),
                name=place.name,
                coolify_uuid=place.uuid,
                server_uuid=place.server,
                image=IMAGE.format(platform=place.platform),
                settings_version=SETTINGS_VERSION,
                status=SlotStatus.IDLE,
                description_written=DESCRIPTION,
                application_state="exited",  # as observed: none is news to the first observation
            )
            for place in places
        ],
        batch_size=1000,
    )


# --- The day -----------------------------------------------------------------------------------


class Day:
    def __init__(self, url: str, key: str, watching: "Watching") -> None:
        self.url, self.key, self.watching = url, key, watching
        self.seconds: list[float] = []
        self.refused: Counter[str] = Counter()
        self.session = threading.local()

    def run(self, options: argparse.Namespace) -> None:
        hour = options.minutes * 60 / HOURS
        dice = random.Random(1)
        begin = time.monotonic()
        with ThreadPoolExecutor(CLIENTS) as clients:
            for number in range(HOURS):
                time.sleep(max(0.0, begin + number * hour - time.monotonic()))
                for _ in range(options.wave):
                    clients.submit(self._request, dice.choice(PLATFORMS), dice.uniform(1500, 3300))
        self.took = time.monotonic() - begin
        self._wait_for_the_last(until=begin + options.minutes * 60 * 1.5)

    def _wait_for_the_last(self, *, until: float) -> None:
        from bots.models import Bot
        from bots.status import TERMINAL

        while Bot.objects.exclude(status__in=TERMINAL).exists() and time.monotonic() < until:
            time.sleep(1.0)

    def _request(self, platform: str, meeting_seconds: float) -> None:
        meetings = {
            "google-meet": "https://meet.google.com/abc-defg-hij",
            "teams": "https://teams.microsoft.com/meet/1234567890?p=abcdef",
            "zoom": "https://zoom.us/j/1234567890",
        }
        plan = {"plan": "normal", "meetingSeconds": meeting_seconds}
        body = {"meetingUrl": meetings[platform], "config": {"simulate": plan}}
        session = getattr(self.session, "made", None) or requests.Session()
        self.session.made = session
        begin = time.perf_counter()
        try:
            answer = session.post(
                f"{self.url}/api/v1/bots",
                json=body,
                headers={"Authorization": f"Bearer {self.key}"},
                timeout=60,
            )
        except requests.RequestException as error:
            self.refused[type(error).__name__] += 1
            return
        if answer.status_code == 201:
            self.seconds.append(time.perf_counter() - begin)
        else:
            self.refused[str(answer.status_code)] += 1

    def figures(self) -> dict[str, Any]:
        return {
            "requests answered": len(self.seconds),
            "requests refused": dict(self.refused),
            "a request and its claim, ms": _spread(self.seconds, scale=1000),
            "the day took, s": round(self.took),
        }


def _spread(values: list[float], *, scale: float = 1.0) -> str:
    if len(values) < 2:
        return "none"
    cuts = quantiles(values, n=100)
    parts = {"median": cuts[49], "p95": cuts[94], "p99": cuts[98], "longest": max(values)}
    return ", ".join(f"{name} {value * scale:.1f}" for name, value in parts.items())


# --- What is measured ----------------------------------------------------------------------------


class Watching:
    """Samples processes and the queue while the day lasts."""

    def __init__(self, coolify: BigCoolify) -> None:
        self.coolify = coolify
        self.me = psutil.Process()
        self.cpu: dict[int, tuple[str, float]] = {}  # by process: its kind, seconds so far
        self.before: dict[int, float] = {}
        self.memory: dict[str, float] = defaultdict(float)  # the most at once, MB
        self.waiting = self.held = 0
        self.done = threading.Event()
        self.thread = threading.Thread(target=self._watch)

    def __enter__(self) -> "Watching":
        self.begin, self.calls_before = time.monotonic(), self._calls()
        self._sample()
        self.before = {pid: seconds for pid, (_, seconds) in self.cpu.items()}
        self.thread.start()
        return self

    def __exit__(self, *error: Any) -> None:
        self.done.set()
        self.thread.join()

    def _watch(self) -> None:
        from django.db import connection

        from queues.models import QueueEntry
        from slots.models import Slot
        from slots.status import HELD

        while not self.done.wait(2.0):
            self._sample()
            self.waiting = max(self.waiting, QueueEntry.objects.count())
            self.held = max(self.held, Slot.objects.filter(status__in=HELD).count())
        connection.close()

    def _sample(self) -> None:
        memory: dict[str, float] = defaultdict(float)
        for process in [*self.me.children(recursive=True), *self._postgres()]:
            with suppress(psutil.Error):
                kind = self._kind(process)
                times = process.cpu_times()
                self.cpu[process.pid] = (kind, times.user + times.system)
                memory[kind] += process.memory_full_info().uss / 1e6
        for kind, total in memory.items():
            self.memory[kind] = max(self.memory[kind], total)

    def _kind(self, process: psutil.Process) -> str:
        if process.pid == self.coolify.pid:
            return "simulated Coolify"
        words = " ".join(process.cmdline())
        if "postgres" in process.name():
            return "PostgreSQL"
        return next((kind for word, kind in KINDS.items() if word in words), "up")

    def _postgres(self) -> list[psutil.Process]:
        found = []
        for process in psutil.process_iter(["name", "cmdline"]):
            if process.info["name"] == "postgres" and os.environ["BOTPOOL_DATA_DIR"] in " ".join(
                process.info["cmdline"] or []
            ):
                found += [process, *process.children()]
        return found

    def _calls(self) -> Counter[str]:
        answer = requests.get(f"{self.coolify.url}/_simulator/requests", timeout=60).json()
        counts: Counter[str] = Counter()
        for route, count in answer["counts"].items():
            method, path, _ = route.split()
            counts[f"{method} {path}"] += count
        return counts

    def figures(self) -> dict[str, Any]:
        took = time.monotonic() - self.begin
        calls = self._calls() - self.calls_before
        spent: dict[str, float] = defaultdict(float)
        for pid, (kind, seconds) in self.cpu.items():
            spent[kind] += seconds - self.before.get(pid, 0.0)
        return {
            "most slots held at once": self.held,
            "longest queue": self.waiting,
            "calls to Coolify a minute": round(calls.total() / took * 60),
            "calls by kind": dict(calls.most_common()),
            "share of a core": {k: f"{v / took:.0%}" for k, v in sorted(spent.items())},
            "memory, MB": {k: round(v) for k, v in sorted(self.memory.items())},
        }


def _rows() -> dict[str, Any]:
    from bots.models import Bot, BotEvent
    from bots.status import BotStatus

    statuses = Counter(Bot.objects.values_list("status", flat=True))
    started = Bot.objects.filter(started_at__isnull=False).values_list("created_at", "started_at")
    starts = [(after - before).total_seconds() for before, after in started]
    queued = BotEvent.objects.filter(to_status=BotStatus.QUEUED).values("bot").distinct().count()
    return {
        "bots by status": dict(statuses),
        "bots that were queued": queued,
        "from the request to the running bot, s": _spread(starts),
    }


def _observation(coolify: BigCoolify) -> dict[str, Any]:
    """The list of all applications, as every observation reads it."""
    headers = {"Authorization": f"Bearer {DEFAULT_TOKEN}"}
    answer = requests.get(f"{coolify.api_url}/applications", headers=headers, timeout=120)
    return {
        "list of applications, MB": round(len(answer.content) / 1e6, 1),
        "… answered in, s": round(answer.elapsed.total_seconds(), 2),
        "… applications": len(answer.json()) if answer.ok else answer.text[:100],
    }


if __name__ == "__main__":
    sys.exit(main())
