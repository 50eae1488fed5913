"""All settings, read from the environment only. README.md explains the important ones."""

import re
from contextlib import suppress
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

import dj_database_url
from psycopg.pq import Conninfo

from botpool.runtime.postgres import server as postgres
from botpool.runtime.secret_files import is_one_word, read_object, read_or_make
from coolify.client.image import is_image
from core import environment as env

BASE_DIR = env.BASE_DIR
DATA_DIR = env.data_dir()

# --- Hosts and HTTPS -------------------------------------------------------------------------

DEBUG = env.flag("DEBUG", False)
# Reject placeholder secrets: a value with spaces is a hint or an example. A short one may be meant,
# on a test system at least: `manage.py doctor` reports it.
_RANDOM = "random characters without spaces, such as from `openssl rand -hex 32`"
SECRET_KEY = env.secret("SECRET_KEY", valid=is_one_word, allowed=_RANDOM) or read_or_make(
    DATA_DIR / "secret_key"
)
SECRET_KEY_FALLBACKS = env.words(
    "SECRET_KEY_FALLBACKS",
    valid=is_one_word,
    allowed=f"former keys, separated by commas: {_RANDOM}",
    secret=True,
)

PUBLIC_URL = env.url("BOTPOOL_PUBLIC_URL", "http://127.0.0.1:8000")
ALLOWED_HOSTS = [
    *env.words(
        "ALLOWED_HOSTS",
        ["localhost", "127.0.0.1", "[::1]"],
        valid=lambda host: bool(re.fullmatch(r"\*|\.?[\w-]+(\.[\w-]+)*|\[[\da-fA-F:.]+\]", host)),
        allowed="host names without http:// and port, such as botpool.example,.example.org,[::1]",
    ),
    urlsplit(PUBLIC_URL).hostname,
]

HTTPS = PUBLIC_URL.startswith("https://")
SECURE_SSL_REDIRECT = HTTPS
SECURE_REDIRECT_EXEMPT = [r"^healthz$", r"^readyz$", r"^metrics$"]
# Proxies that are trusted to name the client's address, also by the web server.
FORWARDED_ALLOW_IPS = env.words(
    "FORWARDED_ALLOW_IPS",
    ["127.0.0.1"],
    valid=env.is_network,
    allowed="addresses and networks of proxies, such as 127.0.0.1,10.0.0.0/8, or *",
)
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if HTTPS else None
# This host only. Subdomains (W005) and preloading (W021) are for the owner of the domain to decide.
SECURE_HSTS_SECONDS = 365 * 24 * 3600 if HTTPS else 0
SILENCED_SYSTEM_CHECKS = ["security.W005", "security.W021"]
SESSION_COOKIE_SECURE = HTTPS
CSRF_COOKIE_SECURE = HTTPS
CSRF_TRUSTED_ORIGINS = [PUBLIC_URL]
SESSION_COOKIE_AGE = 12 * 3600
X_FRAME_OPTIONS = "DENY"

# --- PostgreSQL ------------------------------------------------------------------------------

DATABASE_URL = env.text("DATABASE_URL")
EMBEDDED_POSTGRES = not DATABASE_URL


def _database_from_url(url: str) -> dict:
    allowed = (
        "postgres://user:password@host:port/name (SQLite and others are not supported), with "
        "special characters in the password percent-encoded: / as %2F, # as %23, ? as %3F, "
        "@ as %40; after ? only what libpq knows, such as sslmode=require"
    )
    wrong = env.WrongValue("DATABASE_URL", allowed, secret=True)
    if not url.startswith(("postgres://", "postgresql://")):
        raise wrong
    try:
        parts = urlsplit(url)
        # An @ that late means that the URL was cut at a / # or ? inside the password.
        rest = parts.path + parts.fragment
        if "@" in rest or ("@" in parts.query and "@" not in parts.netloc):
            raise wrong
        found: dict[str, Any] = dict(dj_database_url.parse(url))
    except ValueError:
        raise wrong from None
    options = found.get("OPTIONS", {})
    numbers = (str(options.get(name, 0)) for name in _TIMEOUTS)
    if (
        not found["NAME"]
        or not options.keys() <= _known_options()
        or not all(number.isdecimal() for number in numbers)
    ):
        raise wrong
    return found


def _known_options() -> set[str]:
    """What may follow the name, as in ?sslmode=require."""
    return {option.keyword.decode() for option in Conninfo.get_defaults()} | {"assume_role"}


# Give up on a server that accepts a connection but never answers, or that is cut off. Seconds,
# except for the last: milliseconds that sent data may stay unacknowledged.
_TIMEOUTS = {
    "connect_timeout": 5,
    "keepalives_idle": 15,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
}

_database: dict = (
    postgres.connection_settings(DATA_DIR)
    if EMBEDDED_POSTGRES
    else _database_from_url(DATABASE_URL)
)
DATABASES = {
    "default": {
        **_database,
        "OPTIONS": {
            **_TIMEOUTS,
            "server_side_binding": True,  # what botpool.apps.prepare_statements needs
            **_database.get("OPTIONS", {}),
        },
        "CONN_MAX_AGE": 60,
        "CONN_HEALTH_CHECKS": True,
        # Server-side cursors can outlive their transaction, which PgBouncer does not support.
        "DISABLE_SERVER_SIDE_CURSORS": True,
    }
}
# Our transactions never pause this long. It is also how long a frozen process keeps its locks.
IDLE_TRANSACTION_LIMIT = env.milliseconds("IDLE_TRANSACTION_LIMIT", 10_000)
# For each statement of a request: then it is cancelled, and the answer is 503. More for exports and
# the admin (botpool.request_limits), none in workers, the ticker and commands.
STATEMENT_LIMIT = env.milliseconds("STATEMENT_LIMIT", 10_000, low=100, high=600_000)
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# --- Coolify ---------------------------------------------------------------------------------


def _simulator() -> dict[str, str]:
    """The simulator that `manage.py up` started, for commands in other shells."""
    found = read_object(DATA_DIR / "simulator.json")
    return found if all(isinstance(value, str) for value in found.values()) else {}


_uses_simulator = not env.text("COOLIFY_API_URL")
_coolify = _simulator() if _uses_simulator else {}

COOLIFY_SIMULATED = _uses_simulator or env.flag("COOLIFY_SIMULATED", False)
COOLIFY_API_URL = env.url(
    "COOLIFY_API_URL", _coolify.get("url", "http://127.0.0.1:8780/api/v1"), ending="/api/v1"
)
COOLIFY_API_TOKEN = env.text("COOLIFY_API_TOKEN", _coolify.get("token", ""))
COOLIFY_PROJECT_UUID = env.text("COOLIFY_PROJECT_UUID", _coolify.get("project", ""))
COOLIFY_SERVER_UUIDS = env.words("COOLIFY_SERVER_UUID", _coolify.get("servers", "").split(","))
COOLIFY_ENVIRONMENT_NAME = env.text("COOLIFY_ENVIRONMENT_NAME", "production")
COOLIFY_DESTINATION_UUID = env.text("COOLIFY_DESTINATION_UUID")
COOLIFY_RATE_LIMIT = env.number("COOLIFY_RATE_LIMIT", 180, low=1, high=100_000)
# The first pause before one call tries whether Coolify works again, and how long the other calls
# wait for its answer. Also the first pause before a slot's step that failed is tried again.
COOLIFY_PROBE_PAUSE = env.milliseconds("COOLIFY_PROBE_PAUSE", 5_000, low=100)
# Slots that one node works on at once, each with one call in flight.
COOLIFY_CONCURRENCY = env.number("COOLIFY_CONCURRENCY", 8, low=1, high=64)
COOLIFY_DESCRIPTION_STYLE = env.choice(
    "COOLIFY_DESCRIPTION_STYLE", "brackets", ("brackets", "plain")
)


_PLATFORMS = ("google-meet", "teams", "zoom")


def _for_each_platform(prefix: str) -> dict[str, str]:
    """Map platforms to variables with this prefix; other names with the prefix are an error."""
    names = {platform: prefix + platform.upper().replace("-", "_") for platform in _PLATFORMS}
    env.refuse_others(prefix, list(names.values()))
    return names


def _image(platform: str, name: str) -> str:
    return env.matching(
        name,
        f"registry.example/meeting-bot-{platform}:latest",
        valid=is_image,
        allowed="an image with its tag, in lower case, such as registry.example/bot:1.4",
    )


BOT_IMAGES = {
    platform: _image(platform, name) for platform, name in _for_each_platform("BOT_IMAGE_").items()
}

# --- The pool --------------------------------------------------------------------------------

SLOT_NAME_PREFIX = env.matching(
    "SLOT_NAME_PREFIX",
    "pool",
    valid=lambda prefix: bool(re.fullmatch(r"[a-z0-9][a-z0-9-]{0,39}", prefix)),
    allowed="1 to 40 lower-case letters, digits and dashes, starting with a letter or digit",
)
MAX_POOL_SIZE = env.number("MAX_POOL_SIZE", 100, low=0, high=10_000)
MAX_POOL_SIZES = {
    platform: env.number(name, MAX_POOL_SIZE, low=0, high=10_000)
    for platform, name in _for_each_platform("MAX_POOL_SIZE_").items()
}

MAX_QUEUE_TIMEOUT = env.milliseconds("MAX_QUEUE_TIMEOUT", 600_000)
DEFAULT_QUEUE_TIMEOUT = env.milliseconds("DEFAULT_QUEUE_TIMEOUT", 300_000)
if DEFAULT_QUEUE_TIMEOUT > MAX_QUEUE_TIMEOUT:
    raise env.WrongValue("DEFAULT_QUEUE_TIMEOUT", "at most MAX_QUEUE_TIMEOUT")
POLL_INTERVAL = env.milliseconds("POLL_INTERVAL", 1_000)
# Ageing: how much waiting outweighs one step of priority. At 2 s, a bot with priority 100 overtakes
# newcomers with priority 0 once it has waited for 200 s. At one day, priority is strict.
QUEUE_AGEING = env.milliseconds("QUEUE_AGEING", 2_000)

DEPLOY_TIMEOUT = env.milliseconds("DEPLOY_TIMEOUT", 25 * 60_000)
DEPLOY_POLL_INTERVAL = env.milliseconds("DEPLOY_POLL_INTERVAL", 15_000)
DEPLOY_GRACE_PERIOD = env.milliseconds("DEPLOY_GRACE_PERIOD", 3 * 60_000)
DEPLOY_STUCK_AFTER = env.milliseconds("DEPLOY_STUCK_AFTER", 30 * 60_000)
MAX_CONCURRENT_DEPLOYMENTS = env.number("MAX_CONCURRENT_DEPLOYMENTS", 0, low=0, high=1_000)
MAX_PLACEMENTS = 1 + env.number("MAX_REPLACEMENTS", 2, low=0, high=20)
# How long an image counts as warm after its last use. For a moving tag, such as `latest`: after
# its last pull.
IMAGE_WARM_FOR = env.milliseconds("IMAGE_WARM_FOR", 12 * 3_600_000, high=30 * 86_400_000)
# How long bots may go on with the old image while a new one is pulled on their server. Then they
# use the new one and pull it themselves, unless it could not be pulled.
IMAGE_SWITCH_TIMEOUT = env.milliseconds("IMAGE_SWITCH_TIMEOUT", 3_600_000, high=30 * 86_400_000)
# When Coolify's clean-up removes images (UTC; empty: never), and how long before and after that an
# image is not relied on unless a running container uses it.
IMAGE_CLEANUP_TIMES = [
    timedelta(hours=int(word[:2]), minutes=int(word[3:]))
    for word in env.words(
        "IMAGE_CLEANUP_TIMES",
        ["00:00"],
        valid=lambda word: bool(re.fullmatch(r"([01]\d|2[0-3]):[0-5]\d", word, re.ASCII)),
        allowed="times of day in UTC, such as 00:00,12:30",
    )
]
IMAGE_CLEANUP_MARGIN = env.milliseconds("IMAGE_CLEANUP_MARGIN", 5 * 60_000, low=0)
# A start with a warm image that builds for longer than this is taken for a pull.
UNEXPECTED_PULL_AFTER = env.milliseconds("UNEXPECTED_PULL_AFTER", 90_000)
# While the budget is quiet, the first observation after a start or stop; the pauses then double.
OBSERVE_SOONEST = env.milliseconds("OBSERVE_SOONEST", 1_000)
# While the budget is quiet, how often Coolify is asked whether a start has ended: it may fail.
OBSERVE_STARTS = env.milliseconds("OBSERVE_STARTS", 3_000)
# Under pressure: a start is observed once it should be over, a stop sooner while a bot waits.
EXPECTED_START = env.milliseconds("EXPECTED_START", 60_000, low=0)
WATCH_INTERVAL = env.milliseconds("WATCH_INTERVAL", 5_000)
# After a container's start, how long Coolify may still show what was before it.
STATUS_SETTLES_AFTER = env.milliseconds("STATUS_SETTLES_AFTER", 5_000)
# How long Coolify must report a stopped container if we did not observe it stopping.
STOP_CONFIRM_AFTER = env.milliseconds("STOP_CONFIRM_AFTER", 75_000)
STOP_RETRY_AFTER = env.milliseconds("STOP_RETRY_AFTER", 60_000)
STOP_MAX_ATTEMPTS = env.number("STOP_MAX_ATTEMPTS", 10, low=1, high=1_000)
HEARTBEAT_TIMEOUT = env.milliseconds("HEARTBEAT_TIMEOUT", 5 * 60_000)
# Docker starts a crashed container again and again, and Coolify is told not to stop that.
MAX_CONTAINER_RESTARTS = env.number("MAX_CONTAINER_RESTARTS", 10, low=1, high=10_000)
# Then the bot is told to leave. If it stays, it fails after the grace, and its slot is released.
MAX_MEETING_DURATION = env.milliseconds(
    "MAX_MEETING_DURATION", 24 * 3_600_000, high=30 * 86_400_000
)
MEETING_LEAVE_GRACE = env.milliseconds("MEETING_LEAVE_GRACE", 5 * 60_000)
RECONCILE_INTERVAL = env.milliseconds("RECONCILE_INTERVAL", 30_000)
RECONCILE_LOCK_TTL = env.milliseconds("RECONCILE_LOCK_TTL", 5_000)
# Repairs of one kind that would end a larger share of a platform's meetings, and more than two,
# wait for an operator. A list that lacks a larger share of our applications is not believed.
RECONCILE_MAX_PERCENT = env.number("RECONCILE_MAX_PERCENT", 20, low=0, high=100)
# How long Coolify must report a problem without a break; its statuses can be a minute old. Before
# a repair that ends a bot, it must last longer than our own gaps can explain: 120 s (hearing.py).
CONTAINER_EVIDENCE = env.milliseconds("CONTAINER_EVIDENCE", 75_000)
# A longer gap in which Botpool may not have heard its bots restarts their clocks. Default: 90 s.
HEARING_GAP = env.milliseconds("HEARING_GAP", max(1, int(HEARTBEAT_TIMEOUT.total_seconds() * 300)))
PENDING_LOST_AFTER = env.milliseconds("PENDING_LOST_AFTER", 60_000)
STOP_STUCK_AFTER = env.milliseconds("STOP_STUCK_AFTER", 30 * 60_000)
# A slot is quarantined after this many failed starts in a row while others start. 0: never.
QUARANTINE_AFTER = env.number("QUARANTINE_AFTER", 3, low=0, high=100)
RECOVERY_ATTEMPTS = env.number("RECOVERY_ATTEMPTS", 3, low=0, high=100)
# Before the first attempt; each further pause is four times as long.
RECOVERY_PAUSE = env.milliseconds("RECOVERY_PAUSE", 60_000)
ORPHAN_KEPT_FOR = env.milliseconds("ORPHAN_KEPT_FOR", 3_600_000, high=365 * 86_400_000)
# A state that does not last this long is not worth a call to update its description.
DESCRIPTION_SETTLED_AFTER = env.milliseconds("DESCRIPTION_SETTLED_AFTER", 2_000, low=0)
# How long a stop waits for the log of a failed bot's container.
LOG_TIMEOUT = env.milliseconds("LOG_TIMEOUT", 3_000, low=100, high=60_000)
# A log that could not be read for this long after a failure is not kept.
LOG_DEADLINE = env.milliseconds("LOG_DEADLINE", 10 * 60_000)
# How often the log on open pages is read: once for all viewers and all slots together.
LOG_INTERVAL = env.milliseconds("LOG_INTERVAL", 5_000)

# --- Servers ---------------------------------------------------------------------------------

# How often Coolify is asked about its servers. A server that it cannot reach gets no bots.
SERVER_INTERVAL = env.milliseconds("SERVER_INTERVAL", 8_000)
# How long a server must be unreachable before the bots that start there are placed elsewhere.
SERVER_LOST_AFTER = env.milliseconds("SERVER_LOST_AFTER", 20_000)
# Starts of this time decide whether a server is degraded: half of them failed, or, with the image
# there, they took longer than SERVER_SLOW_START.
SERVER_JUDGED_BY = env.milliseconds("SERVER_JUDGED_BY", 10 * 60_000)
SERVER_SLOW_START = env.milliseconds("SERVER_SLOW_START", 2 * 60_000)
# How long before its maintenance window a server begins to drain.
MAINTENANCE_LEAD = env.milliseconds("MAINTENANCE_LEAD", 60 * 60_000, low=0)
# 0: no limit. Slots of all platforms count.
MAX_SLOTS_PER_SERVER = env.number("MAX_SLOTS_PER_SERVER", 0, low=0, high=10_000)

LOCK_TTL = env.milliseconds("LOCK_TTL", 10_000)
LOCK_RETRY_COUNT = env.number("LOCK_RETRY_COUNT", 10, low=0, high=1_000)
LOCK_RETRY_DELAY = env.milliseconds("LOCK_RETRY_DELAY", 200)
LOCK_RETRY_JITTER = env.milliseconds("LOCK_RETRY_JITTER", 100, low=0)

# --- The API ---------------------------------------------------------------------------------

# Each client sees its own bots only, and clients share the slots fairly. False: every key sees all
# bots, and all wait in one line.
TENANT_ISOLATION = env.flag("TENANT_ISOLATION", True)
# Calls per minute and key; 0 means no limit.
API_RATE_LIMIT = env.number("API_RATE_LIMIT", 6_000, low=0, high=10_000_000)


def _fits_into_path(secret: str) -> bool:
    """Only characters that need no escaping in a URL."""
    return bool(re.fullmatch(r"(?!\.{1,2}$)[\w.~+=!$&'()*,;:@-]+", secret, re.A))


_FOR_A_PATH = "letters, digits and -._~+=!$&'()*,;:@ only"
COOLIFY_WEBHOOK_SECRET = env.secret(
    "COOLIFY_WEBHOOK_SECRET",
    valid=_fits_into_path,
    allowed=f"{_FOR_A_PATH}, such as from `openssl rand -hex 32`",
) or read_or_make(DATA_DIR / "coolify_webhook_secret", valid=_fits_into_path, allowed=_FOR_A_PATH)
WEBHOOK_ALLOW_PRIVATE = env.flag("WEBHOOK_ALLOW_PRIVATE", False)
WEBHOOK_INTERVAL = env.milliseconds("WEBHOOK_INTERVAL", 1_000)
WEBHOOK_ATTEMPTS = env.number("WEBHOOK_ATTEMPTS", 12, low=1, high=100)
# An endpoint to which nothing could be delivered for this long is disabled.
WEBHOOK_DISABLE_AFTER = env.milliseconds(
    "WEBHOOK_DISABLE_AFTER", 24 * 3_600_000, high=365 * 86_400_000
)
# How long an old secret signs beside the new one.
WEBHOOK_OLD_SECRET_FOR = env.milliseconds(
    "WEBHOOK_OLD_SECRET_FOR", 24 * 3_600_000, low=0, high=365 * 86_400_000
)

# --- Notifications ---------------------------------------------------------------------------

# How often conditions are looked at and messages sent.
NOTIFY_INTERVAL = env.milliseconds("NOTIFY_INTERVAL", 15_000)
# A bot that waits for a slot for longer than this is a condition.
NOTIFY_QUEUE_WAIT = env.milliseconds("NOTIFY_QUEUE_WAIT", 120_000)
# At least this share of failures among a platform's bots that ended lately is a condition.
NOTIFY_FAILURE_PERCENT = env.number("NOTIFY_FAILURE_PERCENT", 25, low=1, high=100)

# --- Tasks -----------------------------------------------------------------------------------

REDIS_URL = env.url("REDIS_URL", schemes=("redis", "rediss", "unix"), secret=True)
# One for each slot that is worked on at once, and two for periodic work.
WORKERS = env.number("WORKERS", COOLIFY_CONCURRENCY + 2, low=1, high=66)
Q_CLUSTER = {
    "name": "botpool",
    "label": "Tasks",
    "workers": WORKERS,
    "queue_limit": 4,
    "bulk": 1,
    "timeout": 60,
    "retry": 300,
    "ack_failures": True,
    "max_attempts": 3,
    "save_limit": -1,
    "poll": 1,  # a safety net: NOTIFY comes first
    "catch_up": False,
    "scheduler": False,  # the ticker does this, at intervals of seconds
    **(
        {"redis": REDIS_URL, "broker_class": "core.jobs.redis.RedisBroker"}
        if REDIS_URL
        else {"orm": "default", "broker_class": "core.jobs.broker.DatabaseBroker"}
    ),
}

PERIODIC_WORK = "botpool.schedule.WORKS"
JOB_HANDLERS = {"slot": "pool.controller.advance.advance_slot"}
WORKER_HEARTBEAT_INTERVAL = env.milliseconds("WORKER_HEARTBEAT_INTERVAL", 5_000)
WORKER_SILENCE_LIMIT = env.milliseconds("WORKER_SILENCE_LIMIT", 30_000)
SAMPLE_INTERVAL = env.milliseconds("SAMPLE_INTERVAL", 20_000)

# --- Retention -------------------------------------------------------------------------------

PRUNE_INTERVAL = env.milliseconds("PRUNE_INTERVAL", 10 * 60_000)
# Rows deleted in one transaction; few enough not to delay other queries.
PRUNE_BATCH = env.number("PRUNE_BATCH", 1_000, low=1, high=100_000)
# Ended bots with their history, webhook and request names. Afterwards, their Idempotency-Key can
# be used again.
KEEP_BOTS = env.days("KEEP_BOTS_DAYS", 90)
# History of slots and deployments. A bot that has not ended keeps its history in any case.
KEEP_TRANSITIONS = env.days("KEEP_TRANSITIONS_DAYS", 90)
KEEP_DEPLOYMENTS = env.days("KEEP_DEPLOYMENTS_DAYS", 90)
# Findings that led to a repair. Those that passed by themselves are kept for a day.
KEEP_FINDINGS = env.days("KEEP_FINDINGS_DAYS", 30)
# Logs of failed bots and starts.
KEEP_LOGS = env.days("KEEP_LOGS_DAYS", 14)
# Finished deliveries.
KEEP_WEBHOOK_DELIVERIES = env.days("KEEP_WEBHOOK_DELIVERIES_DAYS", 30)
# Sent and failed messages, and conditions that are over.
KEEP_NOTIFICATIONS = env.days("KEEP_NOTIFICATIONS_DAYS", 30)
KEEP_TASK_RESULTS = env.days("KEEP_TASK_RESULTS_DAYS", 7)
# The audit of operators' actions.
KEEP_OPERATOR_ACTIONS = env.days("KEEP_OPERATOR_ACTIONS_DAYS", 365)

# --- Metrics ---------------------------------------------------------------------------------

# If set, /metrics requires it as a Bearer token.
METRICS_TOKEN = env.text("METRICS_TOKEN")
# How often new history is added to the counters of /metrics.
COUNT_INTERVAL = env.milliseconds("COUNT_INTERVAL", 15_000)

# --- Django ----------------------------------------------------------------------------------

ROOT_URLCONF = "botpool.urls"
WSGI_APPLICATION = "botpool.wsgi.application"
INSTALLED_APPS = [
    "botpool",
    "dashboard",
    "slots",
    "queues",
    "bots",
    "servers",
    "coolify",
    "core.administration.app.StrictAdminConfig",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django_htmx",
    "django_q",
    "ninja",  # templates and scripts of /api/v1/docs
]
MIDDLEWARE = [
    "botpool.middleware.CorrelationMiddleware",
    "api.problems.ProblemMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "botpool.middleware.ProbeMiddleware",
    "botpool.middleware.NulMiddleware",
    "botpool.middleware.CharsetMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "dashboard.policy.ContentPolicyMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator"},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
    {"NAME": "django.contrib.auth.password_validation.NumericPasswordValidator"},
]
LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = "login"

USE_TZ = True
TIME_ZONE = "UTC"
USE_I18N = False
LANGUAGE_CODE = "en"
FORMAT_MODULE_PATH = "botpool.formats"

STATIC_URL = "static/"
STATIC_ROOT = DATA_DIR / "static"
with suppress(OSError):  # WhiteNoise warns if it is missing; a read-only disk is fine
    STATIC_ROOT.mkdir(parents=True, exist_ok=True)
STATICFILES_DIRS = [BASE_DIR / "static"]
WHITENOISE_USE_FINDERS = True  # starts without collectstatic
DATA_UPLOAD_MAX_MEMORY_SIZE = 1_000_000

# --- Logs ------------------------------------------------------------------------------------

LOG_FORMAT = env.choice("LOG_FORMAT", "text", ("text", "json"))
LOG_LEVEL = env.choice("LOG_LEVEL", "INFO", ("DEBUG", "INFO", "WARNING", "ERROR"))
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "text": {"()": "core.logs.TextFormatter"},
        "json": {"()": "core.logs.JsonFormatter"},
    },
    "filters": {
        "without_traceback": {"()": "core.logs.WithoutTraceback"},
        "refusals_as_warnings": {"()": "core.logs.RefusalsAsWarnings"},
    },
    "handlers": {
        "console": {
            "class": "logging.StreamHandler",
            "formatter": LOG_FORMAT,
            "filters": ["without_traceback", "refusals_as_warnings"],
        }
    },
    "root": {"handlers": ["console"], "level": "WARNING"},
    "loggers": {
        # Internet scanners: botpool.unknown_hosts writes a line now and then.
        "django.security.DisallowedHost": {"level": "CRITICAL"},
    }
    | {
        name: {"handlers": ["console"], "level": LOG_LEVEL, "propagate": False}
        for name in (
            "api",
            "botpool",
            "bots",
            "coolify",
            "core",
            "dashboard",
            "pool",
            "queues",
            "servers",
            "slots",
        )
    },
}
