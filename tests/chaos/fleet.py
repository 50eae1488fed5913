"""Two nodes of Botpool around a pair of PostgreSQL servers and one simulated Coolify."""

import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests

from botpool.runtime.postgres import server as postgres
from coolify.simulator.control_client import SimulatorControl
from coolify.simulator.settings import DEFAULT_PROJECT, DEFAULT_TOKEN, Settings
from coolify.simulator.simulator import Simulator
from tests.chaos import scale
from tests.chaos.members import Keeper, Member, clean_environment, with_log
from tests.chaos.postgres import Pair, running_pair
from tests.chaos.receivers import Receiver, running_receivers
from tests.chaos.skew import with_skewed_clock
from tests.processes import ROOT, free_port, wait_until

NODES = 2
# Seconds by which the second node's clock is wrong. At 60 times the speed, 3600 s are 2.5 days.
SKEWS = (0, 45, -45, 3600, -3600)
WEB_PATIENCE = 3.0
# For the witnesses; for the checker, when the transaction of an event began; and a disk that can
# be full: then every write fails as it does in PostgreSQL.
TABLES = """
CREATE TABLE chaos_witness (id bigint GENERATED ALWAYS AS IDENTITY, fence bigint NOT NULL);
CREATE TABLE chaos_late (what text NOT NULL);
ALTER TABLE bots_botevent ADD COLUMN chaos_began timestamptz NOT NULL DEFAULT now();
CREATE TABLE chaos_server (
    id bigint GENERATED ALWAYS AS IDENTITY,
    uuid text NOT NULL, state text NOT NULL, at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE FUNCTION chaos_note_state() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO chaos_server (uuid, state) VALUES (NEW.uuid, NEW.state);
    RETURN NULL;
END $$;
CREATE TRIGGER chaos_state AFTER UPDATE ON coolify_serverreading FOR EACH ROW
    WHEN (OLD.state <> NEW.state) EXECUTE FUNCTION chaos_note_state();
CREATE TABLE chaos_disk (is_full boolean NOT NULL);
INSERT INTO chaos_disk VALUES (false);
CREATE FUNCTION chaos_write() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (SELECT is_full FROM chaos_disk) THEN
        RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = '53100';
    END IF;
    RETURN NULL;
END $$;
DO $$
DECLARE name text;
BEGIN
    FOR name IN SELECT tablename FROM pg_tables
        WHERE schemaname = 'public' AND tablename NOT LIKE 'chaos%'
    LOOP
        EXECUTE format('CREATE TRIGGER chaos_disk BEFORE INSERT OR UPDATE ON %I'
            ' FOR EACH STATEMENT EXECUTE FUNCTION chaos_write()', name);
    END LOOP;
END $$
"""
CLIENTS = ("client", "client-2")
MANAGE = [sys.executable, str(ROOT / "manage.py")]


@dataclass
class Fleet:
    directory: Path
    postgres: Pair
    receivers: dict[str, Receiver]
    simulator: Simulator
    control: SimulatorControl
    keeper: Keeper
    url: str
    keys: dict[str, str]
    environment: dict[str, str]
    skew: int

    def members(self, word: str) -> list[Member]:
        return [member for member in self.keeper.members if member.name.startswith(word)]

    def ask(self, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        return self.postgres.ask(sql, *parameters)

    def end_all_connections(self) -> None:
        self.ask(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
        )

    def logged(self, *words: str) -> list[str]:
        """The log lines that contain one of these words."""
        return [
            f"{file.stem}: {line.strip()}"
            for file in sorted((self.directory / "logs").glob("*.log"))
            for line in file.read_text(errors="replace").splitlines()
            if any(word in line for word in words)
        ]

    def is_ready(self) -> bool:
        with suppress(requests.RequestException):
            return requests.get(f"{self.url}/readyz", timeout=5).status_code == 200
        return False


@contextmanager
def running_fleet(directory: Path, *, seed: int) -> Iterator[Fleet]:
    with ExitStack() as stack:
        pair = stack.enter_context(running_pair(directory))
        receivers = stack.enter_context(running_receivers())
        simulator = stack.enter_context(Simulator(_coolify(seed)))
        control = stack.enter_context(closing(SimulatorControl(simulator.url)))
        web_port = free_port()
        environment = _environment(directory, simulator=simulator, web_port=web_port)
        keys = _set_up(environment, pair)
        pair.follow()
        skew = random.Random(seed).choice(SKEWS)
        members = [*_gates_and_nodes(directory, environment, pair, web_port=web_port, skew=skew)]
        fleet = Fleet(
            directory=directory,
            postgres=pair,
            receivers=receivers,
            simulator=simulator,
            control=control,
            keeper=Keeper(members),
            url=f"http://127.0.0.1:{web_port}",
            keys=keys,
            environment=_directly(environment, pair),
            skew=skew,
        )
        stack.callback(fleet.keeper.stop)
        fleet.keeper.start()
        wait_until(fleet.is_ready, what="the fleet is ready", timeout=120)
        yield fleet


def _coolify(seed: int) -> Settings:
    return Settings(
        speed=scale.SPEED,
        seed=seed,
        servers=list(scale.SERVERS),
        rate_limit=None,
        bot_threads=32,
        job_workers=8,
        shortest_call=scale.SHORTEST_CALL,
        longest_call=scale.LONGEST_CALL,
    )


def _environment(directory: Path, *, simulator: Simulator, web_port: int) -> dict[str, str]:
    return {
        **clean_environment(),
        **scale.environment(),
        "BOTPOOL_DATA_DIR": str(directory),
        "SECRET_KEY": "chaos-" * 10,
        "BOTPOOL_PUBLIC_URL": f"http://127.0.0.1:{web_port}",
        "COOLIFY_API_URL": simulator.api_url,
        "COOLIFY_API_TOKEN": DEFAULT_TOKEN,
        "COOLIFY_PROJECT_UUID": DEFAULT_PROJECT,
        "COOLIFY_SERVER_UUID": ",".join(scale.SERVERS),
    }


def _directly(environment: dict[str, str], pair: Pair) -> dict[str, str]:
    path = str(pair.link).replace("/", "%2F")
    return {**environment, "DATABASE_URL": f"postgres://botpool@{path}:{postgres.PORT}/botpool"}


def _set_up(environment: dict[str, str], pair: Pair) -> dict[str, str]:
    direct = _directly(environment, pair)
    manage("migrate", "--verbosity", "0", env=direct)
    pair.ask(TABLES)
    roles = {**dict.fromkeys(CLIENTS, "client"), "operator": "operator"}
    return {
        name: manage("create_api_key", name, "--role", role, env=direct).split()[-1]
        for name, role in roles.items()
    }


def manage(*words: str, env: dict[str, str]) -> str:
    done = subprocess.run([*MANAGE, *words], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def _gates_and_nodes(
    directory: Path,
    environment: dict[str, str],
    pair: Pair,
    *,
    web_port: int,
    skew: int,
) -> Iterator[Member]:
    web_ports = [free_port() for _ in range(NODES)]
    logs = directory / "logs"
    to_web = [f"127.0.0.1:{port}" for port in web_ports]
    yield _gate("gate to web", web_port, to_web, environment, logs, patience=WEB_PATIENCE)
    for number, port in enumerate(web_ports, start=1):
        gate_port = free_port()
        yield _gate(f"gate to postgres {number}", gate_port, [pair.socket], environment, logs)
        own = {**environment, "DATABASE_URL": f"postgres://botpool@127.0.0.1:{gate_port}/botpool"}
        if number == NODES and skew:
            own |= with_skewed_clock(directory, seconds=skew)
        for name, command in _processes(port).items():
            name = f"{name} {number}"
            yield Member(name=name, command=command, environment=own, log=with_log(logs, name))


def _gate(
    name: str,
    port: int,
    to: list[str],
    environment: dict[str, str],
    logs: Path,
    *,
    patience: float | None = None,
) -> Member:
    words = [word for address in to for word in ("--to", address)]
    words += ["--patience", str(patience)] if patience else []
    file = str(ROOT / "tests" / "chaos" / "gate.py")
    command = [sys.executable, "-P", file, "--port", str(port), *words]
    return Member(name=name, command=command, environment=environment, log=with_log(logs, name))


def _processes(web_port: int) -> dict[str, list[str]]:
    gunicorn = [sys.executable, "-m", "gunicorn", "botpool.wsgi:application"]
    gunicorn += ["--bind", f"127.0.0.1:{web_port}", "--workers", "1", "--threads", "4"]
    gunicorn += ["--timeout", "10", "--chdir", str(ROOT), "--no-control-socket"]
    return {
        "web": [*gunicorn, "--log-level", "warning"],
        "worker": [*MANAGE, "worker"],
        "ticker": [*MANAGE, "ticker"],
        "witness": [sys.executable, "-m", "tests.chaos.witness"],
    }
