"""The steps on a bot's page."""

from datetime import timedelta

import pytest
from django.utils import timezone

from bots.models import Bot, BotEvent
from bots.status import BotStatus
from dashboard.bots.waterfall import waterfall_of
from pool.controller.places import line_up
from pool.waiting.measurements import typical_steps
from slots.models import Deployment
from tests.dashboard.populated import ask, fail, run

pytestmark = pytest.mark.django_db


def steps(bot, **typical):
    found = waterfall_of(
        Bot.objects.get(pk=bot.pk),
        list(BotEvent.objects.filter(bot=bot).order_by("pk")),
        list(Deployment.objects.filter(bot=bot).order_by("pk")),
        typical={name.replace("_", " ").capitalize(): t for name, t in typical.items()},
        now=timezone.now(),
    )
    return {step.name: step for step in found}


def test_a_queued_bot_has_one_step_that_goes_on(settings):
    settings.MAX_POOL_SIZES = dict.fromkeys(settings.MAX_POOL_SIZES, 0)
    [(name, step)] = steps(ask()).items()
    assert (name, step.end, step.lasted) == ("Queued", None, None)


def test_a_start_has_a_step_for_image_place_and_container():
    bot = ask()
    line_up()
    found = steps(bot)
    assert list(found) == ["Queued", "Image", "Build place", "Container"]
    assert found["Image"].end == found["Build place"].begin
    assert found["Build place"].end == found["Container"].begin
    assert found["Container"].end is None


def test_a_bot_in_its_call_has_all_steps():
    bot = ask()
    line_up()
    run(bot)
    Bot.objects.filter(pk=bot.pk).update(status="IN_CALL", previous_status="JOINING_CALL")
    found = steps(bot)
    assert list(found) == ["Queued", "Image", "Build place", "Container", "Joining", "In call"]
    assert found["Joining"].end == found["In call"].begin
    assert found["In call"].end is None


def test_a_bot_that_has_ended_keeps_its_steps(viewer):
    bot = ask()
    line_up()
    run(bot)
    fail(bot)
    page = viewer.get(f"/bots/{bot.pk}/").text
    assert page.count('<td data-label="Step">') == 5
    assert "so far" not in page


def test_a_step_that_took_much_longer_than_usual_is_late():
    bot = ask()
    line_up()
    then = timezone.now() - timedelta(minutes=5)
    Bot.objects.filter(pk=bot.pk).update(created_at=then)
    usual = timedelta(seconds=1)
    assert steps(bot, queued=usual)["Queued"].is_late
    assert not steps(bot, queued=timedelta(minutes=4))["Queued"].is_late


def test_each_attempt_has_its_steps():
    bot = ask()
    line_up()
    first = Deployment.objects.get()
    Deployment.objects.filter(pk=first.pk).update(status="failed", ended_at=timezone.now())
    Deployment.objects.create(
        slot=first.slot, slot_name="pool-b", bot=bot, epoch=2, image="bot:1", turn=timezone.now()
    )
    found = waterfall_of(
        Bot.objects.get(pk=bot.pk),
        [],
        list(Deployment.objects.order_by("pk")),
        typical={},
        now=timezone.now(),
    )
    assert [step.note for step in found if step.name == "Queued"] == [
        f"attempt 1, {first.slot_name}",
        "attempt 2, pool-b",
    ]
    assert [step.note for step in found if step.name == "Container"] == ["failed"]


def test_usual_times_are_medians_of_the_platform():
    assert typical_steps("zoom") == {}
    bot = ask()
    line_up()
    run(bot)
    Bot.objects.filter(pk=bot.pk).update(placements=1)
    known = typical_steps("google-meet")
    assert {"Queued", "Image", "Build place"} <= set(known)
    assert BotStatus.IN_CALL not in known
