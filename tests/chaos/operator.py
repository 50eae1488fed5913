"""An operator who checks in Coolify what was deleted, and approves the repairs that wait for it."""

import threading
from contextlib import suppress
from dataclasses import dataclass, field

import psycopg

from tests.chaos.clients import Clients
from tests.chaos.fleet import Fleet, manage
from tests.chaos.havoc import Havoc

EVERY = 5.0
# Coolify's list lacks so many applications that it is not believed.
_MISSED = """
SELECT id, evidence->>'application' FROM slots_finding
WHERE kind = 'application_gone' AND held_back <> '' AND ended_at IS NULL AND approved_at IS NULL
"""
# As the page "Repairs" does it.
_APPROVE = """
from pool.reconciler.approvals import approve_repair, held_back_repairs
for finding in held_back_repairs().filter(pk__in={numbers}):
    approve_repair(finding.pk, seen=finding.fingerprint, reason="chaos", actor="user:chaos")
"""


@dataclass
class Operator:
    fleet: Fleet
    clients: Clients
    havoc: Havoc
    done: threading.Event = field(default_factory=threading.Event)

    def watch(self) -> None:
        self.thread = threading.Thread(target=self._watch, name="operator")
        self.thread.start()

    def stop(self) -> None:
        self.done.set()
        self.thread.join()

    def _watch(self) -> None:
        while not self.done.wait(EVERY):
            # The database may be away.
            with suppress(psycopg.Error, AssertionError):
                self._approve_deletions()

    def _approve_deletions(self) -> None:
        missed = self.fleet.ask(_MISSED)
        deleted = [number for number, uuid in missed if uuid in self.havoc.deleted]
        if deleted:
            self.clients.operator_allowed_many += 1
            manage("shell", "-c", _APPROVE.format(numbers=deleted), env=self.fleet.environment)
