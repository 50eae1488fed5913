"""The switch to a new image, on rows alone."""

from datetime import timedelta

import pytest
from django.db.models.functions import Now

from core.clock import process_started_at
from pool.images import rollout
from pool.images.prepulls import ask_prepull, cancel_prepull
from pool.images.rollout import (
    NothingToRestore,
    advance_rollouts,
    follow_again,
    follow_environment,
    restore_image,
)
from pool.images.trials import failed_pulls
from pool.request import BotRequest, request_bot
from servers.models import Server
from slots.deployment import Deployment, WarmImage
from slots.images import ImageSwitch, PlatformImage, Prepull
from slots.models import Slot
from tests.factories import SlotFactory

pytestmark = pytest.mark.django_db(transaction=True)

OLD, NEW = "bot:1.0", "bot:2.0"


@pytest.fixture(autouse=True)
def two_servers(settings):
    settings.COOLIFY_SERVER_UUIDS = ["a", "b"]
    settings.BOT_IMAGES = {"google-meet": OLD}
    SlotFactory(server_uuid="a"), SlotFactory(server_uuid="b")
    follow_environment()


@pytest.fixture
def switching(settings):
    settings.BOT_IMAGES = {"google-meet": NEW}
    follow_environment()
    advance_rollouts()


def row() -> PlatformImage:
    return PlatformImage.objects.get(platform="google-meet")


def warm(server: str, image: str = NEW) -> None:
    WarmImage.objects.create(image=image, server_uuid=server)
    advance_rollouts()


def end_prepulls(status: str) -> None:
    Prepull.objects.update(status=status, ended_at=Now(), detail="Because")


def image_of_next_bot(server: str) -> str:
    Slot.objects.exclude(server_uuid=server).update(cordoned=True)
    url = "https://meet.google.com/abc-defg-hij"
    bot = request_bot(BotRequest(meeting_url=url, platform="google-meet"), actor="test")
    Slot.objects.exclude(server_uuid=server).update(cordoned=False)
    assert bot.slot.server_uuid == server
    return Deployment.objects.get(bot=bot).image


def test_the_first_image_is_simply_used():
    assert (row().image, row().wanted, Prepull.objects.count()) == (OLD, "", 0)
    assert image_of_next_bot("a") == OLD


def test_a_new_image_is_pulled_on_every_server_before_bots_use_it(switching):
    pulls = Prepull.objects.values_list("server_uuid", "image")
    assert sorted(pulls) == [("a", NEW), ("b", NEW)]
    assert image_of_next_bot("a") == OLD


def test_each_server_switches_when_it_has_the_image(switching):
    warm("b")
    assert (image_of_next_bot("a"), image_of_next_bot("b")) == (OLD, NEW)
    warm("a")
    assert (row().image, row().previous, row().wanted) == (NEW, OLD, "")
    assert not ImageSwitch.objects.exists()


@pytest.fixture
def overdue(switching, settings):
    end_prepulls("given_up")
    settings.IMAGE_SWITCH_TIMEOUT = timedelta()
    advance_rollouts()


def switched() -> list[str]:
    return list(ImageSwitch.objects.values_list("server_uuid", flat=True))


def test_after_the_timeout_an_image_that_can_be_pulled_is_used_cold(switching, settings):
    warm("a")
    settings.IMAGE_SWITCH_TIMEOUT = timedelta()
    advance_rollouts()
    assert row().image == NEW


def test_after_the_timeout_an_image_that_no_server_has_is_tried_on_one(overdue):
    advance_rollouts()
    assert (row().image, switched()) == (OLD, ["a"])
    warm("a")
    assert row().image == NEW


def test_a_switch_is_not_overdue_while_servers_get_the_image_one_after_another(switching):
    PlatformImage.objects.update(wanted_since=Now() - timedelta(days=1))
    Prepull.objects.filter(server_uuid="a").update(status="done", ended_at=Now())
    warm("a")
    assert switched() == ["a"]
    Prepull.objects.filter(server_uuid="a").update(ended_at=Now() - timedelta(hours=2))
    advance_rollouts()
    assert row().image == NEW


def test_a_server_that_pulls_at_this_moment_is_not_switched_cold(switching, settings):
    Prepull.objects.filter(server_uuid="b").update(status="pulling")
    settings.IMAGE_SWITCH_TIMEOUT = timedelta()
    warm("a")
    assert switched() == ["a"]


def test_if_the_server_that_tries_goes_away_another_one_does(overdue):
    Server.objects.create(uuid="a", state="unreachable")
    advance_rollouts()
    assert switched() == ["a", "b"]


def test_after_a_bot_could_not_pull_it_the_old_image_is_used_again(overdue):
    assert image_of_next_bot("a") == NEW
    fail_start(cause="deployment_failed")
    advance_rollouts()
    assert (switched(), image_of_next_bot("a"), image_of_next_bot("b")) == ([], OLD, OLD)
    assert [each.detail for each in failed_pulls(row())] == ["No such image"]


@pytest.mark.parametrize("cause", ["server_lost", "operator", "container_failed"])
def test_a_start_that_failed_otherwise_says_nothing_about_the_image(overdue, cause):
    image_of_next_bot("a")
    fail_start(cause=cause)
    advance_rollouts()
    assert switched() == ["a"]


def fail_start(*, cause: str) -> None:
    Deployment.objects.update(
        status="failed",
        ended_at=Now(),
        leader=True,
        failure_cause=cause,
        reason="No such image",
    )
    SlotFactory(server_uuid="a")


def test_an_image_that_could_not_be_pulled_is_never_switched_to(switching, settings):
    Prepull.objects.filter(server_uuid="a").update(status="failed", ended_at=Now())
    settings.IMAGE_SWITCH_TIMEOUT = timedelta()
    advance_rollouts()
    assert (row().image, image_of_next_bot("a"), image_of_next_bot("b")) == (OLD, OLD, OLD)
    # A server that has it all the same uses it.
    warm("b")
    assert ImageSwitch.objects.get().server_uuid == "b"


def test_a_pull_that_failed_after_an_earlier_one_was_done_counts(settings):
    long_ago = Now() - timedelta(days=2)
    for server in "ab":
        Prepull.objects.create(
            image=NEW,
            server_uuid=server,
            status="done",
            created_at=long_ago,
            ended_at=long_ago,
            deadline=long_ago,
        )
    settings.BOT_IMAGES = {"google-meet": NEW}
    follow_environment(), advance_rollouts()
    Prepull.objects.filter(status="waiting").update(status="failed", ended_at=Now())
    assert len(failed_pulls(row())) == 2
    settings.IMAGE_SWITCH_TIMEOUT = timedelta()
    advance_rollouts()
    assert row().image == OLD and not ImageSwitch.objects.exists()


def test_a_pull_that_is_done_after_a_failure_makes_up_for_it(switching):
    end_prepulls("failed")
    Prepull.objects.create(
        image=NEW, server_uuid="a", status="done", ended_at=Now(), deadline=Now()
    )
    assert [each.server_uuid for each in failed_pulls(row())] == ["b"]


def test_a_failed_pull_is_tried_again_a_few_times(switching, monkeypatch):
    monkeypatch.setattr(rollout, "PULL_PAUSE", timedelta())
    for _ in range(6):
        end_prepulls("failed")
        advance_rollouts()
    assert Prepull.objects.filter(server_uuid="a").count() == rollout.PULL_ATTEMPTS


def test_a_pull_that_was_done_in_vain_is_no_failed_attempt(switching, monkeypatch):
    monkeypatch.setattr(rollout, "PULL_PAUSE", timedelta())
    for _ in range(4):
        end_prepulls("done")
        advance_rollouts()
    assert Prepull.objects.filter(server_uuid="a", status="waiting").exists()


def test_what_an_operator_cancelled_is_neither_asked_for_again_nor_switched(
    switching, settings, monkeypatch
):
    monkeypatch.setattr(rollout, "PULL_PAUSE", timedelta())
    cancel_prepull(Prepull.objects.get(server_uuid="b"), actor="anna", reason="Not now")
    settings.IMAGE_SWITCH_TIMEOUT = timedelta()
    warm("a")
    assert (switched(), Prepull.objects.filter(server_uuid="b").count()) == (["a"], 1)
    warm("b")
    assert row().image == NEW


@pytest.mark.parametrize("way", ["restore", "another image"])
def test_pre_pulls_of_an_abandoned_switch_end(switching, settings, way):
    asked = ask_prepull(image=NEW, server_uuid="c", actor="anna", reason="By hand")
    rollout.end_abandoned_prepulls()
    assert Prepull.objects.filter(status="waiting").count() == 3
    if way == "restore":
        restore_image("google-meet", reason="It crashes", actor="anna")
    else:
        settings.BOT_IMAGES = {"google-meet": "bot:3.0"}
        follow_environment()
    rollout.end_abandoned_prepulls()
    assert Prepull.objects.get(status="waiting") == asked


def test_after_following_again_an_abandoned_pre_pull_is_asked_for_again(switching):
    restore_image("google-meet", reason="It crashes", actor="anna")
    rollout.end_abandoned_prepulls()
    follow_again("google-meet", reason="It was the registry", actor="anna")
    advance_rollouts()
    assert Prepull.objects.filter(status="waiting").count() == 2


def test_a_failed_pull_is_not_tried_again_at_once(switching):
    end_prepulls("failed")
    advance_rollouts()
    assert Prepull.objects.count() == 2


def test_an_earlier_process_with_the_old_environment_changes_nothing_back(
    switching, settings, monkeypatch
):
    earlier = process_started_at() - timedelta(hours=1)
    monkeypatch.setattr(rollout, "process_started_at", lambda: earlier)
    settings.BOT_IMAGES = {"google-meet": OLD}
    follow_environment()
    assert row().wanted == NEW


def test_naming_the_old_image_again_ends_the_switch(switching, settings):
    warm("b")
    settings.BOT_IMAGES = {"google-meet": OLD}
    follow_environment()
    assert (row().wanted, image_of_next_bot("b")) == ("", OLD)


def test_a_platform_without_slots_switches_at_once(settings):
    Slot.objects.all().delete()
    settings.BOT_IMAGES = {"google-meet": NEW}
    follow_environment()
    assert (row().image, Prepull.objects.count()) == (NEW, 0)


def test_the_previous_image_is_restored_until_the_environment_names_another(switching, settings):
    warm("a"), warm("b")
    waiting = image_of_next_bot("a")
    assert restore_image("google-meet", reason="It crashes", actor="anna") == OLD
    follow_environment(), advance_rollouts()
    assert (waiting, row().image, row().restored_by) == (NEW, OLD, "anna")
    # A start that waited uses it, too.
    assert Deployment.objects.get().image == OLD
    with pytest.raises(NothingToRestore):
        restore_image("google-meet", reason="Again", actor="anna")
    settings.BOT_IMAGES = {"google-meet": "bot:3.0"}
    follow_environment()
    assert (row().wanted, row().restored_at) == ("bot:3.0", None)


def test_a_switch_is_abandoned_by_restoring(switching):
    warm("b")
    restore_image("google-meet", reason="It crashes", actor="anna")
    advance_rollouts()
    assert (row().wanted, image_of_next_bot("b")) == ("", OLD)


def test_restoring_is_undone_by_a_switch_like_any_other(switching):
    restore_image("google-meet", reason="It crashes", actor="anna")
    assert follow_again("google-meet", reason="It was the registry", actor="anna")
    assert (row().wanted, row().restored_at) == (NEW, None)
    assert not follow_again("google-meet", reason="Twice", actor="anna")


def test_without_an_earlier_image_nothing_is_restored():
    with pytest.raises(NothingToRestore):
        restore_image("google-meet", reason="x", actor="anna")
    with pytest.raises(NothingToRestore):
        restore_image("zoom", reason="x", actor="anna")
