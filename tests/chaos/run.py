"""One run: start a fleet, its clients and the havoc, let it settle, then check the evidence."""

import random
import shutil
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tests.chaos.blows import BLOWS, draw_blows
from tests.chaos.checker import KINDS, by_kind
from tests.chaos.clients import Clients, draw_wishes
from tests.chaos.evidence import Evidence, collect
from tests.chaos.fleet import Fleet, running_fleet
from tests.chaos.havoc import Havoc
from tests.chaos.mirror import Mirror
from tests.chaos.operator import Operator
from tests.chaos.report import figures
from tests.chaos.settling import broken_rules, settle
from tests.processes import new_data_dir

BOTS_PER_SECOND = 0.7  # more than the pool can serve
SECONDS_BETWEEN_BLOWS = 1.5
SECONDS_BETWEEN_RELEASES = 12.0


@dataclass
class Outcome:
    violations: list[str]
    figures: dict[str, Any]
    log: list[str] = field(default_factory=list)


def run(*, seed: int, seconds: float, keep_logs_in: Path | None = None) -> Outcome:
    with new_data_dir() as directory, running_fleet(directory, seed=seed) as fleet:
        try:
            return _run(fleet, seed=seed, seconds=seconds)
        finally:
            if keep_logs_in is not None:
                _keep_logs(directory, keep_logs_in)


def _keep_logs(directory: Path, where: Path) -> None:
    shutil.copytree(directory / "logs", where, dirs_exist_ok=True)
    for log in directory.glob("**/server.log"):
        shutil.copy(log, where / f"{log.relative_to(directory).parts[0]}.log")


def _run(fleet: Fleet, *, seed: int, seconds: float) -> Outcome:
    dice = random.Random(seed)
    receivers = {name: each.url for name, each in fleet.receivers.items()}
    clients, havoc, mirror = Clients(fleet.url, fleet.keys, receivers), Havoc(fleet), Mirror(fleet)
    wishes = draw_wishes(dice, seconds=seconds, per_second=BOTS_PER_SECOND)
    blows = draw_blows(dice, seconds=seconds, every=SECONDS_BETWEEN_BLOWS)
    count = int(seconds / SECONDS_BETWEEN_RELEASES)
    releases = [(dice.uniform(0, seconds), dice.randrange(1000)) for _ in range(count)]
    operator = Operator(fleet, clients, havoc)
    mirror.watch()
    operator.watch()
    try:
        wait_for_clients = clients.fulfil(wishes, releases=releases)
        havoc.strike(blows, BLOWS)
        havoc.make_good()
        wait_for_clients()
        took, stuck = settle(fleet, clients, havoc, mirror)
    finally:
        operator.stop()
        mirror.stop()
    evidence = replace(collect(fleet, clients, havoc), mirror=mirror.longest)
    found = [("stuck", each) for each in stuck] + by_kind(evidence)
    found += [("other", each) for each in (*broken_rules(fleet), *_surprises(fleet))]
    counts = {kind: sum(each == kind for each, _ in found) for kind in KINDS}
    figures_found = {**_figures(fleet, evidence, took), "violations by kind": counts}
    return Outcome([text for _, text in found], figures_found, sorted(havoc.log))


def _surprises(fleet: Fleet) -> list[str]:
    """Writes that the database refused: the code's own checks should have stopped them before."""
    return [f"logged: {line}" for line in fleet.logged("IntegrityError", "deadlock detected")]


def _figures(fleet: Fleet, evidence: Evidence, took: float) -> dict[str, Any]:
    calls = fleet.control.requests()["total"]
    restarts = fleet.keeper.restarts
    found = figures(evidence, settled_after=took, restarts=restarts, calls=calls)
    return {**found, "clock of the second node, s": f"{fleet.skew:+d}"}
