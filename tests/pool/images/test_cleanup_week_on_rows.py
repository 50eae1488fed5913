"""Weeks of nightly clean-ups, decided by the real functions over rows, with the clock of the week.

The database's clock is replaced for this connection: a schema that comes before `pg_catalog` in
the search path has functions of the same names.
"""

import os
from datetime import datetime, timedelta

import pytest
from django.db import connection

from bots.models import Bot
from pool.controller.images import choose_leaders, let_warm_ones_through, note_coolify_end
from slots.deployment import Deployment
from slots.models import Slot
from tests.factories import BotFactory, SlotFactory
from tests.servers.week import MIDNIGHT, Week

CLOCK = """
CREATE SCHEMA clock;
CREATE FUNCTION clock.statement_timestamp() RETURNS timestamptz LANGUAGE sql STABLE
    AS $$ SELECT current_setting('clock.now')::timestamptz $$;
CREATE FUNCTION clock.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE
    AS $$ SELECT current_setting('clock.now')::timestamptz $$;
SET LOCAL search_path = clock, public, pg_catalog;
"""
IMAGE, SERVER = "bot:1.0", "server-1"
SEEDS = range(int(os.environ.get("BOTPOOL_WEEKS", "2")))


class WeekOnRows(Week):
    BY_DAY, AT_NIGHT, TOGETHER = (0, 1), (1, 2), 2

    def __init__(self, seed: int) -> None:
        super().__init__(seed, trusts=lambda now: now)
        self.slots: list[Slot] = []

    def at(self, now: float) -> datetime:
        moment = MIDNIGHT + timedelta(seconds=now)
        with connection.cursor() as cursor:
            cursor.execute("SELECT set_config('clock.now', %s, true)", [moment.isoformat()])
        return moment

    def request(self, now: float) -> None:
        self.at(now)
        bot = BotFactory.build(client=None, pk=None)
        Bot.objects.bulk_create([bot])
        slot = SlotFactory.build(status="deploying", assigned_bot=bot, image=IMAGE)
        Slot.objects.bulk_create([slot])
        start = Deployment(slot=slot, bot=bot, epoch=0, image=IMAGE, server_uuid=SERVER)
        Deployment.objects.bulk_create([start])
        self.line_up(now)

    def line_up(self, now: float) -> None:
        let_warm_ones_through()
        choose_leaders()
        going = Deployment.objects.filter(status="waiting_for_place")
        for start in list(going):
            Deployment.objects.filter(pk=start.pk).update(status="in_progress")
            checked_at = now + self.random.uniform(0, self.CHECKED_AFTER)
            self.later(checked_at, lambda when, start=start: self.pull(when, leads=start))

    def started(self, now: float, *, leads: Deployment, was_cold: bool) -> None:
        self.at(now)
        self.cold_pulls -= was_cold
        self.present = True
        self.containers += 1
        note_coolify_end(leads, "finished")
        slots = Slot.objects.filter(pk=leads.slot_id)
        slots.update(status="busy", previous_status="deploying")
        self.later(
            now + self.random.choice([60, 600, 3_000]), lambda when: self.left(when, leads.slot_id)
        )
        self.line_up(now)

    def left(self, now: float, slot_id: int) -> None:
        self.containers -= 1
        Slot.objects.filter(pk=slot_id).delete()


@pytest.fixture
def clock(db) -> None:
    with connection.cursor() as cursor:
        cursor.execute(CLOCK)


@pytest.mark.parametrize("seed", SEEDS)
def test_no_cold_pulls_overlap_in_a_week_with_nightly_clean_up(clock, settings, seed):
    settings.IMAGE_CLEANUP_TIMES = [timedelta()]
    assert WeekOnRows(seed).run() == 0


def test_without_the_times_of_the_clean_up_they_do(clock, settings):
    """The weeks can fail."""
    settings.IMAGE_CLEANUP_TIMES = []
    assert sum(WeekOnRows(seed).run() for seed in range(2)) > 0
