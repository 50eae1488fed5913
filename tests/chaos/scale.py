"""Coolify at 60 times its speed, and Botpool's times to match: a minute is an hour of operation.

Heartbeats are the exception: the simulator sends at most one a second.
"""

SPEED = 60.0
PLATFORMS = ("google-meet", "teams", "zoom")
SERVERS = ("chaos-server-1", "chaos-server-2", "chaos-server-3")
POOL_SIZE = 4
HEARTBEAT_TIMEOUT = 15.0
# Longer than every lease: slots 2 s, ticker 3 s, reconciler 10 s.
LONGER_THAN_EVERY_LEASE = 12.0
QUEUE_AGEING = 0.05  # the seconds of waiting that one step of priority is worth

# How long each call to Coolify takes, in seconds.
SHORTEST_CALL = 0.1
LONGEST_CALL = 2.0

TIMES = {
    "COOLIFY_PROBE_PAUSE": 500,
    "POLL_INTERVAL": 1_000,
    "OBSERVE_SOONEST": 200,
    "WATCH_INTERVAL": 300,
    "DEPLOY_POLL_INTERVAL": 1_000,
    "DEPLOY_GRACE_PERIOD": 6_000,
    "DEPLOY_TIMEOUT": 25_000,
    "DEPLOY_STUCK_AFTER": 30_000,
    "STATUS_SETTLES_AFTER": 500,
    "STOP_CONFIRM_AFTER": 2_500,
    "STOP_RETRY_AFTER": 1_500,
    "STOP_STUCK_AFTER": 30_000,
    "HEARTBEAT_TIMEOUT": int(HEARTBEAT_TIMEOUT * 1000),
    "HEARING_GAP": 6_000,
    "RECONCILE_INTERVAL": 1_000,
    "RECONCILE_LOCK_TTL": 1_000,
    "CONTAINER_EVIDENCE": 2_500,
    "PENDING_LOST_AFTER": 2_000,
    "RECOVERY_PAUSE": 500,
    "ORPHAN_KEPT_FOR": 60_000,
    "DESCRIPTION_SETTLED_AFTER": 2_000,
    "SERVER_INTERVAL": 2_000,
    "SERVER_LOST_AFTER": 2_000,
    "SAMPLE_INTERVAL": 5_000,
    "LOCK_TTL": 2_000,
    "IDLE_TRANSACTION_LIMIT": 3_000,
    "WORKER_HEARTBEAT_INTERVAL": 1_000,
    "WORKER_SILENCE_LIMIT": 12_000,
    "QUEUE_AGEING": int(QUEUE_AGEING * 1000),
    "DEFAULT_QUEUE_TIMEOUT": 60_000,
    "IMAGE_WARM_FOR": 20_000,
}

# --- What the checker holds Botpool to, in seconds ---------------------------------------------

# How late a deadline may be enforced: both nodes, PostgreSQL or Coolify may be away meanwhile.
SLACK = 30.0
RESTART = 5.0  # until a process that was killed works again
MOMENT = 3.0  # a shorter outage delays nothing by more than SLACK
LAST_RECOVERY_PAUSE = 32.0  # of four, each four times as long
LONGEST_SERVER_OUTAGE = 16.0
# A description that was not written is tried again after 5 s, then after a quarter of its age, up
# to a minute. Several tries may fail.
MIRROR = 90.0
# How long a bot may wait beside an idle slot.
UNUSED = 20.0


def seconds(name: str) -> float:
    return TIMES[name] / 1000


def environment() -> dict[str, str]:
    return {
        **{name: str(value) for name, value in TIMES.items()},
        "MAX_POOL_SIZE": str(POOL_SIZE),
        "RECOVERY_ATTEMPTS": "4",
        "COOLIFY_RATE_LIMIT": "20000",
        "API_RATE_LIMIT": "0",
        "WORKERS": "6",
        "WEBHOOK_ALLOW_PRIVATE": "true",
        "LOG_LEVEL": "INFO",
        "PYTHONUNBUFFERED": "1",
    }
