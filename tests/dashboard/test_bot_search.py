"""The search for bots: what it finds, and that it uses its indexes."""

import json

import pytest
from django.db import connection
from django.http import QueryDict

from bots.models import Bot
from dashboard.bots.filters import bots_that_match, ranges_of
from dashboard.paging import older
from tests.factories import BotFactory, SlotFactory


def found(words):
    given = QueryDict(mutable=True)
    given["q"] = words
    return set(bots_that_match(given).values_list("pk", flat=True))


@pytest.fixture
def bots(db):
    meet = BotFactory(correlation_id="order-4711", display_name="Ünal's Notes")
    zoom = BotFactory(
        platform="zoom",
        meeting_url="https://acme.zoom.us/j/98765432100?pwd=x",
        display_name="Minutes",
        slot_name="pool-zoom-001",
    )
    return meet, zoom


@pytest.mark.parametrize(
    "words",
    ["order-4711", "abc-defg-hij", "ABC-DEFG", "defg", "meet.google.com/abc", "Ünal", "ünal notes"],
)
def test_it_finds_a_bot_by_its_id_or_by_words(bots, words):
    assert found(words) == {bots[0].pk}


@pytest.mark.parametrize(
    "words",
    ["98765432100", "9876543", "acme", "minu", "pool-zoom-001", "https://acme.zoom.us/j/98"],
)
def test_it_finds_words_by_their_beginning(bots, words):
    assert found(words) == {bots[1].pk}


@pytest.mark.parametrize("form", ["{}, {}", "#{} #{}", "{},{}", "#{}-#{}", "{}-{}"])
def test_it_finds_several_bots_by_their_numbers(bots, form):
    BotFactory()
    numbers = [bot.pk for bot in bots]
    assert found(form.format(*numbers)) == set(numbers)


def test_digits_with_blanks_between_them_are_no_list_of_bots(bots):
    assert found(f"{bots[0].pk} {bots[1].pk}") == set()


def test_a_range_of_very_many_numbers_is_none(bots):
    assert ranges_of("1-1000") == [(1, 1000)]
    assert ranges_of("1-9999999") == []


def test_the_search_over_everything_leads_to_the_list_of_several_bots(bots, viewer):
    address = viewer.get("/search/", {"q": "7, 9"}).url
    assert address == "/bots/?q=7%2C+9"


def test_it_finds_a_bot_by_its_number(bots):
    assert found(f"#{bots[0].pk}") == {bots[0].pk}
    assert bots[0].pk in found(str(bots[0].pk))


@pytest.mark.parametrize("words", ["nothing", "'", "a'b", "a & !b:*", "\\", "%", "_", "<->", "()"])
def test_no_input_breaks_the_search(bots, words):
    assert found(words) == set()


def test_it_finds_the_bot_of_a_container(bots):
    SlotFactory(
        coolify_uuid="xyz123", status="deploying", previous_status="idle", assigned_bot=bots[0]
    )
    assert found("xyz123") == {bots[0].pk}


MANY = """
INSERT INTO bots_bot (
    correlation_id, platform, meeting_url, display_name, config, priority, queue_timeout, status,
    previous_status, failure_reason, failure_kind, placements, slot_name, coolify_service_uuid,
    status_since, created_at, ended_at, shown_address
)
SELECT 'corr-' || n, 'zoom', 'https://zoom.us/j/' || 10000000000 + n, 'Notetaker ' || n, '{}', 100,
    interval '5 minutes', 'DONE', 'IN_CALL', '', '', 1, 'pool-zoom-' || n % 100, '',
    now(), now(), now(), 'https://zoom.us/j/' || 10000000000 + n
FROM generate_series(1, 120000) AS n
"""


def nodes(plan):
    yield plan
    for child in plan.get("Plans", []):
        yield from nodes(child)


@pytest.mark.slow
def test_among_many_bots_the_search_uses_its_indexes(db):
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")  # no history: not needed
        cursor.execute(MANY)
        cursor.execute("ANALYZE bots_bot")
    for words in ("10000077777", "corr-7777", "#7777"):
        assert_the_search_uses_its_indexes(words)


def assert_the_search_uses_its_indexes(words):
    given = QueryDict(mutable=True)
    given["q"] = words
    rows = older(bots_that_match(given), given).rows
    plan = json.loads(rows.explain(format="json"))[0]["Plan"]
    used = {node.get("Index Name") for node in nodes(plan)}
    assert not [node for node in nodes(plan) if node["Node Type"] == "Seq Scan"]
    assert "bot_by_shown_words" in used, plan
    # Not a walk through the whole table in the order of the list.
    walks = [node for node in nodes(plan) if node["Node Type"].startswith("Index")]
    assert [node for node in walks if "Filter" in node] == []
    assert len(rows) >= 1


# --- Open pages ----------------------------------------------------------------------------------


def is_settled(client, address):
    return "data-settled" in client.get(address).text


def test_a_page_of_bots_that_have_ended_stops_asking(operator):
    bot = BotFactory()
    Bot.objects.update(status="CANCELLED", previous_status="PENDING", ended_at=bot.created_at)
    assert is_settled(operator, f"/bots/?q=%23{bot.pk}")
    assert is_settled(operator, f"/bots/?before={bot.pk + 1}")
    assert not is_settled(operator, "/bots/")
    assert not is_settled(operator, "/bots/?q=notetaker")


def test_a_page_of_bots_that_have_not_ended_keeps_asking(operator):
    bot = BotFactory()
    assert not is_settled(operator, f"/bots/?q=%23{bot.pk}")
    assert not is_settled(operator, f"/bots/?before={bot.pk + 1}")
