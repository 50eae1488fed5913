from typing import Any

from django.core.management.base import BaseCommand
from django.template.defaultfilters import pluralize

from coolify.shared import shared_coolify
from pool.controller.descriptions import slots_with_another_description, sync_descriptions
from slots.description import wanted_description


class Command(BaseCommand):
    help = "Update the slots' descriptions in Coolify where they are out of date."

    def handle(self, *args: Any, **options: Any) -> None:
        waiting = slots_with_another_description()
        self._print("Found", f"{len(waiting)} slot{pluralize(waiting)} whose description differs")
        written = sync_descriptions(shared_coolify())
        for slot in written:
            self._print("Written", f"{slot}: {wanted_description(slot)}")
        left = [slot for slot in waiting if slot.pk not in {each.pk for each in written}]
        for slot in left:
            self._print("Left", f"{slot}: Coolify could not be updated; the next pass tries again")
        self._print("Done", f"{len(written)} written, {len(left)} left")

    def _print(self, what: str, text: str) -> None:
        self.stdout.write(f"{what:9}{text}")
