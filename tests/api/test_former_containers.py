"""A container of an earlier assignment, whose bot was placed again in the same slot."""

from bots.models import Bot
from bots.status import FailureCause
from pool.lifecycle import confirm_slot_stopped, handle_slot_error
from slots.models import Slot
from tests.api.conftest import Assigned


def test_a_bot_placed_again_in_the_same_slot_does_not_hear_its_former_container(slot):
    former = Assigned(runs=False)
    handle_slot_error(
        former.slot, "Pull failed", cause=FailureCause.CONTAINER_FAILED, actor="test", recreate=True
    )
    confirm_slot_stopped(Slot.objects.get(), reason="Container gone", actor="test")
    now = Assigned(bot=Bot.objects.get(), runs=False)
    assert now.slot.pk == former.slot.pk
    assert former.heartbeat().json() == {"shouldLeave": True}
    assert Bot.objects.get().last_heartbeat_at is None
    assert Slot.objects.get().status == "deploying"
