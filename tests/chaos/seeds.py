"""Many seeds, some at once: a line for each, and a table for docs/chaos.md."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from tests.chaos.checker import KINDS
from tests.processes import ROOT

COLUMNS = ("seed", "bots", "containers", "blows", "restarts", "settled, s", *KINDS)


def parse(text: str) -> list[int]:
    """`1-20` or `1,5,9` or both."""
    seeds: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        seeds += range(int(first), int(last or first) + 1)
    return seeds


def run_many(seeds: list[int], *, minutes: float, at_once: int, logs: Path | None) -> int:
    lanes: SimpleQueue[int] = SimpleQueue()
    for lane in range(at_once):
        lanes.put(lane)
    rows = []
    with tempfile.TemporaryDirectory() as home, ThreadPoolExecutor(at_once) as pool:
        runs = [
            pool.submit(_run, seed, minutes=minutes, lanes=lanes, home=Path(home), logs=logs)
            for seed in seeds
        ]
        for run in as_completed(runs):
            rows.append(run.result())
            print(_line(rows[-1]), flush=True)
            for violation in rows[-1]["violations"]:
                print(f"  - {violation}", flush=True)
    print("", *table(rows), sep="\n")
    return int(any(row["violations"] for row in rows))


def _run(
    seed: int, *, minutes: float, lanes: "SimpleQueue[int]", home: Path, logs: Path | None
) -> dict[str, Any]:
    report = home / f"{seed}.json"
    words = ["--seed", str(seed), "--minutes", str(minutes), "--report", str(report)]
    words += ["--logs", str(logs / str(seed))] if logs else []
    lane = lanes.get()
    try:
        done = subprocess.run(
            [sys.executable, "-m", "tests.chaos", *words],
            cwd=ROOT,
            env={**os.environ, "PYTEST_XDIST_WORKER": f"gw{lane}"},  # ports of its own
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        lanes.put(lane)
    if not report.exists():
        last = (done.stderr or done.stdout).strip().splitlines()[-1:]
        return {"seed": seed, "violations": [f"the run itself failed: {last}"]}
    return dict(json.loads(report.read_text()))


def _line(row: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in zip(COLUMNS, _values(row), strict=True))


def table(rows: list[dict[str, Any]]) -> Iterator[str]:
    yield f"| {' | '.join(COLUMNS)} |"
    yield f"| {' | '.join(['---'] * len(COLUMNS))} |"
    for row in sorted(rows, key=lambda row: int(row["seed"])):
        yield f"| {' | '.join(map(str, _values(row)))} |"
    added = [sum(column) for column in list(zip(*map(_values, rows), strict=True))[1:]]
    longest = max(row.get("settled after, s", 0) for row in rows)
    added[COLUMNS.index("settled, s") - 1] = longest
    yield f"| all {len(rows)} | {' | '.join(map(str, added))} |"


def _values(row: dict[str, Any]) -> list[Any]:
    return [
        row["seed"],
        row.get("bots", 0),
        row.get("containers", 0),
        sum(row.get("blows", {}).values()),
        row.get("processes restarted", 0),
        row.get("settled after, s", 0),
        *(row.get("violations by kind", {}).get(kind, 0) for kind in KINDS),
    ]
