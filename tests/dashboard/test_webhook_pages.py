"""The pages and actions of webhook endpoints."""

import re

import pytest
from django.contrib.messages import get_messages
from django.db.models.functions import Now

from api.keys import create_api_key
from api.webhooks.endpoints import create_endpoint, disable_endpoint
from api.webhooks.signatures import secret_of
from bots.models import ApiKey, BotEvent, Webhook, WebhookDelivery, WebhookEndpoint
from dashboard.models import OperatorAction
from dashboard.overview.attention import what_needs_attention
from tests.dashboard.populated import ask

pytestmark = pytest.mark.django_db

URL = "https://app.example/hooks/s3cret?token=1"


@pytest.fixture
def endpoint():
    create_api_key(name="app")
    return create_endpoint(ApiKey.objects.get(), URL)


@pytest.fixture
def delivery(endpoint):
    bot = ask()
    webhook = Webhook.objects.create(bot=bot, api_key=endpoint.api_key, endpoint=endpoint, url=URL)
    return WebhookDelivery.objects.create(
        webhook=webhook,
        endpoint=endpoint,
        event=BotEvent.objects.filter(bot=bot).first(),
        delivered_at=Now(),
        due_at=None,
        attempts=1,
    )


def act(client, name, pk, **fields):
    page = client.get(f"/actions/{name}/?item={pk}").text
    targets = re.search(r'name="targets" value="([^"]*)"', page)[1].replace("&quot;", '"')
    return client.post(f"/actions/{name}/", {"targets": targets, "reason": "test", **fields})


def told(answer) -> str:
    return " ".join(str(message) for message in get_messages(answer.wsgi_request))


def test_an_administrator_makes_an_endpoint_and_sees_its_secret_once(administrator):
    create_api_key(name="app")
    form = {"api_key": ApiKey.objects.get().pk, "url": URL, "statuses": ["DONE", "FAILED"]}
    page = administrator.post("/webhooks/new/", form, follow=True).text
    made = WebhookEndpoint.objects.get()
    assert made.statuses == ["DONE", "FAILED"]
    assert secret_of(made) in page
    assert secret_of(made) not in administrator.get(f"/webhooks/{made.pk}/").text
    assert OperatorAction.objects.get().action == "new-webhook"


def test_the_same_address_twice_and_private_addresses_are_refused(administrator, endpoint):
    form = {"api_key": endpoint.api_key.pk, "url": URL}
    assert "already has" in administrator.post("/webhooks/new/", form).text
    private = administrator.post("/webhooks/new/", {**form, "url": "http://10.0.0.1/"})
    assert "WEBHOOK_ALLOW_PRIVATE" in private.text
    assert WebhookEndpoint.objects.count() == 1


def test_only_administrators_see_whole_addresses_and_secrets(operator, viewer, endpoint):
    for client in (operator, viewer):
        for page in ("/webhooks/", f"/webhooks/{endpoint.pk}/"):
            text = client.get(page).text
            assert "https://app.example" in text and "s3cret" not in text
        assert client.get("/webhooks/new/").status_code == 403
        assert client.get("/actions/rotate-webhook-secret/").status_code == 403
        assert client.get("/actions/delete-webhook/").status_code == 403
    assert viewer.get("/actions/enable-webhook/").status_code == 403


def test_rotating_shows_the_new_secret_once_and_records_none(administrator, endpoint):
    answer = act(administrator, "rotate-webhook-secret", endpoint.pk)
    endpoint.refresh_from_db()
    assert endpoint.secret_version == 2
    assert secret_of(endpoint) in told(answer)
    assert "whsec_" not in repr(list(OperatorAction.objects.values()))


def test_a_disabled_endpoint_needs_attention_and_can_be_enabled(operator, endpoint):
    disable_endpoint(endpoint, because="It answered 410 Gone")
    (item,) = what_needs_attention(cards=[], health=[])
    assert "app" in item.words and "410" in item.words
    assert "410 Gone" in operator.get("/").text
    assert "410 Gone" in operator.get(item.link).text
    act(operator, "enable-webhook", endpoint.pk)
    assert WebhookEndpoint.objects.get().disabled_at is None
    assert what_needs_attention(cards=[], health=[]) == []


def test_an_operator_sends_a_delivery_again(operator, endpoint, delivery):
    act(operator, "send-webhook-again", delivery.pk)
    delivery.refresh_from_db()
    assert delivery.due_at and delivery.delivered_at is None


def test_nothing_is_sent_again_to_a_disabled_endpoint(operator, endpoint, delivery):
    disable_endpoint(endpoint, because="test")
    page = operator.get(f"/actions/send-webhook-again/?item={delivery.pk}").text
    assert "enable that first" in page


def test_an_endpoint_is_deleted_with_its_deliveries(administrator, endpoint, delivery):
    act(administrator, "delete-webhook", endpoint.pk)
    assert not WebhookEndpoint.objects.exists()
    assert not WebhookDelivery.objects.exists()
