"""Viewers find no secret of an address: on no page, and in no admin, export or search."""

from urllib.parse import quote

import pytest
from django.contrib.admin.sites import site
from django.db.models.functions import Now
from django.urls import reverse

import botpool.urls  # noqa: F401 (registers all models)
from api.keys import create_api_key
from api.webhooks.endpoints import create_endpoint
from bots.meetings import masked_address
from bots.models import ApiKey, BotEvent, RequestName, Webhook, WebhookDelivery
from coolify.models import Refusal
from pool.request import BotRequest, request_bot
from tests.dashboard.conftest import logged_in, make_user
from tests.factories import BotFactory

pytestmark = pytest.mark.django_db

WEBHOOK = "https://hooks.example.com/services/T0/B0/S3CRET?token=S3CRET"
MEETING = "https://acme.zoom.us/j/98765432100?pwd=S3CRET"


@pytest.fixture
def bot():
    create_api_key(name="app")
    endpoint = create_endpoint(ApiKey.objects.get(), WEBHOOK)
    bot = BotFactory(platform="zoom", meeting_url=MEETING, config={"smtp_pass": "S3CRET"})
    event = BotEvent.objects.create(bot=bot, to_status="PENDING", reason="x", actor="x")
    webhook = Webhook.objects.create(
        bot=bot, api_key=endpoint.api_key, endpoint=endpoint, url=WEBHOOK
    )
    WebhookDelivery.objects.create(webhook=webhook, endpoint=endpoint, event=event, due_at=Now())
    return bot


@pytest.fixture
def viewer():
    return logged_in(make_user("vera", "viewer", is_staff=True))


@pytest.fixture
def operator():
    return logged_in(make_user("otto", "operator", is_staff=True))


@pytest.fixture
def administrator():
    return logged_in(make_user("ada", "administrator", is_staff=True))


def admin_pages(model):
    name = f"admin:{model._meta.app_label}_{model._meta.model_name}"
    yield reverse(f"{name}_changelist")
    for row in model._default_manager.all():
        for page in ("change", "history"):
            yield reverse(f"{name}_{page}", args=[row.pk])


@pytest.mark.parametrize("model", site._registry, ids=lambda model: model.__name__)
def test_the_admin_shows_no_secret_to_those_who_may_not_administer(viewer, operator, bot, model):
    for client in (viewer, operator):
        for page in admin_pages(model):
            answer = client.get(page)
            assert answer.status_code in (200, 302, 403), page
            assert "S3CRET" not in answer.text, page


@pytest.mark.parametrize("model", site._registry, ids=lambda model: model.__name__)
def test_the_admin_shows_no_hash_of_a_secret(viewer, bot, model):
    """Whoever knows the rest of the request can guess a passcode until the hash is the same."""
    key = ApiKey.objects.get()
    RequestName.objects.create(
        api_key=key, kind="idempotency", name="order-1", bot=bot, body_hash="B0D1" * 16
    )
    Refusal.objects.create(token="F1A9" * 4, ability="deploy", reason="x")
    for page in admin_pages(model):
        text = viewer.get(page).text
        assert not any(each in text for each in (key.key_hash, "B0D1B0D1", "F1A9F1A9")), page


@pytest.mark.parametrize("model", ["webhook", "webhookendpoint"])
def test_the_admin_shows_the_host_to_viewers_and_all_to_administrators(
    viewer, administrator, bot, model
):
    whole = WEBHOOK.replace("&", "&amp;")
    for page in (f"/admin/bots/{model}/", reverse(f"admin:bots_{model}_change", args=[_pk(model)])):
        assert "https://hooks.example.com" in viewer.get(page).text
        assert whole in administrator.get(page).text


def _pk(model):
    found = [each for each in site._registry if each._meta.model_name == model]
    return found[0].objects.get().pk


@pytest.mark.parametrize("path", ["/bots/", "/bots/{}/", "/search/?q=acme", "/webhooks/"])
def test_pages_show_no_secret_to_viewers(viewer, bot, path):
    page = viewer.get(path.format(bot.pk)).text
    assert "S3CRET" not in page
    assert "98765432100" in page or "hooks.example.com" in page


def test_only_the_page_of_a_bot_shows_the_whole_address_to_operators(operator, bot):
    assert MEETING in operator.get(f"/bots/{bot.pk}/").text
    for path in ("/bots/", "/search/?q=acme", f"/actions/cancel-bot/?item={bot.pk}"):
        page = operator.get(path).text
        assert "98765432100" in page
        assert "S3CRET" not in page


def test_an_export_holds_no_secret(operator, bot):
    text = b"".join(operator.get("/bots/?format=csv").streaming_content).decode()
    assert "https://acme.zoom.us/j/98765432100?pwd=••••••" in text
    assert "S3CRET" not in text


# --- Searches ---------------------------------------------------------------------------------

SEARCHES = ["/bots/?q={}", "/bots/?format=csv&q={}", "/search/?q={}", "/admin/bots/bot/?q={}"]


def found(client, address):
    answer = client.get(address)
    return "98765432100" in b"".join(answer).decode()


@pytest.mark.parametrize("address", SEARCHES)
@pytest.mark.parametrize("words", ["S3", "S3CRET", "pwd S3", "acme S3CRET", "#pwd S3"])
def test_a_search_does_not_help_to_guess_a_passcode(viewer, bot, address, words):
    assert not found(viewer, address.format(words.replace("#", "%23").replace(" ", "+")))


@pytest.mark.parametrize("address", SEARCHES)
@pytest.mark.parametrize("words", ["acme.zoom", "https://acme.zoom.us/j/98765432100?pwd=wrong"])
def test_a_search_finds_the_readable_part_of_an_address(viewer, bot, address, words):
    assert found(viewer, address.format(words.replace("?", "%3F")))


SECRET_PATHS = [
    "https://98765432100.example/join/pwd=S3CRET",
    "https://98765432100.example/hooks/S3CRET",
    "https://98765432100.example/j/5#/room/passcode=S3CRET",
    "https://98765432100.example/j/6/token/eyJhbGciOiJIUzI1NiJ9.S3CRET",
    "https://98765432100.example/j/77%3Fpwd%3DS3CRET",
    "https://98765432100.example/j/77%253Fpwd%253DS3CRET",
    "https://98765432100.example/j/%70wd=S3CRET",
]


@pytest.mark.parametrize("meeting", SECRET_PATHS)
@pytest.mark.parametrize("address", SEARCHES)
def test_a_search_finds_no_secret_in_the_path_of_an_address(viewer, address, meeting):
    BotFactory(platform="zoom", meeting_url=meeting)
    assert "S3CRET" not in masked_address(meeting)
    for words in ("S3", "S3CRET", "example S3CRET", "=S3", "example%2F S3CRET"):
        assert not found(viewer, address.format(words.replace(" ", "+")))
    # Who pastes the address finds it by what is shown.
    for words in ("98765432100", quote(meeting, safe="")):
        assert found(viewer, address.format(words))


def test_a_bot_is_stored_with_what_pages_show_of_its_address():
    request = BotRequest(meeting_url=MEETING, platform="zoom")
    bot = request_bot(request, actor="test")
    bot.refresh_from_db()
    assert bot.shown_address == masked_address(MEETING)
