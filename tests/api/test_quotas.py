"""Limits of clients: most bots at once, most that wait."""

import pytest

from api.keys import create_api_key
from bots.models import Bot, Client, RequestName
from pool import request as requests_for_bots
from pool.request import BotRequest, request_bot
from pool.sharing.quota import OverQuota, set_limits
from tests.api.conftest import MEETING, Api
from tests.concurrency import at_once, then_meet
from tests.queued import ADDRESS, pool_of

pytestmark = pytest.mark.django_db


def limit(*, max_bots=None, max_waiting=None):
    client = Client.objects.get(name="app")
    set_limits(client, max_bots=max_bots, max_waiting=max_waiting, share=1)
    return client


def ask(api, **headers):
    return api.post("bots", {"meetingUrl": MEETING}, **headers)


def test_one_bot_too_many_is_refused_and_nothing_is_kept(client_api):
    limit(max_bots=2)
    bots = [ask(client_api).json()["bot"]["id"] for _ in range(2)]
    answer = ask(client_api, **{"Idempotency-Key": "third"})
    assert answer.status_code == 429
    assert answer["Retry-After"] == "30"
    problem = answer.json()
    assert problem["type"] == "urn:botpool:over-quota"
    assert problem["detail"].startswith("The client app has 2 bots, and may have 2 at once.")
    assert Bot.objects.count() == 2 and not RequestName.objects.exists()
    client_api.post(f"bots/{bots[0]}/cancel")
    assert ask(client_api, **{"Idempotency-Key": "third"}).status_code == 201


def test_one_waiter_too_many_is_refused(client_api, settings):
    pool_of(settings, 1)
    limit(max_waiting=1)
    assert [ask(client_api).status_code for _ in range(3)] == [201, 201, 429]
    assert Bot.objects.count() == 2


def test_a_bot_that_need_not_wait_is_not_refused_for_waiters(client_api):
    limit(max_waiting=0)
    assert ask(client_api).status_code == 201


def test_the_limits_of_one_client_do_not_touch_another(client_api):
    limit(max_bots=0)
    assert ask(client_api).status_code == 429
    assert ask(Api(create_api_key(name="other"))).status_code == 201


def test_a_repeated_request_is_answered_over_quota_too(client_api):
    first = ask(client_api, **{"Idempotency-Key": "a"})
    limit(max_bots=1)
    again = ask(client_api, **{"Idempotency-Key": "a"})
    assert again.json()["bot"]["id"] == first.json()["bot"]["id"]


@pytest.mark.django_db(transaction=True)
def test_many_requests_at_once_never_exceed_the_limits(settings):
    pool_of(settings, 4)
    create_api_key(name="app")
    client = limit(max_bots=7, max_waiting=2)

    def request():
        asked = BotRequest(meeting_url=ADDRESS, platform="google-meet", client_id=client.pk)
        return request_bot(asked, actor="test").status

    results = at_once([request] * 16)
    refused = [each for each in results if isinstance(each, OverQuota)]
    accepted = sorted(str(each) for each in results if not isinstance(each, OverQuota))
    assert accepted == ["DEPLOYING"] * 4 + ["QUEUED"] * 2
    assert len(refused) == 10
    assert Bot.objects.count() == 6


def two_requests_for_the_last_place(monkeypatch):
    """Both count before one of them makes its bot, unless a lock prevents that."""
    create_api_key(name="app")
    client = limit(max_bots=1)
    counting = then_meet(requests_for_bots.refuse_one_more_bot)
    monkeypatch.setattr(requests_for_bots, "refuse_one_more_bot", counting)
    asked = BotRequest(meeting_url=ADDRESS, platform="google-meet", client_id=client.pk)
    at_once([lambda: request_bot(asked, actor="test")] * 2)
    return Bot.objects.count()


@pytest.mark.django_db(transaction=True)
def test_of_two_requests_at_once_one_gets_the_last_place(monkeypatch):
    assert two_requests_for_the_last_place(monkeypatch) == 1


@pytest.mark.django_db(transaction=True)
def test_without_the_lock_both_requests_get_the_last_place(monkeypatch):
    monkeypatch.setattr(
        requests_for_bots, "lock_limits", lambda client_id: Client.objects.get(pk=client_id)
    )
    assert two_requests_for_the_last_place(monkeypatch) == 2
