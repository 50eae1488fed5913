"""Bots are stored with what pages show of their address."""

from importlib import import_module

import pytest
from django.apps import apps
from django.db import connection

from bots.meetings import masked_address
from bots.models import Bot
from tests.factories import BotFactory

pytestmark = pytest.mark.django_db

MEETING = "https://zoom.us/j/1?pwd=s3cret"


def test_it_is_written_with_the_bot():
    bot = BotFactory(meeting_url=MEETING)
    bot.refresh_from_db()
    assert bot.shown_address == masked_address(MEETING)


def test_the_migration_fills_the_bots_of_earlier_versions(monkeypatch):
    migration = import_module("bots.migrations.0016_shown_addresses")
    monkeypatch.setattr(migration, "BATCH", 2)
    bots = BotFactory.create_batch(5, meeting_url=MEETING)
    Bot.objects.exclude(pk=bots[1].pk).update(shown_address="")
    Bot.objects.filter(pk=bots[1].pk).update(shown_address="is left")
    with connection.schema_editor() as editor:
        migration.fill(apps, editor)
    found = Bot.objects.order_by("pk").values_list("shown_address", flat=True)
    filled = masked_address(MEETING)
    assert list(found) == [filled, "is left", filled, filled, filled]
