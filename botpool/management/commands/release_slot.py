import difflib
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from botpool.management.actor import command_actor
from bots.moves import Outcome
from bots.status import BotStatus, FailureCause
from pool.lifecycle import recover_slot, release_bot_from_slot
from slots.models import Slot
from slots.status import HELD, SlotStatus


class Command(BaseCommand):
    help = "Force a slot to be released: fail its bot and stop its container."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("slot_name", metavar="SLOT_NAME", help="for example pool-zoom-001")
        parser.add_argument("--reason", required=True, help="shown in history and to the client")

    def handle(self, *args: Any, **options: Any) -> None:
        slot = _find(options["slot_name"])
        reason = options["reason"].strip()
        if not reason:
            raise CommandError("--reason must not be empty")
        if slot.status in HELD:
            self._release(slot, reason)
        elif slot.status == SlotStatus.ERROR:
            self._recover(slot, reason)
        else:
            self.stdout.write(f"{slot} is {slot.status} and holds no bot: nothing to release")

    def _release(self, slot: Slot, reason: str) -> None:
        why = f"Released by operator: {reason}"
        failed = Outcome(BotStatus.FAILED, why, command_actor(), FailureCause.OPERATOR)
        if not release_bot_from_slot(slot, failed):
            raise CommandError(f"{slot} changed meanwhile: nothing was done, check its status")
        self.stdout.write(
            f"{slot} was {slot.status} with Bot #{slot.assigned_bot_id}. The bot has failed, its "
            "container is stopping. The slot becomes idle once that is confirmed."
        )

    def _recover(self, slot: Slot, reason: str) -> None:
        why = f"Tried again by the operator: {reason}"
        if not recover_slot(slot, reason=why, actor=command_actor()):
            raise CommandError(f"{slot} changed meanwhile: nothing was done, check its status")
        self.stdout.write(f"{slot} was in error ({slot.error}): stopping it and trying again")


def _find(name: str) -> Slot:
    slot = Slot.objects.filter(name=name).first()
    if slot is not None:
        return slot
    names = list(Slot.objects.order_by("name").values_list("name", flat=True))
    close = difflib.get_close_matches(name, names, n=3)
    hint = f" Did you mean {', '.join(close)}?" if close else ""
    raise CommandError(f"There is no slot {name!r}.{hint}")
