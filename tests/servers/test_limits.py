"""How many deployments may run at once on a server."""

from datetime import timedelta

import pytest
from django.db.models.functions import Now

from coolify.client.resources import Server
from servers.limits import concurrent_deployments, start_limits
from servers.models import Server as ServerRow
from servers.reports import remember_servers

pytestmark = pytest.mark.django_db


def test_a_server_without_a_reading_has_coolifys_default():
    assert concurrent_deployments(["s"]) == {"s": 2}


def test_a_report_is_stored_with_its_time():
    remember_servers([Server("s", name="bots-1", concurrent_builds=6, is_reachable=True)])
    assert concurrent_deployments(["s"]) == {"s": 6}
    assert ServerRow.objects.filter(read_at__gt=Now() - timedelta(minutes=1)).exists()


def test_the_newest_reading_counts():
    remember_servers([Server("s", concurrent_builds=6)])
    remember_servers([Server("s", concurrent_builds=3)])
    assert concurrent_deployments(["s"]) == {"s": 3}


def test_a_server_missing_from_the_list_keeps_its_reading():
    remember_servers([Server("s", concurrent_builds=6), Server("t", concurrent_builds=1)])
    remember_servers([Server("t", concurrent_builds=1)])
    assert concurrent_deployments(["s", "t"]) == {"s": 6, "t": 1}


@pytest.mark.parametrize("reported", [None, 0, -1])
def test_an_invalid_limit_becomes_the_default(reported):
    remember_servers([Server("s", concurrent_builds=reported)])
    assert concurrent_deployments(["s"]) == {"s": 2}


def test_the_setting_overrides_what_coolify_reports(settings):
    settings.MAX_CONCURRENT_DEPLOYMENTS = 9
    remember_servers([Server("s", concurrent_builds=6)])
    assert concurrent_deployments(["s", "t"]) == {"s": 9, "t": 9}


def test_a_server_gets_as_many_starts_again_as_it_builds_at_once():
    assert start_limits(["s"]) == {"s": 4}


def test_half_of_coolifys_queue_is_left_to_others():
    remember_servers([Server("s", concurrent_builds=5, deployment_queue_limit=6)])
    assert start_limits(["s"]) == {"s": 8}


def test_coolifys_queue_holds_25_unless_it_reports_otherwise():
    remember_servers([Server("s", concurrent_builds=60)])
    assert start_limits(["s"]) == {"s": 72}
