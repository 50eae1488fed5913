"""The words of messages: grouped, linked and short."""

from datetime import UTC, datetime, timedelta

from dashboard.notifications.records import Condition
from dashboard.notifications.rules import Item, News
from dashboard.notifications.wording import body_of, facts_of, title_of

NOW = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)


def item(words="Zoom: 1 slot in error", *, news=News.NEW, lasted=timedelta(minutes=12)):
    return Item(
        news=news,
        condition=Condition(
            code="slots_in_error",
            platform="zoom",
            words=words,
            link="/slots/?status=error",
            first_seen_at=NOW - lasted,
            last_seen_at=NOW,
        ),
    )


def test_one_thing_is_its_own_title():
    assert title_of([item()]) == "Botpool, Zoom: 1 slot in error"
    assert title_of([item(news=News.RESOLVED)]) == "Botpool, resolved: Zoom: 1 slot in error"


def test_many_things_are_counted():
    seven = [item(f"thing {n}") for n in range(7)]
    over = [item(news=News.RESOLVED)] * 2
    assert title_of(seven) == "Botpool: 7 things need attention"
    assert title_of([*seven, *over]) == "Botpool: 7 things need attention, 2 resolved"
    assert title_of([seven[0], *over]) == "Botpool: 1 thing needs attention, 2 resolved"
    assert title_of(over) == "Botpool: 2 things are resolved"


def test_each_line_says_how_long_and_links_to_its_page(settings):
    settings.PUBLIC_URL = "https://botpool.example"
    assert body_of([item(), item("Teams", news=News.RESOLVED)]).splitlines() == [
        "New:",
        "- Zoom: 1 slot in error (for 12 min) https://botpool.example/slots/?status=error",
        "",
        "Resolved:",
        "- Teams (for 12 min) https://botpool.example/slots/?status=error",
        "",
        "All of it: https://botpool.example/notifications/",
    ]


def test_a_storm_is_summarised():
    body = body_of([item(f"thing {n}") for n in range(100)])
    assert body.count("\n- ") == 10
    assert "And 90 more." in body


def test_long_words_are_cut():
    assert len(title_of([item("x" * 1000)])) == 200
    assert len(body_of([item("x" * 1000)])) < 500


def test_programs_get_codes():
    [fact] = facts_of([item()])
    assert (fact["code"], fact["severity"], fact["platform"]) == (
        "slots_in_error",
        "warning",
        "zoom",
    )
