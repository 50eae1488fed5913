"""Whatever the order of steps, the queue behaves like a simple model of it, a sorted list."""

from datetime import timedelta

import pytest
from django.conf import settings as django_settings
from django.db import connection
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from hypothesis.stateful import run_state_machine_as_test as run_machine

from bots.moves import Outcome
from bots.status import BotStatus, FailureCause, Platform
from pool.lifecycle import end_bot, get_slot_for_bot, handle_slot_error
from pool.line import change_priority
from pool.steering import pause_platform, resume_platform
from pool.sweep import sweep_queue
from pool.waiting.position import places_in_line
from queues.models import QueueEntry
from slots.models import Slot
from tests.invariants import broken_rules
from tests.queued import ask, leave, line, status_of, time_passes

MEET, ZOOM = Platform.GOOGLE_MEET, Platform.ZOOM
PLATFORMS = (MEET, ZOOM)
SIZE = 2
CANCELLED = Outcome(BotStatus.CANCELLED, "Not needed", "client")
WHY = {"reason": "Test", "actor": "test"}


class Model:
    """One platform: its waiting bots, its served bots and its broken slots."""

    def __init__(self):
        self.waiting = {}  # bot: its turn
        self.served = []
        self.broken = 0
        self.paused = False

    def order(self):
        return sorted(self.waiting, key=lambda bot: (self.waiting[bot], bot.pk))

    def drain(self):
        while not self.paused and self.waiting and len(self.served) + self.broken < SIZE:
            head = self.order()[0]
            del self.waiting[head]
            self.served.append(head)


class QueueMachine(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        with connection.cursor() as cursor:
            cursor.execute("TRUNCATE bots_bot, slots_slot, slots_pool CASCADE")
            cursor.execute("TRUNCATE bots_botevent, slots_slottransition")
        self.models = {platform: Model() for platform in PLATFORMS}

    def turn(self, bot):
        return bot.created_at + bot.priority * django_settings.QUEUE_AGEING

    @rule(platform=st.sampled_from(PLATFORMS), priority=st.sampled_from((0, 50, 100, 100, 1000)))
    def a_bot_is_requested(self, platform, priority):
        bot = ask(platform, priority=priority)
        model = self.models[platform]
        model.waiting[bot] = self.turn(bot)
        model.drain()

    def waiter(self, data):
        waiting = [bot for model in self.models.values() for bot in model.order()]
        return data.draw(st.sampled_from(waiting)) if waiting else None

    def holder(self, data):
        served = [bot for model in self.models.values() for bot in model.served]
        return data.draw(st.sampled_from(served)) if served else None

    @rule(data=st.data())
    def a_bot_leaves_its_slot(self, data):
        if bot := self.holder(data):
            leave(bot)
            self.models[bot.platform].served.remove(bot)
            self.models[bot.platform].drain()

    @rule(data=st.data())
    def a_waiter_is_cancelled(self, data):
        if bot := self.waiter(data):
            assert end_bot(bot, CANCELLED)
            del self.models[bot.platform].waiting[bot]

    @rule(data=st.data(), expired=st.booleans())
    def a_waiter_waits_for_a_while(self, data, expired):
        if bot := self.waiter(data):
            time_passes(bot, seconds=300 if expired else 40)
            self.models[bot.platform].waiting[bot] = self.turn(bot)
            if expired:
                assert sweep_queue().expired == [bot.pk]
                del self.models[bot.platform].waiting[bot]
            else:
                entry = QueueEntry.objects.get(bot=bot)
                entry.timeout_at += timedelta(seconds=40)
                entry.save(update_fields=["timeout_at"])

    @rule(data=st.data(), priority=st.integers(0, 1000))
    def a_waiters_priority_changes(self, data, priority):
        if bot := self.waiter(data):
            assert change_priority(bot, priority, **WHY)
            bot.refresh_from_db()
            self.models[bot.platform].waiting[bot] = self.turn(bot)

    @rule(data=st.data())
    def a_slot_breaks_before_its_bot_ran(self, data):
        bot = self.holder(data)
        if bot is None:
            return
        model = self.models[bot.platform]
        bot.refresh_from_db()
        again = bot.placements < django_settings.MAX_PLACEMENTS
        handle_slot_error(
            get_slot_for_bot(bot), "Pull failed", cause=FailureCause.CONTAINER_FAILED, actor="test"
        )
        model.served.remove(bot)
        model.broken += 1
        if again:
            model.waiting[bot] = self.turn(bot)
        model.drain()

    @rule(platform=st.sampled_from(PLATFORMS))
    def an_operator_removes_the_broken_slots(self, platform):
        Slot.objects.filter(platform=platform, status="error").delete()
        self.models[platform].broken = 0
        sweep_queue()
        self.models[platform].drain()

    @precondition(lambda self: not self.models[MEET].paused)
    @rule()
    def a_platform_is_paused(self):
        pause_platform(MEET, **WHY)
        self.models[MEET].paused = True

    @precondition(lambda self: self.models[MEET].paused)
    @rule()
    def a_platform_is_resumed(self):
        assert resume_platform(MEET, **WHY)
        self.models[MEET].paused = False
        self.models[MEET].drain()

    @invariant()
    def the_line_matches_the_model(self):
        for platform, model in self.models.items():
            assert line(platform) == model.order()
            assert list(places_in_line(platform)) == [bot.pk for bot in model.order()]

    @invariant()
    def the_served_bots_match_the_model(self):
        for platform, model in self.models.items():
            held = Slot.objects.filter(platform=platform, assigned_bot__isnull=False)
            assert set(held.values_list("assigned_bot_id", flat=True)) == {
                bot.pk for bot in model.served
            }
            assert {status_of(bot) for bot in model.served} <= {"DEPLOYING"}

    @invariant()
    def no_rule_of_the_pool_is_broken(self):
        assert broken_rules() == []


@pytest.mark.django_db(transaction=True)
def test_the_queue_behaves_like_its_model(settings):
    settings.MAX_POOL_SIZES = {MEET: SIZE, ZOOM: SIZE, Platform.TEAMS: 0}
    run_machine(QueueMachine, settings=_machine_settings())


def _machine_settings():
    return settings(
        max_examples=8,
        stateful_step_count=25,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.explicit, Phase.generate],
    )
