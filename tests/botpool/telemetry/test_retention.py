"""What is pruned by age, and what is not."""

from datetime import timedelta
from io import StringIO

import pytest
from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import connection
from django_q.models import Task

from botpool.schedule import WORKS
from botpool.telemetry.counter import TallyMark
from botpool.telemetry.counters import count_history
from botpool.telemetry.retention import HISTORIES, count_old, prune
from bots.models import ApiKey, Bot, BotEvent, RequestName, Webhook, WebhookDelivery
from bots.status import BotStatus
from core.clock import database_now
from dashboard.models import OperatorAction
from slots.finding import Finding, FindingKind
from slots.models import Deployment, SlotTransition, WarmImage
from slots.status import SlotStatus
from tests.factories import BotFactory, SlotFactory
from tests.ops.history import a_deployment, an_ended_bot, time_passes

pytestmark = pytest.mark.django_db

LONG = timedelta(days=400)


def an_old_bot(**fields) -> Bot:
    bot = an_ended_bot(waited=1, started=1, **fields)
    Bot.objects.filter(pk=bot.pk).update(ended_at=database_now() - LONG)
    return bot


def pruned(name: str) -> int:
    count_history()
    return dict(prune())[name]


def test_an_old_bot_is_deleted_with_its_history_and_request_names():
    bot = an_old_bot()
    key = ApiKey.objects.create(name="k", key_hash="h")
    RequestName.objects.create(api_key=key, kind="idempotency", name="n", bot=bot)
    webhook = Webhook.objects.create(bot=bot, api_key=key, url="https://x.example", is_open=False)
    WebhookDelivery.objects.create(webhook=webhook, event=bot.events.last(), due_at=None)
    assert pruned("bots") == 1
    for model in (Bot, BotEvent, RequestName, Webhook, WebhookDelivery):
        assert not model.objects.exists(), model


def test_a_recent_bot_is_kept():
    an_ended_bot(waited=1, started=1)
    assert pruned("bots") == 0
    assert BotEvent.objects.exists()


def test_a_bot_that_has_not_ended_keeps_all_its_history():
    bot = BotFactory(status=BotStatus.IN_CALL, previous_status=BotStatus.JOINING_CALL)
    slot = SlotFactory()
    bot.events.create(to_status="PENDING", reason="x", actor="x")
    SlotTransition.objects.create(
        slot=slot, bot=bot, to_status="idle", reason="x", epoch=0, at=database_now() - LONG
    )
    a_deployment(bot=bot, slot=slot, ended_at=database_now() - LONG)
    time_passes(LONG)
    count_history()
    dict(prune())
    assert Bot.objects.exists()
    assert BotEvent.objects.exists()
    assert SlotTransition.objects.exists()
    assert Deployment.objects.exists()


def test_an_ended_bot_that_holds_a_slot_is_kept():
    bot = an_old_bot()
    SlotFactory(status=SlotStatus.DEPLOYING, assigned_bot=bot)
    assert pruned("bots") == 0


def test_a_bot_with_unfinished_webhooks_is_kept():
    key = ApiKey.objects.create(name="k", key_hash="h")
    Webhook.objects.create(bot=an_old_bot(), api_key=key, url="https://x.example", is_open=True)
    closed = Webhook.objects.create(
        bot=an_old_bot(), api_key=key, url="https://x.example", is_open=False
    )
    WebhookDelivery.objects.create(webhook=closed, event=closed.bot.events.last())
    assert pruned("bots") == 0


def test_nothing_is_deleted_before_it_is_counted():
    an_old_bot()
    assert dict(prune())["bots"] == 0
    count_history()
    TallyMark.objects.filter(source="deployments").update(counted_until=database_now() - 2 * LONG)
    assert dict(prune())["bots"] == 0


def test_a_deployment_that_may_still_pull_is_kept():
    a_deployment(bot=an_old_bot(), slot=SlotFactory(), ended_at=database_now() - LONG, pulling=True)
    assert pruned("deployments") == 0


def test_old_transitions_and_deployments_are_deleted():
    bot, slot = an_old_bot(), SlotFactory()
    old = database_now() - LONG
    SlotTransition.objects.create(slot=slot, to_status="idle", reason="x", epoch=0, at=old)
    SlotTransition.objects.create(slot=slot, to_status="idle", reason="x", epoch=0)
    a_deployment(bot=bot, slot=slot, ended_at=old)
    a_deployment(bot=bot, slot=slot)
    count_history()
    counts = dict(prune())
    assert (counts["slot transitions"], counts["deployments"]) == (1, 1)


def test_findings_without_a_repair_are_deleted_sooner():
    count_history()
    ago = database_now() - timedelta(days=3)
    for subject, acted_at in (("a", None), ("b", ago)):
        Finding.objects.create(
            kind=FindingKind.SLOT_IN_ERROR,
            subject=subject,
            reason="x",
            acted_at=acted_at,
            ended_at=ago,
        )
    Finding.objects.create(kind=FindingKind.SLOT_IN_ERROR, subject="open", reason="x")
    assert pruned("findings") == 1
    assert set(Finding.objects.values_list("subject", flat=True)) == {"b", "open"}


def test_old_task_results_and_operator_actions_are_deleted(settings):
    settings.KEEP_TASK_RESULTS = timedelta(days=2)
    for age in (1, 3):
        stopped = database_now() - timedelta(days=age)
        Task.objects.create(id=str(age), name="t", func="f", started=stopped, stopped=stopped)
    OperatorAction.objects.create(
        username="x", action="x", reason="x", done=True, at=database_now() - LONG
    )
    assert pruned("task results") == 1
    assert Task.objects.get().id == "1"
    assert not OperatorAction.objects.exists()


def test_old_admin_actions_are_deleted():
    user = User.objects.create(username="ada")
    for _ in range(2):
        LogEntry.objects.create(user=user, action_flag=CHANGE)
    LogEntry.objects.filter(pk=LogEntry.objects.first().pk).update(
        action_time=database_now() - LONG
    )
    assert pruned("admin actions") == 1


def test_an_image_without_deployments_is_deleted():
    used = a_deployment(bot=BotFactory(), slot=SlotFactory())
    for image in (used.image, "bot:0.9"):
        WarmImage.objects.create(image=image, server_uuid=used.server_uuid)
    WarmImage.objects.update(warmed_at=database_now() - LONG)
    assert pruned("images") == 1
    assert WarmImage.objects.get().image == used.image


def test_it_deletes_in_small_batches(settings):
    settings.PRUNE_BATCH = 2
    for _ in range(5):
        an_old_bot()
    count_history()
    statements = Statements()
    with connection.execute_wrapper(statements):
        assert dict(prune())["bots"] == 5
    assert statements.about("DELETE FROM bots_bot ") == 3


class Statements:
    def __init__(self) -> None:
        self.seen: list[str] = []

    def __call__(self, execute, sql, params, many, context):
        self.seen.append(sql)
        return execute(sql, params, many, context)

    def about(self, text: str) -> int:
        return sum(text in sql for sql in self.seen)


def test_a_limited_run_leaves_the_rest_to_the_next_run(settings):
    settings.PRUNE_BATCH = 1
    for _ in range(3):
        an_old_bot()
    count_history()
    assert dict(prune(longest=0))["bots"] == 1
    assert dict(count_old())["bots"] == 2


def test_the_dry_run_deletes_nothing():
    an_old_bot()
    count_history()
    output = StringIO()
    call_command("prune", "--dry-run", stdout=output)
    assert "bots                         1 to delete" in output.getvalue()
    assert Bot.objects.count() == 1


def test_the_command_prunes_everything_old():
    an_old_bot()
    output = StringIO()
    call_command("prune", stdout=output)
    assert "bots                         1 deleted" in output.getvalue()
    assert not Bot.objects.exists()


def test_it_is_scheduled():
    assert "botpool.telemetry.retention.run_pruning" in {work.function for work in WORKS}


@pytest.mark.parametrize("history", HISTORIES, ids=lambda history: history.name)
def test_every_kind_has_a_retention_of_at_least_a_day(history, settings):
    assert history.name == "sessions" or getattr(settings, history.keep) >= timedelta(days=1)
