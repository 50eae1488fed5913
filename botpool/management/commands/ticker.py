import signal
from typing import Any

from django.core.management.base import BaseCommand

from core.jobs.ticker import Ticker


class Command(BaseCommand):
    help = (
        "Ask the workers for periodic work when it is due. Run as many as you like: one leads, and "
        "another takes over within five seconds if it ends or freezes."
    )
    requires_system_checks: list[str] = []  # they would load all pages, at each start

    def handle(self, *args: Any, **options: Any) -> None:
        ticker = Ticker()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: ticker.stopping.set())
        ticker.run()
