import json
from datetime import datetime
from typing import Any

from django.core.management.base import BaseCommand, CommandParser
from django.core.serializers.json import DjangoJSONEncoder

from core.clock import database_now
from pool.summary import pool_status
from slots.status import SlotStatus


class Command(BaseCommand):
    help = "Show slots by platform and status, the queue, deployments, leases and open findings."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", help="print JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        status = pool_status()
        if options["json"]:
            self.stdout.write(json.dumps(status, indent=2, cls=DjangoJSONEncoder))
            return
        self.now = database_now()
        self._print_slots(status["slots"], status["queue"], status["pools"])
        self._print_list("Deployments", [self._deployment(each) for each in status["deployments"]])
        self._print_list("Leases", [self._lease(each) for each in status["leases"]])
        self._print_contention(status["contention"])
        self._print_list("Findings", [self._finding(each) for each in status["findings"]])
        self._print_coolify(status["coolify"])

    def _print_slots(
        self, slots: dict[str, Any], queue: dict[str, Any], pools: dict[str, Any]
    ) -> None:
        columns = [*SlotStatus.values, "maximum", "waiting"]
        self.stdout.write("".join([f"{'':14}", *(f"{name:>11}" for name in columns)]))
        for platform, counts in slots.items():
            pool = pools[platform]
            numbers = [*counts.values(), pool["maximum"], queue[platform]["waiting"]]
            row = "".join([f"{platform:14}", *(f"{n:>11}" for n in numbers)])
            self.stdout.write(row + self._remarks(pool))

    def _remarks(self, pool: dict[str, Any]) -> str:
        paused = f"  paused: {pool['pauseReason']}" if pool["paused"] else ""
        return paused + (f"  {pool['cordoned']} cordoned" if pool["cordoned"] else "")

    def _print_list(self, title: str, lines: list[str]) -> None:
        self.stdout.write(f"\n{title}: {len(lines) or 'none'}")
        for line in lines:
            self.stdout.write(f"  {line}")

    def _deployment(self, each: dict[str, Any]) -> str:
        leader = ", pulls the image" if each["leader"] else ""
        state = f"{each['status']} for {self._ago(each['since'])}{leader}"
        return f"{each['slot']}  Bot #{each['bot']}  {state}  {each['reason']}"

    def _lease(self, each: dict[str, Any]) -> str:
        return f"{each['key']}  {each['holder']}  for {self._ago(each['since'])}"

    def _finding(self, each: dict[str, Any]) -> str:
        finding = f"{each['subject']}  {each['reason']}  for {self._ago(each['since'])}"
        return f"{finding}  → {each['decision']}"

    def _print_contention(self, counts: dict[str, Any]) -> None:
        half = counts["waitP50Seconds"]
        took = f" (half of them for at most {half:g} s)" if half is not None else ""
        waits = f"{counts['waits']} waits{took}, {counts['refusals']} refusals"
        self.stdout.write(f"  Total: {waits}, {counts['takeovers']} takeovers")

    def _print_coolify(self, coolify: dict[str, Any]) -> None:
        if coolify["failingSince"]:
            since = self._ago(coolify["failingSince"])
            self.stdout.write(f"\nCoolify: has not answered for {since}: {coolify['error']}")
        elif coolify["lookedAt"]:
            self.stdout.write(f"\nCoolify: last observed {self._ago(coolify['lookedAt'])} ago")
        else:
            self.stdout.write("\nCoolify: not observed yet")

    def _ago(self, moment: datetime) -> str:
        seconds = max(0, int((self.now - moment).total_seconds()))
        if seconds < 120:
            return f"{seconds} s"
        return f"{seconds // 60} min" if seconds < 7200 else f"{seconds // 3600} h"
