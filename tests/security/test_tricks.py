"""Malicious requests."""

import io
import logging
import re
import sys
from urllib.parse import urlencode

import pytest
from django.contrib.auth.models import User
from django.test import Client

from api.keys import create_api_key
from api.webhooks.addresses import WrongWebhookAddress, check_webhook_address, find_target
from botpool.wsgi import Utf8Request, django_application
from bots.models import Bot
from bots.status import Platform
from core.logs import JsonFormatter, TextFormatter
from dashboard.lists.csv_export import csv_file
from dashboard.notifications.services import WrongAddress, check_address
from pool.assign import assign_bot_to_slot
from slots.history import note
from slots.models import Slot
from slots.tokens import make_bot_token
from tests.factories import BotFactory, SlotFactory
from tests.security.addresses import PUBLIC, a_bot, paths, routes

pytestmark = pytest.mark.django_db

MEETING = "https://meet.google.com/abc-defg-hij"
PASSWORD = "correct horse battery staple"


@pytest.fixture
def api() -> Client:
    return Client(headers={"Authorization": f"Bearer {create_api_key(name='client')}"})


@pytest.fixture
def root() -> Client:
    client = Client(raise_request_exception=False)
    client.force_login(User.objects.create_superuser("root"))
    return client


@pytest.fixture
def slot() -> Slot:
    """A slot with a bot."""
    SlotFactory()
    held = assign_bot_to_slot(BotFactory(), reason="test", actor="test")
    assert held is not None
    return held


def call_as_bot(token: str, path: str) -> int:
    return Client(headers={"Authorization": f"Bearer {token}"}).post(path).status_code


# --- Guessing --------------------------------------------------------------------------------


def test_a_forged_bot_token_is_refused(slot):
    token = make_bot_token(slot)
    path = f"/api/v1/bots/{slot.assigned_bot_id}/heartbeat"
    assert call_as_bot(token, path) == 200
    claim, _, mac = token.rpartition(".")
    bot, place, epoch = claim.split(".")
    other = "A" if mac[-1] != "A" else "B"
    forged = [f"{claim}.{mac[:-2]}{other}{other}", f"{claim}.", f"{claim}.{mac.lower()}x"]
    forged += [f"{bot}.{place}.e{slot.epoch + 1}.{mac}", f"b999.{place}.{epoch}.{mac}"]
    forged += [f"{bot}.s999.{epoch}.{mac}", token + "=", token.replace(".", "。", 1)]
    for guess in forged:
        assert call_as_bot(guess, path) == 401, guess


def test_a_bot_cannot_find_out_which_bots_exist(slot):
    other = BotFactory()
    client = Client(headers={"Authorization": f"Bearer {make_bot_token(slot)}"})
    real = client.post(f"/api/v1/bots/{other.pk}/heartbeat")
    unreal = client.post("/api/v1/bots/999999/heartbeat")
    assert real.status_code == unreal.status_code == 404
    assert real.json()["detail"].replace(str(other.pk), "") == unreal.json()["detail"].replace(
        "999999", ""
    )


def test_unknown_and_malformed_keys_get_the_same_answer():
    answers = {
        Client(headers={"Authorization": f"Bearer {key}"}).get("/api/v1/bots").content
        for key in ("bp_" + "a" * 43, "bp_", "x" * 5000, "a\x00b")
    }
    assert len(answers) == 1


def test_login_attempts_are_limited():
    User.objects.create_user("otto", password=PASSWORD)
    client = Client()
    for _ in range(10):
        client.post("/login/", {"username": "otto", "password": "wrong"})
    answer = client.post("/login/", {"username": "otto", "password": PASSWORD})
    assert answer.status_code == 429


# --- Redirects -------------------------------------------------------------------------------


ELSEWHERE = [
    "https://evil.example/",
    "//evil.example/",
    "///evil.example",
    "/\\evil.example",
    "\\\\evil.example",
    "javascript:alert(1)",
    "http:evil.example",
    "https:/evil.example",
    "/%09/evil.example",
    "\t//evil.example",
    "data:text/html,x",
]


@pytest.mark.parametrize("target", ELSEWHERE)
def test_the_login_does_not_redirect_to_other_sites(client, target):
    User.objects.create_user("otto", password=PASSWORD)
    form = {"username": "otto", "password": PASSWORD, "next": target}
    answer = client.post("/login/", form)
    assert answer.status_code == 302
    location = answer["Location"]
    assert location.startswith("/") and not location.startswith(("//", "/\\")), location
    assert "evil" not in location or location.startswith("/%09")


@pytest.mark.parametrize("target", [*ELSEWHERE, "evil.example/", "\n/slots/", "/\t/evil.example"])
def test_an_action_does_not_redirect_to_other_sites(root, target):
    path = "/actions/cordon/?" + urlencode({"next": target})
    answer = root.post(path, {"targets": "[]", "reason": "x"})
    assert answer["Location"] in ("/slots/", "/%09/evil.example")
    assert f'href="{answer["Location"]}">Back</a>' in root.get(path).text


# --- Webhooks and meetings -------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    [
        "http://2130706433/",
        "http://0x7f000001/",
        "http://0177.0.0.1/",
        "http://127.1/",
        "http://0/",
        "http://[::]/",
        "http://[::ffff:10.0.0.1]/",
        "http://[64:ff9b::7f00:1]/",
        "http://[64:ff9b:1::7f00:1]/",
        "http://[::7f00:1]/",
        "http://[fec0::1]/",
        "http://[::ffff:0:10.0.0.1]/",
        "http://[::ffff:0:8.8.8.8]/",
        "http://[3fff::1]/",
        "http://[5f00::1]/",
        "http://[100::1]/",
        "http://[100:0:0:1::1]/",
        "http://[2001::1]/",
        "http://[2001:2::1]/",
        "http://[2001:10::1]/",
        "http://[2001:db8::1]/",
        "http://[4000::1]/",
        "http://[fd00::1]/",
        "http://[fe80::1]/",
        "http://[ff0e::1]/",
        "http://192.0.0.8/",
        "http://192.0.2.1/",
        "http://192.88.99.1/",
        "http://198.18.0.1/",
        "http://198.51.100.1/",
        "http://203.0.113.1/",
        "http://224.0.0.1/",
        "http://240.0.0.1/",
        "http://255.255.255.255/",
        "http://[64:ff9b::c0a8:1]/",
        "http://[2002:a00:1::]/",
        "http://100.64.0.1/",
        "http://localhost/",
        "http://localhost./",
        "ftp://example.com/",
        "file:///etc/passwd",
        "gopher://example.com/",
        "http://user@127.0.0.1/",
        "http://example.com@127.0.0.1/",
    ],
)
def test_webhooks_cannot_reach_private_addresses(url):
    with pytest.raises(WrongWebhookAddress):
        find_target(check_webhook_address(url))


@pytest.mark.parametrize(
    "host",
    ["localhost.", "foo.localhost.", "127.0.0.1.", "127.1.", "0x7f000001.", "168.63.129.16"],
)
def test_a_private_address_is_refused_without_dns(host):
    with pytest.raises(WrongWebhookAddress):
        check_webhook_address(f"https://{host}/hook")
    with pytest.raises(WrongAddress):
        check_address(f"mailto://user:pw@{host}?to=ops@example.com")


@pytest.mark.parametrize("ip", ["8.8.8.8", "[2606:4700::1111]", "[64:ff9b::808:808]"])
def test_webhooks_reach_public_addresses(ip):
    assert check_webhook_address(f"https://{ip}/hook")


def test_a_private_meeting_address_is_refused(api, monkeypatch):
    """Botpool never calls the address. Without a platform, an unknown host is refused."""
    inside = "http://169.254.169.254/latest/meta-data"
    answer = api.post("/api/v1/bots", {"meetingUrl": inside}, content_type="application/json")
    assert answer.status_code == 422
    assert not Bot.objects.exists()


# --- Injection -------------------------------------------------------------------------------


@pytest.mark.parametrize("formatter", [TextFormatter(), JsonFormatter()])
def test_log_lines_cannot_be_forged(slot, formatter):
    output = io.StringIO()
    handler = logging.StreamHandler(output)
    handler.setFormatter(formatter)
    logger = logging.getLogger("bots.moves")
    evil = "over\n2026-01-01T00:00:00.000Z ERROR   forged\r\x1b[2J\u2028forged"
    logger.addHandler(handler)
    try:
        logger.warning('reason="%s"', evil)
    finally:
        logger.removeHandler(handler)
    text = output.getvalue()
    assert len(text.splitlines()) == 1, text
    assert "\x1b" not in text


def test_a_reason_cannot_pretend_to_be_another_field(
    slot, caplog, django_capture_on_commit_callbacks
):
    evil = 'over" | bot=99 | reason="forged'
    with caplog.at_level(logging.INFO), django_capture_on_commit_callbacks(execute=True):
        note(slot, evil, actor="test")
    [line] = [TextFormatter().format(each) for each in caplog.records if "forged" in each.message]
    assert r'reason="over\" | bot=99 | reason=\"forged"' in line


def test_the_text_of_an_error_cannot_forge_a_log_line():
    try:
        raise ValueError("Key (name)=(x\n2026-01-01T00:00:00.000Z ERROR   forged\x1b[2J)")
    except ValueError:
        record = logging.LogRecord("x", logging.ERROR, "x", 1, "failed", (), sys.exc_info())
    first, *rest = TextFormatter().format(record).splitlines()
    assert "forged" not in first
    assert rest and all(line.startswith("    ") for line in rest)
    assert not any("\x1b" in line for line in rest)


def test_text_in_a_log_line_cannot_turn_its_direction():
    record = logging.LogRecord("x", logging.INFO, "x", 1, "name=\u202eevil\u2066", (), None)
    assert "\u202e" not in TextFormatter().format(record)
    assert "\u2066" not in TextFormatter().format(record)


FORMULAS = ["=1+1", " =1+1", "+1", "-1+1", "@sum(1)", "\t=1", "x;=1+1", "x\n=1+1", "＝1+1"]


@pytest.mark.parametrize("evil", FORMULAS)
def test_a_spreadsheet_runs_no_text_of_an_export(evil):
    """Where the comma is a decimal point, spreadsheets split cells at semicolons."""
    _, line = b"".join(csv_file("x", ["name"], [[evil]])).decode().split("\r\n", 1)
    cells = re.split(r"[;\n]", line.strip().strip('"'))
    assert not any(re.match(r"\s*[=+@＝-]", cell) for cell in cells), cells


@pytest.mark.parametrize("evil", ["a\r\nX-Evil: 1", "a\nb", "x" * 65, "ä", "a b", ""])
def test_an_invalid_correlation_id_is_replaced(client, evil):
    answer = client.get("/healthz", headers={"X-Correlation-Id": evil})
    assert answer["X-Correlation-Id"] != evil
    assert "X-Evil" not in answer.headers


@pytest.mark.parametrize("name", ["sessionid", "csrftoken", "messages", "other"])
@pytest.mark.parametrize("path", ["/", "/login/", "/admin/login/", "/nothing", "/api/v1/docs"])
def test_a_nul_in_a_cookie_is_no_cookie(db, path, name):
    """Python reads "\\000" in a quoted cookie as NUL."""
    cookie = {"Cookie": f'{name}="\\000aaaaaaaa"'}
    answer = Client(raise_request_exception=False).get(path, headers=cookie)
    assert answer.status_code in (200, 302, 404)


@pytest.mark.parametrize("name", ["a%0d%0aSet-Cookie:%20x=1", "%00", "..%2f..%2fetc", "%ff%fe"])
def test_malformed_names_in_paths_are_not_found(root, api, name):
    for path in (f"/slots/{name}/", f"/bots/{name}/", f"/actions/{name}/", f"/static/{name}"):
        answer = root.get(path)
        assert answer.status_code in (400, 404), (path, answer.status_code)
        assert "x" not in answer.cookies
    answer = api.post(f"/api/v1/slots/{name}/release", {}, content_type="application/json")
    assert answer.status_code in (400, 403, 404)


@pytest.mark.parametrize(
    "path",
    [
        "/static/../botpool/settings.py",
        "/static/..%2fbotpool/settings.py",
        "/static/%2e%2e/%2e%2e/etc/passwd",
        "/static/botpool/../../manage.py",
        "//evil.example/slots/",
        "/api/v1/../../admin/",
        "/slots/../admin/",
    ],
)
def test_paths_cannot_be_traversed(path):
    answer = Client().get(path)
    assert answer.status_code in (302, 400, 404), answer.status_code
    assert b"SECRET_KEY" not in b"".join(answer)
    assert "evil" not in answer.headers.get("Location", "").split("?")[0]


HOSTILE = ["\x00", "'", '"><script>alert(1)</script>', "%", "-1", "9" * 30, "ä" * 300, "{{7*7}}"]


@pytest.mark.parametrize("word", HOSTILE, ids=range(len(HOSTILE)))
def test_no_page_fails_on_hostile_parameters(root, word):
    slot, bot = SlotFactory(), a_bot()
    names = ("q", "status", "platform", "page", "cursor", "show", "sort", "live", "item", "before")
    query = dict.fromkeys(names, word)
    for route in routes():
        if route.startswith(("admin/", "api/")) or route in PUBLIC:
            continue
        for path in paths(route, slot=slot, bot=bot):
            answer = root.get(path, query)
            assert answer.status_code < 500, (path, answer.status_code)
            assert b"<script>alert(1)" not in b"".join(answer), path


def test_bot_names_are_escaped_on_every_page(root, api):
    evil = '<img src=x onerror="alert(1)">'
    body = {"meetingUrl": MEETING, "botDisplayName": evil, "platform": Platform.GOOGLE_MEET}
    bot = api.post("/api/v1/bots", body, content_type="application/json").json()["bot"]
    for path in ("/bots/", f"/bots/{bot['id']}/", "/queue/", "/", "/activity/"):
        assert b"<img src=x" not in root.get(path).content, path


# --- Charsets --------------------------------------------------------------------------------


FORM = "application/x-www-form-urlencoded"


@pytest.fixture
def _request_of_the_web_server(monkeypatch):
    """Django's test client does not use the class of requests that the application uses."""
    assert django_application.request_class is Utf8Request
    monkeypatch.setattr("django.test.client.WSGIRequest", Utf8Request)


def log_in(content_type: str, body: bytes, *, path: str = "/login/"):
    client = Client(enforce_csrf_checks=True, raise_request_exception=False)
    client.cookies["csrftoken"] = "a" * 32
    return client.generic("POST", path, body, content_type)


@pytest.mark.usefixtures("_request_of_the_web_server")
@pytest.mark.parametrize("charset", ["iso-8859-1", "utf-16", "zlib", "nonsense"])
def test_a_form_in_another_charset_is_refused_with_one_line(caplog, charset):
    answer = log_in(f"{FORM}; charset={charset}", b"a=b")
    assert answer.status_code == 415
    assert "UTF-8" in answer.text
    [line] = caplog.records
    assert (line.levelname, line.exc_info) == ("WARNING", None)


@pytest.mark.parametrize("path", ["/", "/admin/", "/nowhere/", "/readyz", "/api/v1/bots"])
def test_a_form_in_another_charset_is_refused_on_every_path(path):
    assert log_in(f"{FORM}; charset=utf-16", b"a=b", path=path).status_code == 415


def test_a_form_of_several_parts_in_another_charset_is_refused():
    body = b'--x\r\nContent-Disposition: form-data; name="q"\r\n\r\n1\r\n--x--\r\n'
    answer = log_in("multipart/form-data; boundary=x; charset=utf-16", body)
    assert answer.status_code == 415


@pytest.mark.usefixtures("_request_of_the_web_server")
@pytest.mark.parametrize("charset", ["utf-8", "UTF8", "utf_8", "Utf-8", '"utf-8"'])
def test_utf_8_may_be_spelled_in_any_way(charset):
    token = "a" * 32
    body = f"csrfmiddlewaretoken={token}&username=%C3%A4da&password=x".encode()
    answer = log_in(f"{FORM}; charset={charset}", body)
    assert answer.status_code == 200
    assert answer.context["form"]["username"].value() == "äda"


@pytest.mark.usefixtures("_request_of_the_web_server")
@pytest.mark.parametrize("charset", ["utf-16", "zlib"])
@pytest.mark.parametrize("path", ["/bots/", "/api/v1/bots"])
def test_a_charset_does_not_change_how_an_address_is_read(root, api, path, charset):
    client = api if path.startswith("/api/") else root
    content_type = f"application/json; charset={charset}"
    answer = client.get(path, {"status": "FAILED"}, CONTENT_TYPE=content_type)
    assert answer.status_code == 200
    assert answer.wsgi_request.GET["status"] == "FAILED"


# --- Size ------------------------------------------------------------------------------------


def test_a_body_over_a_megabyte_is_refused(api):
    body = {"meetingUrl": MEETING, "config": {"x": "y" * 1_000_001}}
    assert api.post("/api/v1/bots", body, content_type="application/json").status_code == 413


def test_a_form_over_a_megabyte_is_refused(root):
    form = {"reason": "x" * 1_000_001}
    assert root.post("/actions/force-release/", form).status_code in (400, 403, 413)


def test_deep_nesting_and_many_fields_are_refused(api):
    deep = '{"meetingUrl":' + "[" * 100_000 + "]" * 100_000 + "}"
    answer = api.post("/api/v1/bots", deep, content_type="application/json")
    assert answer.status_code in (400, 422)
    many = "&".join(f"a{n}=1" for n in range(2_000))
    answer = api.post("/login/", many, content_type="application/x-www-form-urlencoded")
    assert answer.status_code == 400
