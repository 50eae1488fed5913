"""Checks of the whole installation: what is wrong, and what to do about it."""

from collections.abc import Callable, Iterator
from http import HTTPStatus
from math import ceil
from urllib.parse import urlsplit

import requests
from django.conf import settings
from django.db import Error
from django.template.defaultfilters import pluralize

from botpool.runtime.ports import is_loopback
from botpool.runtime.secret_files import fault_of, holds
from botpool.telemetry.coolify_setup import (
    Diagnosis,
    about_notifications,
    about_server,
    about_version,
)
from botpool.telemetry.health import reasons_not_to_serve
from coolify.budget.access import allow_access
from coolify.budget.report import budget_report
from coolify.client import Coolify
from coolify.client.errors import (
    AbilityMissing,
    BudgetExhausted,
    CircuitOpen,
    CoolifyError,
    NotFound,
    RateLimited,
    RoleMissing,
    Unauthenticated,
)
from coolify.client.resources import Server
from core.jobs.liveness import reasons_of_processes
from core.sql import server_version
from dashboard.notifications.records import NotificationChannel, failing_channels
from pool.controller.belief.answers import (
    doubt_about_list,
    doubt_about_project,
    known_applications,
)
from servers.reports import remember_servers
from slots.finding import Finding, FindingKind

OLDEST_POSTGRES = 140_000
PATIENCE = 5  # seconds
# No application has this uuid, so a call with it tests the token and changes nothing.
NO_APPLICATION = "botpool-doctor-asks"
# The registry of the default images, which does not exist.
NO_REGISTRY = "registry.example/"
MAKE_ADMIN = "Make the token's user an admin of its team: deploying needs that since 4.2."


def examine(coolify: Coolify) -> Iterator[Diagnosis]:
    yield (database := _database())
    if database.healthy:
        yield (database := _migrations())
    if database.healthy:
        yield (database := _writes())
    if database.healthy:
        yield from _processes()
        yield _hearing()
        yield _notifications()
    yield _secret_key()
    yield _debug()
    yield _public_url()
    if settings.REDIS_URL:
        yield _redis()
    if not settings.COOLIFY_SIMULATED:
        yield _images()
    if not database.healthy:
        reason = "these checks need the database"
        yield Diagnosis("worker, ticker and Coolify", None, reason)
        return
    allow_access()  # an operator asks: what Coolify refused before is tried again
    yield (reachable := _coolify(coolify))
    if reachable.healthy is not False:
        yield from abilities(coolify)
        yield from _places(coolify)
        yield _belief(coolify)
        yield _limits()


def _database() -> Diagnosis:
    name = "database"
    try:
        version = server_version()
    except Error as error:
        advice = "Check DATABASE_URL, and that the server accepts connections from here."
        return Diagnosis(name, False, str(error).strip().splitlines()[0], advice)
    if version < OLDEST_POSTGRES:
        return Diagnosis(
            name, False, f"PostgreSQL {version // 10_000}", "Use PostgreSQL 14 or newer."
        )
    kind = "embedded" if settings.EMBEDDED_POSTGRES else "named by DATABASE_URL"
    return Diagnosis(name, True, f"PostgreSQL {version // 10_000}, {kind}")


def _migrations() -> Diagnosis:
    waiting = reasons_not_to_serve().get("migrations", "")
    return Diagnosis("migrations", not waiting, waiting or "all applied", "Run manage.py migrate.")


def _writes() -> Diagnosis:
    why = reasons_not_to_serve().get("database", "")
    advice = "Until then, no bot can be requested, and none starts or stops. Nothing is lost."
    return Diagnosis("database writes", not why, why or "possible", advice)


def _processes() -> Iterator[Diagnosis]:
    reasons = reasons_of_processes()
    for name in ("worker", "ticker"):
        reason = reasons.get(name, "")
        advice = f"Start one with `manage.py {name}`, or everything with `manage.py up`."
        yield Diagnosis(name, not reason, reason or "alive", advice)


def _secret_key() -> Diagnosis:
    generated = settings.DATA_DIR / "secret_key"
    from_file = holds(generated, settings.SECRET_KEY)
    if fault := fault_of(settings.SECRET_KEY):
        advice = "Use `openssl rand -hex 32`: with a guessed key, every bot's token can be forged."
        words = f"SECRET_KEY {fault}"
        return Diagnosis("secret key", False, words, advice)
    if settings.EMBEDDED_POSTGRES or not from_file:
        return Diagnosis("secret key", True, "generated" if from_file else "from SECRET_KEY")
    return Diagnosis(
        "secret key",
        False,
        f"generated on this machine ({generated})",
        "Set SECRET_KEY to the same value on every machine. Otherwise, tokens and sessions created "
        "on one are refused on the others.",
    )


def _debug() -> Diagnosis:
    if not settings.DEBUG or (settings.EMBEDDED_POSTGRES and settings.COOLIFY_SIMULATED):
        return Diagnosis("debug mode", True, "on, for a trial" if settings.DEBUG else "off")
    advice = "Unset DEBUG: its error pages show code and settings to every visitor."
    return Diagnosis("debug mode", False, "on, with a real database or Coolify", advice)


def _public_url() -> Diagnosis:
    name, url = "public address", settings.PUBLIC_URL
    if is_loopback(urlsplit(url).hostname or "") and not settings.COOLIFY_SIMULATED:
        advice = "Set BOTPOOL_PUBLIC_URL to an address that containers on Coolify can reach."
        return Diagnosis(name, False, f"{url} points a bot's container at itself", advice)
    try:
        answer = requests.get(f"{url}/healthz", timeout=PATIENCE, allow_redirects=False)
    except requests.RequestException as error:
        advice = (
            "Start the web server or the proxy in front of it, or fix BOTPOOL_PUBLIC_URL. Bots "
            "call this address: it must be reachable from Coolify's servers, not only from here."
        )
        return Diagnosis(name, False, f"{url} does not answer: {type(error).__name__}", advice)
    if answer.status_code != HTTPStatus.OK or '"alive"' not in answer.text:
        advice = "Another program answers there: set BOTPOOL_PUBLIC_URL to Botpool's own address."
        return Diagnosis(name, False, f"{url}/healthz answers {answer.status_code}", advice)
    return Diagnosis(name, True, f"{url} answers")


def _hearing() -> Diagnosis:
    """What the workers found: this machine may reach the address although they do not."""
    name = "bots can be heard"
    unheard = Finding.objects.filter(kind=FindingKind.UNHEARD, ended_at=None).first()
    if unheard is None:
        return Diagnosis(name, True, "nothing suggests otherwise")
    advice = (
        "Make BOTPOOL_PUBLIC_URL reachable from the workers' machines: DNS, NAT, firewall, "
        f"certificate. They got: {unheard.evidence.get('error') or 'no answer'}."
    )
    return Diagnosis(name, False, unheard.reason, advice)


def _notifications() -> Diagnosis:
    name, failing = "notifications", list(failing_channels())
    if failing:
        words = "; ".join(f"{each.name}: {each.last_error}" for each in failing)
        advice = "Correct the channel on the page Notifications, then send a test."
        return Diagnosis(name, False, words, advice)
    number = NotificationChannel.objects.filter(enabled=True).count()
    return Diagnosis(
        name,
        True,
        f"{number} channel{pluralize(number)} enabled" if number else "no channel is set up",
    )


def _redis() -> Diagnosis:
    name = "Redis"
    try:
        from redis import Redis, RedisError  # only installed with Redis as the broker
    except ImportError:
        advice = "Run pip install --require-hashes -r ops/requirements-redis.txt."
        return Diagnosis(name, False, "the redis package is not installed", advice)
    try:
        with Redis.from_url(settings.REDIS_URL, socket_timeout=PATIENCE) as redis:
            redis.ping()
    except ValueError:  # its message may contain the password
        advice = (
            "Use redis://user:password@host:port/number, with special characters percent-encoded."
        )
        return Diagnosis(name, False, "REDIS_URL is not a valid address", advice)
    except RedisError as error:
        advice = (
            "Start Redis, or fix or unset REDIS_URL. Until then bots can be requested, but no task "
            "is run, so no bot starts or stops. Nothing is lost."
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
        return Diagnosis("bot images", True, "set for every platform with slots")
    advice = (
        f"Set {', '.join(f'BOT_IMAGE_{each}' for each in missing)}; for a platform without bots, "
        f"set its size to 0, for example MAX_POOL_SIZE_{missing[-1]}=0."
    )
    return Diagnosis(
        "bot images", False, f"{NO_REGISTRY}… does not exist: no bot can start", advice
    )


def _unanswered(name: str, error: CoolifyError, advice: str) -> Diagnosis:
    """Report a fault, or a skipped check while calls have to wait."""
    waits = isinstance(error, BudgetExhausted | RateLimited) and not isinstance(error, CircuitOpen)
    if waits:
        seconds = ceil(error.retry_after or 60)
        return Diagnosis(name, None, f"Coolify is busy, try again in {seconds} s")
    return Diagnosis(name, False, str(error), advice)


def _coolify(coolify: Coolify) -> Diagnosis:
    name = "Coolify"
    try:
        version = coolify.version()
    except RoleMissing as error:
        return Diagnosis(name, False, str(error), MAKE_ADMIN)
    except CoolifyError as error:
        return _unanswered(
            name, error, f"Check that Coolify answers at {settings.COOLIFY_API_URL}."
        )
    return about_version(version)


def abilities(coolify: Coolify) -> Iterator[Diagnosis]:
    """Check what the token may do, with calls that change nothing."""
    calls: dict[str, Callable[[], object]] = {
        "read": coolify.applications,
        "write": lambda: coolify.set_envs(NO_APPLICATION, {"BOTPOOL": "doctor"}),
        "deploy": lambda: coolify.stop(NO_APPLICATION),
    }
    for ability, call in calls.items():
        yield _ability(ability, call)


def _ability(ability: str, call: Callable[[], object]) -> Diagnosis:
    name = f"token may {ability}"
    try:
        call()
    except NotFound:
        pass  # the call is allowed; the application does not exist, as intended
    except AbilityMissing as error:
        advice = f"Create a token with read, write and deploy in Coolify (`{ability}` is missing)."
        return Diagnosis(name, False, str(error), advice)
    except RoleMissing as error:
        return Diagnosis(name, False, str(error), MAKE_ADMIN)
    except Unauthenticated as error:
        advice = "Create a token with read, write and deploy in Coolify."
        return Diagnosis(name, False, str(error), advice)
    except CoolifyError as error:
        return _unanswered(name, error, "Fix this error first, then check the token again.")
    return Diagnosis(name, True, "yes")


def _places(coolify: Coolify) -> Iterator[Diagnosis]:
    """Check that the project, environment and servers for new applications exist."""
    try:
        projects = {project.uuid for project in coolify.projects()}
        yield _project(projects)
        if settings.COOLIFY_PROJECT_UUID in projects:
            environments = coolify.environments(settings.COOLIFY_PROJECT_UUID)
            yield _environment({environment.name for environment in environments})
        servers = coolify.servers()
        remember_servers(servers)
        yield from _servers({server.uuid: server for server in servers})
        for server in servers:
            if server.uuid in settings.COOLIFY_SERVER_UUIDS:
                yield from about_server(coolify, server)
        yield about_notifications(coolify)
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


def _belief(coolify: Coolify) -> Diagnosis:
    """Check that Coolify shows what is ours: otherwise its answers are not believed."""
    name, known = "our applications", known_applications()
    try:
        listed = {application.uuid for application in coolify.applications()}
        doubt = doubt_about_project(coolify) or doubt_about_list(known, listed)
    except CoolifyError as error:
        return _unanswered(name, error, "Try again in a minute.")
    if doubt is not None:
        return Diagnosis(name, False, doubt.reason, doubt.check)
    shown = sum(uuid in listed for uuid in known)
    return Diagnosis(name, True, f"Coolify shows {shown} of {len(known)}")


def _servers(known: dict[str, Server]) -> Iterator[Diagnosis]:
    listed = ", ".join(sorted(known)) or "none exist"
    if not settings.COOLIFY_SERVER_UUIDS:
        advice = f"Set COOLIFY_SERVER_UUID to one or more of: {listed}."
        yield Diagnosis("server", False, "COOLIFY_SERVER_UUID is unset", advice)
    for uuid in settings.COOLIFY_SERVER_UUIDS:
        server = known.get(uuid)
        if server is None:
            yield Diagnosis(
                f"server {uuid}", False, "unknown to Coolify", f"Coolify knows: {listed}."
            )
        elif server.is_reachable is False or server.is_usable is False:
            advice = "Validate the server in Coolify: nothing can start on it now."
            yield Diagnosis(f"server {uuid}", False, "not reachable or not usable", advice)
        else:
            yield Diagnosis(f"server {uuid}", True, "reachable")


def _limits() -> Diagnosis:
    report = budget_report()
    spent = f"{report.spent} of {report.limit} calls spent in the last minute"
    if report.circuit != "closed":
        advice = "Calls resume by themselves once Coolify answers."
        return Diagnosis(
            "call budget", False, f"circuit {report.circuit}: {report.circuit_reason}", advice
        )
    if report.coolify_limit is not None and report.limit > report.coolify_limit:
        advice = f"Set COOLIFY_RATE_LIMIT below {report.coolify_limit}, Coolify's own limit."
        return Diagnosis("call budget", False, f"COOLIFY_RATE_LIMIT is {report.limit}", advice)
    if report.paused_until is not None:
        spent += f"; Coolify asked for a pause until {report.paused_until:%H:%M:%S} UTC"
    return Diagnosis("call budget", True, spent)
