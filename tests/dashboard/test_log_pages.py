"""Logs on the pages of bots and slots."""

from datetime import timedelta

import pytest
from django.utils import timezone

from bots.moves import Outcome
from bots.status import BotStatus, FailureCause
from pool.controller.logs import follow
from pool.lifecycle import end_bot
from slots.logs import KeptLog, LogSource, LogStatus, NotKept
from slots.status import SlotStatus
from tests.factories import BotFactory, KeptLogFactory, SlotFactory

pytestmark = pytest.mark.django_db
EVIL = "2026-11-16T09:30:59.120Z <script>alert(1)</script>"


class Coolify:
    def logs(self, uuid, **options):
        return EVIL


@pytest.fixture(autouse=True)
def _coolify(monkeypatch):
    monkeypatch.setattr(follow, "shared_coolify", Coolify)


def failed_bot():
    bot = BotFactory(slot_name="pool-zoom-001")
    end_bot(bot, Outcome(BotStatus.FAILED, "Declined", "test", FailureCause.REPORTED_BY_BOT))
    return bot


def text_of(client, path: str) -> str:
    answer = client.get(path)
    assert answer.status_code == 200, path
    return answer.content.decode()


def test_a_bots_page_shows_its_kept_log_as_text(viewer):
    log = KeptLogFactory(text=EVIL, lines=1)
    page = text_of(viewer, f"/bots/{log.bot_id}/")
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "<script>alert" not in page
    assert f'href="/logs/{log.pk}/"' in page


def test_a_log_that_was_not_kept_says_why(viewer):
    log = KeptLogFactory(status=LogStatus.NOT_KEPT, because=NotKept.NOT_RUNNING, text="")
    assert "had exited before its log was read" in text_of(viewer, f"/bots/{log.bot_id}/")


@pytest.mark.parametrize(
    ("make", "words"),
    [(BotFactory, "logs are kept when a bot or its start fails"), (failed_bot, "None: ")],
)
def test_a_bot_without_a_log_says_why(viewer, make, words):
    assert words in text_of(viewer, f"/bots/{make().pk}/")


def test_a_slots_page_shows_the_logs_of_its_last_failure_and_links_to_earlier_ones(viewer):
    slot = SlotFactory()
    earlier = KeptLogFactory(slot=slot, epoch=1, text="the first failure")
    for source in LogSource:
        KeptLogFactory(slot=slot, epoch=3, source=source, text=f"last failure, {source}")
    page = text_of(viewer, f"/slots/{slot.name}/")
    assert "last failure, container" in page and "last failure, deployment" in page
    assert "the first failure" not in page
    assert f"/bots/{earlier.bot_id}/#log-{earlier.pk}" in page


def test_a_kept_log_can_be_downloaded_as_plain_text(viewer):
    log = KeptLogFactory(text=EVIL)
    answer = viewer.get(f"/logs/{log.pk}/")
    assert answer["Content-Type"] == "text/plain; charset=utf-8"
    assert "attachment" in answer["Content-Disposition"]
    assert EVIL in answer.content.decode()


@pytest.mark.parametrize("where", ["bots/{bot}/log/", "slots/{slot}/log/"])
def test_the_log_of_a_running_container_can_be_followed(viewer, where):
    bot = BotFactory()
    slot = SlotFactory(status=SlotStatus.DEPLOYING, assigned_bot=bot)
    page = text_of(viewer, "/" + where.format(bot=bot.pk, slot=slot.name))
    assert "&lt;script&gt;" in page and "<script>alert" not in page
    assert "one call to Coolify every" in page


def test_a_running_bots_page_links_to_its_log(viewer):
    bot = BotFactory()
    SlotFactory(status=SlotStatus.DEPLOYING, assigned_bot=bot)
    assert f'href="/bots/{bot.pk}/log/"' in text_of(viewer, f"/bots/{bot.pk}/")


def test_a_bot_without_a_slot_has_no_log_to_follow(viewer):
    assert "no slot yet" in text_of(viewer, f"/bots/{BotFactory().pk}/log/")


def test_a_failed_bot_in_the_list_links_to_its_logs(viewer):
    bot = failed_bot()
    assert f'href="/bots/{bot.pk}/#logs"' in text_of(viewer, "/bots/")


def test_the_logs_of_a_bots_last_start_come_first(viewer):
    first = KeptLogFactory(text="first", lines=1, epoch=9)
    KeptLogFactory(bot=first.bot, text="second", lines=1, epoch=2)
    earlier = timezone.now() - timedelta(minutes=1)
    KeptLog.objects.filter(pk=first.pk).update(created_at=earlier)
    page = text_of(viewer, f"/bots/{first.bot_id}/")
    assert page.index(">second") < page.index(">first")
