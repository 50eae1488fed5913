"""Statements compiled once do what the ORM's own would do."""

from datetime import timedelta

import pytest
from django.db import connection
from django.db.models import DateTimeField, F
from django.db.models.functions import Greatest, Now
from django.db.transaction import TransactionManagementError
from django.test.utils import CaptureQueriesContext

from bots.models import Bot, Client
from core import prepared
from core.clock import database_now
from core.prepared import Parameter, Prepared, insert_instance, insert_row, update_rows
from slots.deployment import Deployment
from tests.factories import BotFactory, SlotFactory

pytestmark = pytest.mark.django_db

ONE_MORE = F("placements") + 1
LATER = Greatest(Parameter("wanted"), Now(), output_field=DateTimeField())


@Prepared
def bot_by_id(bot_id: int):
    return Bot.objects.filter(pk=bot_id)


@Prepared
def locked_bot(bot_id: int):
    return Bot.objects.select_for_update().filter(pk=bot_id)


def test_an_update_changes_the_rows_that_match_and_counts_them():
    bot, other = BotFactory(slot_name="old"), BotFactory(slot_name="old")
    where = {"id": bot.pk, "slot_name": "old"}
    assert update_rows(Bot, where, slot_name="new", placements=ONE_MORE) == 1
    assert update_rows(Bot, where, slot_name="newer", placements=ONE_MORE) == 0
    bot.refresh_from_db()
    other.refresh_from_db()
    assert (bot.slot_name, bot.placements) == ("new", 1)
    assert (other.slot_name, other.placements) == ("old", 0)


def test_an_inserted_instance_has_what_the_database_filled_in():
    given = {"platform": "zoom", "meeting_url": "https://zoom.us/j/1", "config": {"a": [1]}}
    acme = Client.objects.create(name="acme")
    for client in (None, acme):  # NULL and a value make two statements
        bot = Bot(queue_timeout=timedelta(seconds=5), client=client, **given)
        insert_instance(bot)
        assert not bot._state.adding
        stored = Bot.objects.get(pk=bot.pk)
        for field in Bot._meta.concrete_fields:
            assert getattr(bot, field.attname) == getattr(stored, field.attname), field.name


def test_a_column_may_be_both_condition_and_value():
    bot = BotFactory(slot_name="a")
    assert update_rows(Bot, {"slot_name": "a"}, slot_name="b") == 1
    bot.refresh_from_db()
    assert bot.slot_name == "b"


def test_none_means_null_both_as_condition_and_as_value():
    bot = BotFactory(last_heartbeat_at=None)
    now = database_now()
    assert update_rows(Bot, {"last_heartbeat_at": None}, last_heartbeat_at=now) == 1
    assert update_rows(Bot, {"last_heartbeat_at": None}, last_heartbeat_at=now) == 0
    assert update_rows(Bot, {"last_heartbeat_at": now}, last_heartbeat_at=None) == 1
    bot.refresh_from_db()
    assert bot.last_heartbeat_at is None


def test_other_values_take_no_second_compilation_and_other_shapes_do():
    bot = BotFactory()
    update_rows(Bot, {"id": bot.pk}, slot_name="a", placements=ONE_MORE)
    compiled = len(prepared._compiled)
    update_rows(Bot, {"id": bot.pk + 1}, slot_name="b", placements=ONE_MORE)
    assert len(prepared._compiled) == compiled
    update_rows(Bot, {"id": bot.pk}, slot_name="b", placements=5)
    assert len(prepared._compiled) == compiled + 1


def test_an_insert_leaves_the_other_columns_to_the_database():
    slot, bot, wanted = SlotFactory(), BotFactory(), database_now().replace(year=2099)
    insert_row(
        Deployment,
        slot_id=slot.pk,
        slot_name=slot.name,
        bot_id=bot.pk,
        epoch=3,
        image="a:1",
        server_uuid="s",
        deadline=LATER,
        parameters={"wanted": wanted},
    )
    made = Deployment.objects.get()
    assert (made.slot, made.bot, made.epoch, made.deadline) == (slot, bot, 3, wanted)
    assert made.status == "waiting_for_image"
    assert made.created_at is not None


def test_a_select_gives_the_same_instance_as_the_orm():
    bot = BotFactory(config={"language": "en"})
    found, expected = bot_by_id.first(bot.pk), Bot.objects.get(pk=bot.pk)
    assert found is not None
    fields = [field.attname for field in Bot._meta.concrete_fields]
    assert [getattr(found, f) for f in fields] == [getattr(expected, f) for f in fields]
    assert bot_by_id.first(bot.pk + 1) is None
    assert bot_by_id.exists(bot.pk)


@Prepared
def named(slot_name: str):
    return Bot.objects.filter(slot_name=slot_name).order_by("-pk")


@Prepared
def numbers(slot_name: str):
    return named._build(slot_name).values_list("pk", "priority")


def test_rows_are_counted_without_being_read():
    assert named.count("a") == 0
    BotFactory.create_batch(3, slot_name="a")
    BotFactory(slot_name="b")
    with CaptureQueriesContext(connection) as made:
        assert (named.count("a"), named.count("b")) == (3, 1)
    assert [each["sql"].count("meeting_url") for each in made.captured_queries] == [0, 0]


def test_rows_come_as_tuples_in_their_order():
    low, high = BotFactory(slot_name="a", priority=7), BotFactory(slot_name="a", priority=3)
    assert numbers.rows("a") == [(high.pk, 3), (low.pk, 7)]
    assert numbers.rows("b") == []


def test_a_select_keeps_its_lock_clause():
    bot = BotFactory()
    with CaptureQueriesContext(
        connection,
    ) as made:
        assert locked_bot.first(bot.pk) == bot
    assert "FOR UPDATE" in made.captured_queries[-1]["sql"]


@pytest.mark.django_db(transaction=True)
def test_a_row_is_not_locked_outside_of_a_transaction():
    bot = BotFactory()
    with pytest.raises(TransactionManagementError):
        locked_bot.first(bot.pk)
