"""healthy.py web|worker|ticker: exit 0 if this process works. Fast, because it needs no Django."""

import os
import sys
import urllib.request
from urllib.parse import urlsplit

TIMEOUT = 5


def web() -> bool:
    port = os.environ.get("WEB_BIND", ":8000").rpartition(":")[2]
    host = urlsplit(os.environ.get("BOTPOOL_PUBLIC_URL", "")).hostname or "localhost"
    url = f"http://127.0.0.1:{port}/healthz"
    request = urllib.request.Request(url, headers={"Host": host})
    with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:  # noqa: S310
        return bool(answer.status == 200)


def worker() -> bool:
    """Any worker has run the heartbeat. A frozen worker is replaced by its own watchdog."""
    return _younger_than_a_minute(
        "SELECT finished_at FROM slots_lease WHERE key = 'worker heartbeat'"
    )


def ticker() -> bool:
    """Any ticker leads."""
    return _younger_than_a_minute(
        "SELECT expires_at FROM slots_lease WHERE key = 'ticker' AND holder <> ''"
    )


def _younger_than_a_minute(moment: str) -> bool:
    import psycopg

    url = os.environ["DATABASE_URL"]
    sql = f"SELECT ({moment}) > clock_timestamp() - interval '1 minute'"
    with psycopg.connect(url, connect_timeout=TIMEOUT, autocommit=True) as connection:
        row = connection.execute(sql).fetchone()
    return bool(row and row[0])


def main(arguments: list[str]) -> int:
    checks = {"web": web, "worker": worker, "ticker": ticker}
    if len(arguments) != 1 or arguments[0] not in checks:
        print(f"usage: healthy.py {'|'.join(checks)}", file=sys.stderr)  # noqa: T201
        return 64
    try:
        is_healthy = checks[arguments[0]]()
    except Exception as error:  # any error means unhealthy
        print(f"{arguments[0]}: {error}", file=sys.stderr)  # noqa: T201
        return 1
    return 0 if is_healthy else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
