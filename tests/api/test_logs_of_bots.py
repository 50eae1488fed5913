"""GET /api/v1/bots/{id}/logs"""

import pytest

from api.keys import create_api_key
from slots.logs import LogStatus, NotKept
from tests.factories import BotFactory, KeptLogFactory

pytestmark = pytest.mark.django_db


def test_the_logs_of_a_bot(client_api):
    log = KeptLogFactory()
    (found,) = client_api.get(f"bots/{log.bot_id}/logs").json()["logs"]
    assert found["lines"] == [
        {"at": "2026-11-16T09:30:59.120Z", "text": "joined"},
        {"at": None, "text": "exited"},
    ]
    assert (found["source"], found["status"]) == ("container", "kept")
    assert (found["failureCode"], found["notKeptCode"]) == ("reported_by_bot", None)


def test_a_log_that_was_not_kept_says_why(client_api):
    log = KeptLogFactory(status=LogStatus.NOT_KEPT, because=NotKept.NO_BUDGET, text="")
    (found,) = client_api.get(f"bots/{log.bot_id}/logs").json()["logs"]
    assert (found["notKeptCode"], found["lines"], found["readAt"]) == ("no_budget", [], None)


def test_a_bot_that_has_none(client_api):
    assert client_api.get(f"bots/{BotFactory().pk}/logs").json() == {"logs": []}


def test_the_logs_of_another_client_do_not_exist(client):
    log = KeptLogFactory()
    headers = {"Authorization": f"Bearer {create_api_key(name='another')}"}
    answer = client.get(f"/api/v1/bots/{log.bot_id}/logs", headers=headers)
    assert answer.status_code == 404
    assert b"joined" not in answer.content
