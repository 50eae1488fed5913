"""Checks of the whole installation: what is wrong, and what to do about it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http import HTTPStatus
from math import ceil
from urllib.parse import urlsplit

import requests
from django.conf import settings
from django.db import Error, connection

from botpool.telemetry.health import reasons_not_to_serve
from coolify.budget.report import budget_report
from coolify.client import Coolify
from coolify.client.errors import (
    AbilityMissing,
    BudgetExhausted,
    CircuitOpen,
    CoolifyError,
    NotFound,
    RateLimited,
    Unauthenticated,
)
from coolify.client.resources import Server
from coolify.server_limits import remember_servers
from core.jobs.liveness import reasons_of_processes

OLDEST_POSTGRES = 140_000
OLDEST_COOLIFY = (4, 0)
PATIENCE = 5  # seconds
SHORTEST_KEY = 32
# No application of Coolify's has this uuid: a call on it shows whether it would be allowed.
NOBODY = "botpool-doctor-asks"
# Where the images are said to be as long as nobody says where they are.
NO_REGISTRY = "registry.example/"


@dataclass(frozen=True)
class Diagnosis:
    name: str
    healthy: bool | None  # None: not looked at
    finding: str
    advice: str = ""


def examine(coolify: Coolify) -> Iterator[Diagnosis]:
    yield (database := _database())
    if database.healthy:
        yield (database := _migrations())
    if database.healthy:
        yield from _processes()
    yield _secret_key()
    yield _debug()
    yield _public_url()
    if settings.REDIS_URL:
        yield _redis()
    if not settings.COOLIFY_SIMULATED:
        yield _images()
    if not database.healthy:
        reason = "not looked at, for that needs the database"
        yield Diagnosis("worker, ticker and Coolify", None, reason)
        return
    yield (reachable := _coolify(coolify))
    if reachable.healthy is not False:
        yield from _abilities(coolify)
        yield from _places(coolify)
        yield _limits()


def _database() -> Diagnosis:
    name = "database"
    try:
        with connection.cursor() as cursor:
            cursor.execute("SHOW server_version_num")
            version = int(cursor.fetchone()[0])
    except Error as error:
        advice = "Check DATABASE_URL and that the server accepts connections from here."
        return Diagnosis(name, False, str(error).strip().splitlines()[0], advice)
    if version < OLDEST_POSTGRES:
        return Diagnosis(name, False, f"PostgreSQL {version // 10_000}", "Use 14 or newer.")
    kind = "embedded" if settings.EMBEDDED_POSTGRES else "named by DATABASE_URL"
    return Diagnosis(name, True, f"PostgreSQL {version // 10_000}, {kind}")


def _migrations() -> Diagnosis:
    waiting = reasons_not_to_serve().get("migrations", "")
    return Diagnosis("migrations", not waiting, waiting or "all applied", "manage.py migrate")


def _processes() -> Iterator[Diagnosis]:
    reasons = reasons_of_processes()
    for name in ("worker", "ticker"):
        reason = reasons.get(name, "")
        advice = f"Start one with `manage.py {name}`, or all parts with `manage.py up`."
        yield Diagnosis(name, not reason, reason or "alive", advice)


def _secret_key() -> Diagnosis:
    generated = settings.DATA_DIR / "secret_key"
    from_file = generated.exists() and generated.read_text().strip() == settings.SECRET_KEY
    if len(settings.SECRET_KEY) < SHORTEST_KEY:
        advice = "Make one by `openssl rand -hex 32`: who guesses it can speak for every bot."
        words = f"SECRET_KEY has only {len(settings.SECRET_KEY)} characters"
        return Diagnosis("secret key", False, words, advice)
    if settings.EMBEDDED_POSTGRES or not from_file:
        return Diagnosis("secret key", True, "generated" if from_file else "from SECRET_KEY")
    return Diagnosis(
        "secret key",
        False,
        f"generated on this machine ({generated})",
        "Set SECRET_KEY to the same value on every machine: bots' tokens and sessions made on one "
        "are refused on the others.",
    )


def _debug() -> Diagnosis:
    if not settings.DEBUG or (settings.EMBEDDED_POSTGRES and settings.COOLIFY_SIMULATED):
        return Diagnosis("debug mode", True, "on, for trying it out" if settings.DEBUG else "off")
    advice = "Take DEBUG out: its pages show code and settings to whoever makes an error happen."
    return Diagnosis("debug mode", False, "on, with a database or a Coolify of your own", advice)


def _public_url() -> Diagnosis:
    name, url = "public address", settings.PUBLIC_URL
    host = urlsplit(url).hostname or ""
    local = host in ("localhost", "::1") or host.startswith("127.")
    if local and not settings.COOLIFY_SIMULATED:
        advice = "Set BOTPOOL_PUBLIC_URL to where containers on Coolify's servers reach Botpool."
        return Diagnosis(name, False, f"{url} leads a bot's container to itself", advice)
    try:
        answer = requests.get(f"{url}/healthz", timeout=PATIENCE, allow_redirects=False)
    except requests.RequestException as error:
        advice = (
            "Start the web server, or the proxy before it, or mend BOTPOOL_PUBLIC_URL: bots call "
            "this address. It has to be reachable from Coolify's servers, not only from here."
        )
        return Diagnosis(name, False, f"{url} does not answer: {type(error).__name__}", advice)
    if answer.status_code != HTTPStatus.OK or '"alive"' not in answer.text:
        advice = "Something else answers there: BOTPOOL_PUBLIC_URL has to lead to Botpool."
        return Diagnosis(name, False, f"{url}/healthz answers {answer.status_code}", advice)
    return Diagnosis(name, True, f"{url} answers")


def _redis() -> Diagnosis:
    name = "Redis"
    try:
        from redis import Redis, RedisError  # only where there is a REDIS_URL
    except ImportError:
        advice = "pip install --require-hashes -r ops/requirements-redis.txt"
        return Diagnosis(name, False, "its package is not installed", advice)
    try:
        with Redis.from_url(settings.REDIS_URL, socket_timeout=PATIENCE) as redis:
            redis.ping()
    except ValueError:  # its text might hold the password
        advice = (
            "Write redis://user:password@host:port/number, special characters as %2F and so on."
        )
        return Diagnosis(name, False, "REDIS_URL is no address of a Redis", advice)
    except RedisError as error:
        advice = (
            "Start it, or mend REDIS_URL, or take it out: bots can be asked for meanwhile, but no "
            "task is run, so none of them starts or stops. Nothing is lost."
        )
        return Diagnosis(name, False, str(error).strip().splitlines()[0], advice)
    return Diagnosis(name, True, "answers")


# --- Coolify ---------------------------------------------------------------------------------


def _images() -> Diagnosis:
    missing = [
        platform.upper().replace("-", "_")
        for platform, image in settings.BOT_IMAGES.items()
        if image.startswith(NO_REGISTRY) and settings.MAX_POOL_SIZES[platform]
    ]
    if not missing:
        return Diagnosis("bot images", True, "named for every platform that has slots")
    advice = (
        f"Set {', '.join(f'BOT_IMAGE_{each}' for each in missing)}; for a platform without bots "
        f"set its size to 0, as in MAX_POOL_SIZE_{missing[-1]}=0."
    )
    return Diagnosis("bot images", False, f"{NO_REGISTRY}… does not exist: no bot starts", advice)


def _unanswered(name: str, error: CoolifyError, advice: str) -> Diagnosis:
    """A fault, unless calls have to wait: then Coolify is busy, and nothing is known of it."""
    waits = isinstance(error, BudgetExhausted | RateLimited) and not isinstance(error, CircuitOpen)
    if waits:
        seconds = ceil(error.retry_after or 60)
        return Diagnosis(name, None, f"could not be asked: busy, ask again in {seconds} s")
    return Diagnosis(name, False, str(error), advice)


def _coolify(coolify: Coolify) -> Diagnosis:
    name = "Coolify"
    try:
        version = coolify.version()
    except CoolifyError as error:
        return _unanswered(name, error, f"Check {settings.COOLIFY_API_URL} by hand.")
    numbers = tuple(int(part) for part in version.lstrip("v").split(".")[:2] if part.isdecimal())
    if numbers < OLDEST_COOLIFY:
        return Diagnosis(name, False, f"version {version}", "Upgrade Coolify to version 4.")
    return Diagnosis(name, True, f"version {version} at {settings.COOLIFY_API_URL}")


def _abilities(coolify: Coolify) -> Iterator[Diagnosis]:
    calls: dict[str, Callable[[], object]] = {
        "read": coolify.applications,
        "write": lambda: coolify.set_envs(NOBODY, {"BOTPOOL": "doctor"}),
        "deploy": lambda: coolify.stop(NOBODY),
    }
    for ability, call in calls.items():
        yield _ability(ability, call)


def _ability(ability: str, call: Callable[[], object]) -> Diagnosis:
    name = f"token may {ability}"
    try:
        call()
    except NotFound:
        pass  # allowed, and nothing there, as intended
    except AbilityMissing as error:
        advice = f"Make a token with read, write and deploy in Coolify (`{ability}` is missing)."
        return Diagnosis(name, False, str(error), advice)
    except Unauthenticated as error:
        advice = "Make a token with read, write and deploy in Coolify."
        return Diagnosis(name, False, str(error), advice)
    except CoolifyError as error:
        return _unanswered(name, error, "No matter of abilities: see to that, and ask again.")
    return Diagnosis(name, True, "yes")


def _places(coolify: Coolify) -> Iterator[Diagnosis]:
    """Where applications are to be made: project, environment and servers exist."""
    try:
        projects = {project.uuid for project in coolify.projects()}
        yield _project(projects)
        if settings.COOLIFY_PROJECT_UUID in projects:
            environments = coolify.environments(settings.COOLIFY_PROJECT_UUID)
            yield _environment({environment.name for environment in environments})
        servers = coolify.servers()
        remember_servers(servers)
        yield from _servers({server.uuid: server for server in servers})
    except CoolifyError as error:
        yield _unanswered("project and servers", error, "Try again in a minute.")


def _project(known: set[str]) -> Diagnosis:
    wanted = settings.COOLIFY_PROJECT_UUID
    advice = f"Set COOLIFY_PROJECT_UUID to one of: {', '.join(sorted(known)) or 'none exist'}."
    return Diagnosis("project", wanted in known, wanted or "COOLIFY_PROJECT_UUID is unset", advice)


def _environment(known: set[str]) -> Diagnosis:
    wanted = settings.COOLIFY_ENVIRONMENT_NAME
    advice = f"Set COOLIFY_ENVIRONMENT_NAME to one of: {', '.join(sorted(known)) or 'none exist'}."
    return Diagnosis("environment", wanted in known, wanted, advice)


def _servers(known: dict[str, Server]) -> Iterator[Diagnosis]:
    listed = ", ".join(sorted(known)) or "none exist"
    if not settings.COOLIFY_SERVER_UUIDS:
        advice = f"Set COOLIFY_SERVER_UUID to one or several of: {listed}."
        yield Diagnosis("server", False, "COOLIFY_SERVER_UUID is unset", advice)
    for uuid in settings.COOLIFY_SERVER_UUIDS:
        server = known.get(uuid)
        if server is None:
            yield Diagnosis(f"server {uuid}", False, "unknown to Coolify", f"There are: {listed}.")
        elif server.is_reachable is False or server.is_usable is False:
            advice = "Validate the server in Coolify: nothing can be started on it now."
            yield Diagnosis(f"server {uuid}", False, "not reachable or not usable", advice)
        else:
            builds = server.concurrent_builds or "an unknown number of"
            yield Diagnosis(f"server {uuid}", True, f"{builds} builds at a time")


def _limits() -> Diagnosis:
    report = budget_report()
    spent = f"{report.spent} of {report.limit} calls spent in the last minute"
    if report.circuit != "closed":
        advice = "Calls start again by themselves once Coolify answers."
        return Diagnosis(
            "call budget", False, f"circuit {report.circuit}: {report.circuit_reason}", advice
        )
    if report.coolify_limit is not None and report.limit > report.coolify_limit:
        advice = f"Set COOLIFY_RATE_LIMIT below {report.coolify_limit}, Coolify's own limit."
        return Diagnosis("call budget", False, f"COOLIFY_RATE_LIMIT is {report.limit}", advice)
    if report.paused_until is not None:
        spent += f"; Coolify wants no more until {report.paused_until:%H:%M:%S} UTC"
    return Diagnosis("call budget", True, spent)
