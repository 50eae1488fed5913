from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand
from django.template.defaultfilters import pluralize

from coolify.shared import shared_coolify
from pool.controller.descriptions import slots_with_another_description, sync_descriptions
from slots.description import wanted_description

AT_ONCE = timedelta()


class Command(BaseCommand):
    help = "Write the slots' states into Coolify's own list, where it shows something else."

    def handle(self, *args: Any, **options: Any) -> None:
        waiting = slots_with_another_description(settled_for=AT_ONCE)
        self._say("Found", f"{len(waiting)} slot{pluralize(waiting)} whose description differs")
        written = sync_descriptions(shared_coolify(), settled_for=AT_ONCE)
        for slot in written:
            self._say("Written", f"{slot}: {wanted_description(slot)}")
        left = [slot for slot in waiting if slot.pk not in {each.pk for each in written}]
        for slot in left:
            self._say("Left", f"{slot}: Coolify could not be asked; the next pass tries again")
        self._say("Done", f"{len(written)} written, {len(left)} left")

    def _say(self, what: str, text: str) -> None:
        self.stdout.write(f"{what:9}{text}")
