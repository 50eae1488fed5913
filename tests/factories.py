"""Factories for the models."""

from datetime import timedelta

import factory
from django.utils import timezone
from factory.django import DjangoModelFactory

from bots.models import Bot, Client
from bots.status import Platform
from queues.models import QueueEntry
from slots.deployment import Deployment
from slots.logs import KeptLog, LogSource, LogStatus
from slots.models import Slot
from slots.status import SlotStatus


class BotFactory(DjangoModelFactory):
    class Meta:
        model = Bot

    # That of the key of `client_api`, which sees these bots.
    client = factory.LazyFunction(lambda: Client.objects.get_or_create(name="app")[0])
    correlation_id = factory.Sequence(lambda n: f"corr-{n}")
    platform = Platform.GOOGLE_MEET
    meeting_url = "https://meet.google.com/abc-defg-hij"
    display_name = "Notetaker"
    queue_timeout = timedelta(minutes=5)


class SlotFactory(DjangoModelFactory):
    class Meta:
        model = Slot

    platform = Platform.GOOGLE_MEET
    number = factory.Sequence(lambda n: n + 1)
    name = factory.LazyAttribute(lambda slot: f"pool-{slot.platform}-{slot.number:03d}")
    coolify_uuid = factory.LazyAttribute(lambda slot: f"app-{slot.platform}-{slot.number}")
    server_uuid = "server-1"
    status = SlotStatus.IDLE


class QueueEntryFactory(DjangoModelFactory):
    class Meta:
        model = QueueEntry

    bot = factory.SubFactory(BotFactory)
    platform = factory.SelfAttribute("bot.platform")
    priority = factory.SelfAttribute("bot.priority")
    queued_at = factory.SelfAttribute("bot.created_at")
    timeout_at = factory.LazyAttribute(lambda entry: entry.queued_at + timedelta(minutes=5))


class DeploymentFactory(DjangoModelFactory):
    """A deployment of a slot that is deploying for a bot."""

    class Meta:
        model = Deployment

    slot = factory.SubFactory(
        SlotFactory, status=SlotStatus.DEPLOYING, assigned_bot=factory.SubFactory(BotFactory)
    )
    slot_name = factory.SelfAttribute("slot.name")
    bot = factory.SelfAttribute("slot.assigned_bot")
    epoch = factory.SelfAttribute("slot.epoch")
    image = "bot:1"
    server_uuid = factory.SelfAttribute("slot.server_uuid")


class KeptLogFactory(DjangoModelFactory):
    """A log that was kept of a bot's failure in a slot."""

    class Meta:
        model = KeptLog

    slot = factory.SubFactory(SlotFactory)
    slot_name = factory.SelfAttribute("slot.name")
    bot = factory.SubFactory(BotFactory)
    epoch = 1
    source = LogSource.CONTAINER
    coolify_uuid = factory.SelfAttribute("slot.coolify_uuid")
    failure_cause = "reported_by_bot"
    status = LogStatus.KEPT
    text = "2026-11-16T09:30:59.120Z joined\nexited"
    lines = 2
    deadline = factory.LazyFunction(lambda: timezone.now() + timedelta(minutes=10))
    ended_at = factory.LazyFunction(timezone.now)
