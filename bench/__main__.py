"""`python -m bench [NAME …]`: run the benchmarks next to their references and print a table."""

import importlib
import os
import sys
import tempfile
import time
import traceback
from pathlib import Path

from bench.machine import described
from bench.table import Row, as_markdown, as_text

# In this order; each has `run() -> list[Row]`.
NAMES = (
    "acquire",
    "reaction",
    "failed_start",
    "on_the_hour",
    "coolify_calls",
    "observation",
    "queue_drain",
    "queue_freed",
    "queue_estimate",
    "fairness",
    "api_post",
    "api_lists",
    "retention",
    "pages",
    "slow_clients",
)


# The page that BENCH_MARKDOWN=docs/benchmarks.md writes.
PAGE = """# Benchmarks

For: contributors who change something that should stay fast, and administrators.

The last run of {what}. Each figure is a ratio against a reference that ran beside it,
or a number of calls, because the times of one machine say little about another.

{machine}

{table}
"""


def main(names: list[str]) -> int:
    unknown = sorted(set(names) - set(NAMES))
    if unknown:
        print(f"No such benchmark: {', '.join(unknown)}. Choose from {', '.join(NAMES)}.")
        return 1
    # PostgreSQL's watchdog may still use its lock files while the directory is removed.
    with tempfile.TemporaryDirectory(
        prefix="botpool-bench-", ignore_cleanup_errors=True
    ) as directory:
        Path(directory).chmod(0o755)
        machine, rows = _run(names or list(NAMES), data_dir=Path(directory))
    print()
    print(as_text(rows))
    print(f"\n{machine}")
    if markdown := os.environ.get("BENCH_MARKDOWN"):
        what = f'`make bench ARGS="{" ".join(names)}"`' if names else "the whole `make bench`"
        table = as_markdown(rows)
        Path(markdown).write_text(PAGE.format(what=what, machine=machine, table=table))
    return 0


def _run(names: list[str], *, data_dir: Path) -> tuple[str, list[Row]]:
    """Run all benchmarks on one embedded PostgreSQL with the product's parameters."""
    os.environ.pop("DATABASE_URL", None)
    os.environ["BOTPOOL_DATA_DIR"] = str(data_dir)
    os.environ["LOG_LEVEL"] = "ERROR"
    os.environ["MAX_POOL_SIZE"] = "10000"
    os.environ["DJANGO_SETTINGS_MODULE"] = "botpool.settings"
    from botpool.runtime.postgres import server as postgres

    with postgres.running(data_dir):
        import django
        from django.core.management import call_command
        from django.db import connections

        django.setup()
        call_command("migrate", verbosity=0)
        try:
            machine = described()
            return machine, [row for name in names for row in _run_one(name)]
        finally:
            connections.close_all()


def _run_one(name: str) -> list[Row]:
    """Report an exception as a row of the table: the other benchmarks must still run."""
    print(f"{time.strftime('%T')} {name} …", file=sys.stderr, flush=True)
    try:
        rows: list[Row] = importlib.import_module(f"bench.{name}").run()
    except Exception as error:
        traceback.print_exc()
        what = f"{type(error).__name__}: {error}"
        rows = [Row(figure=name, value="failed", reference=what[:100], met=False)]
    print(as_text(rows), file=sys.stderr, flush=True)
    return rows


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
