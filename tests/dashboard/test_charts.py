from datetime import timedelta

import pytest
from django.db.models.functions import Now, TruncMinute

from bots.status import Platform
from dashboard.models import PoolSample
from dashboard.overview.cards import cards
from dashboard.overview.charts import line_chart, stacked_chart


def test_a_sample_is_drawn_at_its_minute():
    [line] = line_chart("Waiting", [("bots", "waiting", [None, None, 4.0, 2.0])]).lines
    assert line.paths == ["120.0,2.0 180.0,2.0 240.0,28.0"]


def test_a_gap_stays_a_gap():
    [line] = line_chart("Waiting", [("bots", "waiting", [4.0, None, 4.0, 4.0])]).lines
    assert line.paths == ["0.0,2.0 60.0,2.0", "120.0,2.0 180.0,2.0 240.0,2.0"]


def test_stacked_charts_keep_gaps():
    idle, busy = stacked_chart(
        "Slots", [("idle", "idle", [None, 1.0]), ("busy", "busy", [None, 1.0])]
    ).lines
    assert idle.paths == ["120.0,28.0 240.0,28.0 240.0,54.0 120.0,54.0"]
    assert busy.paths == ["120.0,2.0 240.0,2.0 240.0,28.0 120.0,28.0"]


def test_small_values_do_not_fill_the_chart():
    chart = line_chart("Wait", [("p50", "busy", [0.01, 0.02])], unit="s")
    assert chart.lines[0].paths == ["0.0,53.5 120.0,53.5 240.0,53.0"]


def test_a_chart_without_samples_is_empty():
    assert line_chart("Start", [("warm", "idle", [None, None])], unit="s").is_empty


def sample(*, minutes_ago: int, busy: int) -> None:
    minute = TruncMinute(Now() - timedelta(minutes=minutes_ago))
    PoolSample.objects.create(platform=Platform.ZOOM, minute=minute, busy=busy)


def zoom():
    return next(card for card in cards() if card.platform == Platform.ZOOM)


@pytest.mark.django_db
def test_samples_older_than_an_hour_are_not_shown():
    sample(minutes_ago=90, busy=7)
    assert zoom().charts == []

    sample(minutes_ago=3, busy=2)
    assert zoom().charts[0].top == "2"
