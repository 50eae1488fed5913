"""After the chaos: everything works again, so everything has to come to its end by itself."""

import subprocess
import sys
import time

from tests.chaos.clients import Clients
from tests.chaos.evidence import collect
from tests.chaos.fleet import Fleet, manage
from tests.chaos.havoc import Havoc
from tests.processes import ROOT

PATIENCE = 120.0
# A pass that would touch too many held slots touches none, and tells the operator, who looks.
OPERATOR_LOOKS_EVERY = 10.0
_TOLD = "SELECT id FROM slots_finding WHERE kind = 'too_many' AND ended_at IS NULL"

# What is still under way, in words; nothing of it may be there when all is quiet.
_UNREST = """
SELECT 'bot ' || id || ' is ' || status || ' since ' || status_since FROM bots_bot
    WHERE status NOT IN ('DONE', 'FAILED', 'CANCELLED')
UNION ALL
SELECT name || ' is ' || status || ' since ' || status_since || ' ' || error FROM slots_slot
    WHERE status <> 'idle'
UNION ALL
SELECT 'deployment ' || id || ' of ' || slot_name || ' is ' || status || ': ' || reason
    FROM slots_deployment WHERE ended_at IS NULL OR pulling
UNION ALL
SELECT 'bot ' || bot_id || ' stands in line' FROM queues_queueentry
"""


def settle(fleet: Fleet, clients: Clients, havoc: Havoc) -> tuple[float, list[str]]:
    """How long it took until all was quiet, and what is not quiet although it had its time."""
    begin = looked = time.monotonic()
    while True:
        _cancel_those_who_hang(clients)
        if time.monotonic() - looked > OPERATOR_LOOKS_EVERY:
            looked = time.monotonic()
            _let_the_operator_look(fleet, clients)
        unrest = [*_unrest(fleet), *_containers_left(fleet, clients, havoc)]
        took = time.monotonic() - begin
        if not unrest or took > PATIENCE:
            return took, [f"stuck: {each}" for each in unrest]
        time.sleep(0.5)


def broken_rules(fleet: Fleet) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.chaos.rules"],
        cwd=ROOT,
        env=fleet.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return [*done.stdout.splitlines(), *(done.stderr.splitlines() if done.returncode else [])]


def _cancel_those_who_hang(clients: Clients) -> None:
    """They stay for ever, and their client had no chance to cancel them before."""
    for accepted in list(clients.accepted):
        hangs = accepted.wish.simulate["plan"] == "hang"
        if hangs and accepted.bot_id not in clients.cancelled:
            clients.cancel(accepted.bot_id)


def _let_the_operator_look(fleet: Fleet, clients: Clients) -> None:
    if fleet.ask(_TOLD):
        clients.operator_allowed_many += 1
        manage("reconcile", "--allow-many", env=fleet.environment)


def _unrest(fleet: Fleet) -> list[str]:
    return [row[0] for row in fleet.ask(_UNREST)]


def _containers_left(fleet: Fleet, clients: Clients, havoc: Havoc) -> list[str]:
    left = fleet.control.state()["containers"]
    if not left:
        return []
    survivors = collect(fleet, clients, havoc).survivors()
    return [
        f"container {each['id']} of bot {each['bot_id']} runs in {each['application_uuid']}"
        for each in left
        if each["id"] not in survivors
    ]
