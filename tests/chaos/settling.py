"""After the chaos everything works again: all bots must end and all slots become idle."""

import subprocess
import sys
import time

from tests.chaos.clients import Clients
from tests.chaos.evidence import collect
from tests.chaos.fleet import Fleet, manage
from tests.chaos.havoc import Havoc
from tests.chaos.mirror import Mirror
from tests.processes import ROOT

PATIENCE = 120.0
# The reconciler stops a mass repair and waits for an operator, who checks this often. Only now: in
# the midst of the chaos, no operator could tell which bots are dead.
OPERATOR_CHECKS_EVERY = 10.0
_MASS_REPAIR_STOPPED = "SELECT id FROM slots_finding WHERE kind = 'too_many' AND ended_at IS NULL"

# Everything that has not settled yet, in words.
_UNSETTLED = """
SELECT 'bot ' || id || ' has been ' || status || ' since ' || status_since FROM bots_bot
    WHERE status NOT IN ('DONE', 'FAILED', 'CANCELLED')
UNION ALL
SELECT concat(name, ' has been ', status, ' since ', status_since, ' ', error, ' (', (
        SELECT string_agg(key || ' ' || value, ', ') FROM jsonb_each_text(to_jsonb(slots_slot))
        WHERE key IN ('container_status', 'application_state', 'application_missing',
            'server_unreachable', 'stop_asked_at', 'stop_attempts', 'stop_refused_at',
            'late_call_at', 'docker_asked_at', 'next_try_at', 'recreate')
    ), ', observed at ', (SELECT max(observed_at) FROM slots_watch), ', now ', now(), ')')
    FROM slots_slot WHERE status <> 'idle'
UNION ALL
SELECT 'deployment ' || id || ' of ' || slot_name || ' is ' || status || ': ' || reason
    FROM slots_deployment WHERE ended_at IS NULL OR pulling
UNION ALL
SELECT 'bot ' || bot_id || ' is still in the queue' FROM queues_queueentry
UNION ALL
SELECT 'the webhook about event ' || delivery.event_id || ' is due at ' || delivery.due_at
    FROM bots_webhookdelivery AS delivery JOIN bots_webhook AS webhook
    ON webhook.id = delivery.webhook_id
    WHERE right(webhook.url, 7) = '/steady' AND delivery.due_at IS NOT NULL
"""


def settle(fleet: Fleet, clients: Clients, havoc: Havoc, mirror: Mirror) -> tuple[float, list[str]]:
    """Wait until everything has settled; return the seconds it took and what is stuck."""
    begin = checked = time.monotonic()
    while True:
        _cancel_hanging_bots(clients)
        if time.monotonic() - checked > OPERATOR_CHECKS_EVERY:
            checked = time.monotonic()
            _allow_mass_repair(fleet, clients)
        unsettled = [
            *_unsettled(fleet),
            *_containers_left(fleet, clients, havoc),
            *map(str, mirror.wrong_now()),
        ]
        took = time.monotonic() - begin
        if not unsettled or took > PATIENCE:
            return took, [f"stuck: {each}" for each in unsettled]
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


def _cancel_hanging_bots(clients: Clients) -> None:
    """A hanging bot never ends, and its client may not have had a chance to cancel it."""
    for accepted in list(clients.accepted):
        hangs = accepted.wish.simulate["plan"] == "hang"
        if hangs and accepted.bot_id not in clients.cancelled:
            clients.cancel(accepted.bot_id, by=accepted.wish.client)


def _allow_mass_repair(fleet: Fleet, clients: Clients) -> None:
    if fleet.ask(_MASS_REPAIR_STOPPED):
        clients.operator_allowed_many += 1
        manage("reconcile", "--allow-many", env=fleet.environment)


def _unsettled(fleet: Fleet) -> list[str]:
    return [row[0] for row in fleet.ask(_UNSETTLED)]


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
