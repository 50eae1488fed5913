"""No order of steps breaks a rule, even if some come late or at the same moment."""

import random

import pytest
from django.conf import settings as django_settings
from django.db import connection
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from hypothesis.stateful import run_state_machine_as_test as run_machine

from bots.models import Bot
from bots.moves import Outcome, move_bot
from bots.status import BotStatus, FailureCause, Platform
from pool.assign import BotIsNotWaiting, assign_bot_to_slot
from pool.lifecycle import (
    MoveNotAllowed,
    confirm_slot_stopped,
    end_bot,
    handle_slot_error,
    mark_slot_running,
    recover_slot,
    release_bot_from_slot,
)
from queues.models import QueueEntry
from slots.models import Slot
from slots.status import SlotStatus
from tests.concurrency import at_once
from tests.factories import BotFactory
from tests.invariants import broken_rules

ENDS = [
    Outcome(BotStatus.DONE, "Meeting over", "bot"),
    Outcome(BotStatus.FAILED, "Kicked out", "bot", FailureCause.REPORTED_BY_BOT),
    Outcome(BotStatus.CANCELLED, "Not needed", "client"),
]


def assign(bot):
    return assign_bot_to_slot(bot, reason="Bot requested", actor="test")


# What can be done with a slot as it was read, now or long ago.
ACTS = {
    "run": lambda slot: mark_slot_running(slot, reason="Container runs", actor="test"),
    "release": lambda slot: release_bot_from_slot(slot, ENDS[0]),
    "cancel": lambda slot: release_bot_from_slot(slot, ENDS[2]),
    "stopped": lambda slot: confirm_slot_stopped(slot, reason="Container gone", actor="test"),
    "error": lambda slot: handle_slot_error(
        slot, "Container crashed", cause=FailureCause.CONTAINER_FAILED, actor="test"
    ),
    "recreate": lambda slot: handle_slot_error(
        slot, "Stuck", cause=FailureCause.CONTAINER_FAILED, actor="test", recreate=True
    ),
    "recover": lambda slot: recover_slot(slot, reason="Next try", actor="test"),
}


# What a step finds depends on which thread was faster before it, so hypothesis only draws seeds.
SEEDS = st.integers(0, 2**32)


def one_of(seed, things):
    return [random.Random(seed).choice(things)] if things else []


class Pool(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        with connection.cursor() as cursor:
            cursor.execute(
                "TRUNCATE bots_bot, bots_botevent, slots_slot, slots_slottransition,"
                " slots_deployment, queues_queueentry RESTART IDENTITY CASCADE"
            )
        self.seen: list[Slot] = []  # slots as they once were, for late writers

    def _act(self, act, slot):
        try:
            changed = ACTS[act](slot)
        except MoveNotAllowed:
            return
        assert isinstance(changed, bool)

    def _look(self):
        self.seen.extend(Slot.objects.all())

    @rule(platform=st.sampled_from([Platform.GOOGLE_MEET, Platform.ZOOM]))
    def request(self, platform):
        slot = assign(BotFactory(platform=platform))
        assert slot is None or slot.platform == platform
        self._look()

    @rule(act=st.sampled_from(sorted(ACTS)), seed=SEEDS)
    def act_on_a_fresh_reading(self, act, seed):
        for slot in one_of(seed, list(Slot.objects.order_by("id"))):
            self._act(act, slot)
        self._look()

    @rule(act=st.sampled_from(sorted(ACTS)), seed=SEEDS)
    def act_on_an_old_reading(self, act, seed):
        for slot in one_of(seed, self.seen):
            before = Slot.objects.get(pk=slot.pk)
            self._act(act, slot)
            after = Slot.objects.get(pk=slot.pk)
            if before.epoch != slot.epoch:
                assert (after.epoch, after.status) == (before.epoch, before.status)

    @rule(end=st.sampled_from(ENDS), seed=SEEDS)
    def end_some_bot(self, end, seed):
        for bot in one_of(seed, list(Bot.objects.order_by("id"))):
            try:
                end_bot(bot, end)
            except MoveNotAllowed:
                assert bot.status in (BotStatus.PENDING, BotStatus.QUEUED, BotStatus.DEPLOYING)

    @rule(to=st.sampled_from([BotStatus.IN_WAITING_ROOM, BotStatus.IN_CALL, BotStatus.LEAVING]))
    def report(self, to):
        for slot in Slot.objects.filter(status=SlotStatus.BUSY):
            move_bot(slot.assigned_bot_id, Outcome(to, "As reported", "bot"))

    @rule()
    def serve_the_line(self):
        for entry in QueueEntry.objects.select_related("bot").order_by("priority", "queued_at"):
            assign(entry.bot)
        self._look()

    @rule(seed=SEEDS, threads=st.integers(2, 6))
    def many_at_the_same_moment(self, seed, threads):
        if not self.seen:
            return
        pick = random.Random(seed)
        jobs = [self._any_job(pick) for _ in range(threads)]
        for result in at_once(jobs):
            expected = (BotIsNotWaiting, MoveNotAllowed)
            assert not isinstance(result, Exception) or isinstance(result, expected), result
        self._look()

    def _any_job(self, pick):
        slot, end = pick.choice(self.seen[-20:]), pick.choice(ENDS)
        act = pick.choice(sorted(ACTS))
        bot = pick.choice(list(Bot.objects.order_by("-id")[:5]))
        return pick.choice(
            [
                lambda: ACTS[act](slot),
                lambda: assign(bot),
                lambda: end_bot(bot, end),
                lambda: assign(BotFactory()),
            ]
        )

    @invariant()
    def no_rule_is_broken(self):
        assert broken_rules() == []


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_no_order_of_steps_breaks_a_rule(settings):
    settings.MAX_POOL_SIZES = {**django_settings.MAX_POOL_SIZES, "google-meet": 3, "zoom": 2}
    run_machine(Pool, settings=FULL)


FULL = settings(
    max_examples=15,
    stateful_step_count=40,
    deadline=None,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
