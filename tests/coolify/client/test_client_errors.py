"""Every way in which Coolify, or a proxy in front of it, can fail."""

import socket
import threading
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from coolify.client import Coolify, transport
from coolify.client.errors import (
    AbilityMissing,
    AddressNotAllowed,
    ApiDisabled,
    CoolifyError,
    MalformedAnswer,
    MethodChanged,
    NotFound,
    RateLimited,
    Refused,
    Unauthenticated,
    Unavailable,
    Unreachable,
    WrongAddress,
)
from coolify.client.image import Image
from tests.simulated_coolify import wait_until

PAGE = b"<!DOCTYPE html><html><body>Log in</body></html>"


# --- Lists that are not lists ---------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"message": "ok"},
        {"data": []},
        None,
        "",
        [None],
        [{"name": "an application without its uuid"}],
        [{"uuid": None}],
        [{"uuid": ""}],
        [[]],
        b"",
        b"[",
        b"[]]",
        PAGE,
    ],
)
def test_a_broken_list_is_never_an_empty_one(scripted, client, body):
    scripted.answers(body)
    with pytest.raises(MalformedAnswer) as caught:
        client.applications()
    assert not caught.value.permanent
    assert not caught.value.maybe_done


@pytest.mark.parametrize("body", [{}, {"message": "x"}, {"0": {}}, {"0": "x"}, None, [{}], PAGE])
def test_a_broken_list_of_deployments_is_never_an_empty_one(scripted, client, body):
    scripted.answers(body)
    with pytest.raises(MalformedAnswer):
        client.deployments()


@pytest.mark.parametrize("body", [{"count": 0}, {"count": 0, "deployments": None}, {}, "x"])
def test_a_broken_history_is_never_an_empty_one(scripted, client, body):
    scripted.answers(body)
    with pytest.raises(MalformedAnswer):
        client.application_deployments("app-1")


@pytest.mark.parametrize("body", [{}, {"message": "x"}, [{"status": "running"}], None, PAGE])
def test_broken_resources_of_a_server_are_never_none(scripted, client, body):
    scripted.answers(body)
    with pytest.raises(MalformedAnswer):
        client.server_resources("server-1")


@pytest.mark.parametrize("read", ["servers", "projects"])
def test_other_lists_are_as_strict(scripted, client, read):
    scripted.answers({"message": "ok"})
    with pytest.raises(MalformedAnswer):
        getattr(client, read)()


def test_a_page_instead_of_an_application_is_malformed(scripted, client):
    scripted.answers(PAGE)
    with pytest.raises(MalformedAnswer, match="HTML page"):
        client.application("app-1")


def test_a_stop_answered_with_a_page_may_be_done(scripted, client):
    scripted.answers(PAGE)
    with pytest.raises(MalformedAnswer) as caught:
        client.stop("app-1")
    assert caught.value.maybe_done


# --- Not found ------------------------------------------------------------------------------


@pytest.mark.parametrize("message", ["Application not found.", "Application not found"])
def test_an_application_that_is_gone_is_not_found(scripted, client, message):
    scripted.answers({"message": message}, status=404)
    with pytest.raises(NotFound) as caught:
        client.stop("app-1")
    assert caught.value.thing == "application"
    assert caught.value.permanent


@pytest.mark.parametrize(
    "body",
    [
        {"message": "Not found.", "docs": "https://coolify.io/docs"},
        {"message": "Route not found.", "docs": "https://coolify.io/docs"},
        {"message": "Not found."},
        {},
    ],
)
def test_an_unknown_route_is_not_a_missing_application(scripted, client, body):
    scripted.answers(body, status=404)
    with pytest.raises(WrongAddress, match="COOLIFY_API_URL"):
        client.application("app-1")


@pytest.mark.parametrize("body", [b"404 page not found\n", PAGE])
def test_a_proxys_404_is_not_a_missing_application(scripted, client, body):
    scripted.answers(body, status=404)
    with pytest.raises(Unavailable) as caught:
        client.stop("app-1")
    assert not caught.value.permanent


def test_a_redirect_is_not_followed(scripted, client):
    scripted.answers(b"", status=302, Location="https://coolify.example/login?next=x")
    with pytest.raises(WrongAddress, match=r"https://coolify\.example/login"):
        client.start("app-1")
    assert len(scripted.asked) == 1


# --- Refusals, in every shape ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "body", "errors"),
    [
        (422, {"message": "Validation failed.", "errors": {"name": ["Bad."]}}, {"name": ["Bad."]}),
        (422, {"message": "Validation failed.", "errors": {"name": "Bad."}}, {"name": ["Bad."]}),
        (422, {"message": "Validation failed.", "errors": "Bad."}, {"": ["Bad."]}),
        (422, {"message": "Validation failed.", "errors": ["Bad."]}, {"": ["Bad."]}),
        (422, "Bad.", {"": ["Bad."]}),
        (422, ["Bad."], {"": ["Bad."]}),
        (400, {"message": "Invalid request.", "error": "Bad."}, {"": ["Bad."]}),
        (409, {"message": "Bad."}, {}),
        (403, {"message": "Bad."}, {}),
        (422, {"errors": None, "message": "Bad."}, {}),
    ],
)
def test_a_refusal_gives_its_reasons(scripted, client, status, body, errors):
    scripted.answers(body, status=status)
    with pytest.raises(Refused, match=r"Bad\.") as caught:
        client.update_application("app-1", description="x")
    assert caught.value.errors == errors
    assert caught.value.status == status
    assert caught.value.permanent


def test_a_refusal_that_is_a_page_is_not_coolifys(scripted, client):
    scripted.answers(PAGE, status=400)
    with pytest.raises(MalformedAnswer):
        client.stop("app-1")


# --- The token ------------------------------------------------------------------------------


@pytest.mark.parametrize("message", ["Unauthenticated.", "Invalid token."])
def test_an_unknown_token_is_reported(scripted, client, message):
    scripted.answers({"message": message}, status=401)
    with pytest.raises(Unauthenticated, match="COOLIFY_API_TOKEN") as caught:
        client.applications()
    assert caught.value.permanent


def test_a_missing_ability_is_named(scripted, client):
    scripted.answers({"message": "Missing required permissions: deploy"}, status=403)
    with pytest.raises(AbilityMissing, match="lacks the ability deploy") as caught:
        client.start("app-1")
    assert caught.value.ability == "deploy"


def test_a_disabled_api_is_reported(scripted, client):
    scripted.answers({"success": True, "message": "API is disabled."}, status=403)
    with pytest.raises(ApiDisabled, match="Settings"):
        client.applications()


def test_an_address_that_is_not_allowed_is_reported(scripted, client):
    message = "You are not allowed to access the API."
    scripted.answers({"success": True, "message": message}, status=403)
    with pytest.raises(AddressNotAllowed, match="Allowed IPs"):
        client.applications()


def test_a_changed_method_is_reported(scripted, client):
    message = "This endpoint has changed to a POST request."
    scripted.answers({"message": message}, status=405)
    with pytest.raises(MethodChanged, match="changed to a POST") as caught:
        client.stop("app-1")
    assert caught.value.permanent


# --- Too many calls -------------------------------------------------------------------------


def test_a_429_says_when_to_come_back_and_is_never_repeated(scripted, client):
    scripted.answers({"message": "Too Many Attempts."}, status=429, Retry_After="17")
    with pytest.raises(RateLimited) as caught:
        client.applications()
    assert caught.value.retry_after == 17
    assert not caught.value.permanent
    assert len(scripted.asked) == 1


@pytest.mark.parametrize("header", ["", "soon", "nan"])
def test_a_429_without_a_usable_time_means_a_minute(scripted, client, header):
    scripted.answers(PAGE, status=429, Retry_After=header)
    with pytest.raises(RateLimited) as caught:
        client.applications()
    assert caught.value.retry_after == 60


@pytest.mark.parametrize(("header", "seconds"), [("-5", 0), ("999999", 3600), ("inf", 3600)])
def test_a_429_with_an_absurd_time_is_limited(scripted, client, header, seconds):
    scripted.answers({}, status=429, Retry_After=header)
    with pytest.raises(RateLimited) as caught:
        client.applications()
    assert caught.value.retry_after == seconds


def test_a_429_may_give_a_date(scripted, client):
    later = format_datetime(datetime.now(UTC) + timedelta(seconds=600), usegmt=True)
    scripted.answers({}, status=429, Retry_After=later)
    with pytest.raises(RateLimited) as caught:
        client.applications()
    assert 400 < caught.value.retry_after <= 600


# --- Coolify is down ------------------------------------------------------------------------


@pytest.mark.parametrize("status", [500, 502, 503, 504])
@pytest.mark.parametrize("body", [{"message": "Server Error"}, PAGE])
def test_a_server_error_is_temporary(scripted, client, status, body):
    scripted.answers(body, status=status)
    with pytest.raises(Unavailable) as caught:
        client.applications()
    assert caught.value.status == status
    assert not caught.value.permanent


def test_a_read_is_tried_twice(scripted, client):
    scripted.answers({"message": "Bad Gateway"}, status=502)
    scripted.answers([])
    assert client.applications() == []
    assert len(scripted.asked) == 2


def test_a_read_is_not_tried_three_times(scripted, client):
    scripted.answers({"message": "Bad Gateway"}, status=502)
    with pytest.raises(Unavailable):
        client.applications()
    assert len(scripted.asked) == 2


def test_a_read_survives_a_lost_connection(scripted, client):
    scripted.breaks_off()
    scripted.answers([])
    assert client.applications() == []


CHANGES = {
    "start": lambda client: client.start("app-1"),
    "stop": lambda client: client.stop("app-1"),
    "delete": lambda client: client.delete_application("app-1"),
    "describe": lambda client: client.update_application("app-1", description="x"),
    "set_envs": lambda client: client.set_envs("app-1", {"A": "1"}),
    "create": lambda client: client.create_application(
        project_uuid="p", server_uuid="s", environment_name="e", image=Image("bot"), name="n"
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_is_never_repeated_and_may_be_done(scripted, client, change):
    scripted.answers({"message": "Server Error"}, status=500)
    with pytest.raises(Unavailable) as caught:
        CHANGES[change](client)
    assert len(scripted.asked) == 1
    assert caught.value.maybe_done


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_whose_answer_is_lost_may_be_done(scripted, client, change):
    scripted.breaks_off()
    with pytest.raises(Unreachable, match="answer was lost") as caught:
        CHANGES[change](client)
    assert len(scripted.asked) == 1
    assert caught.value.maybe_done


def test_half_an_answer_is_an_error(scripted, client):
    def half_an_answer(handler):
        handler.send_response(200)
        handler.send_header("Content-Length", "100")
        handler.end_headers()
        handler.wfile.write(b"[]")
        handler.close_connection = True

    scripted.acts(half_an_answer)
    with pytest.raises(Unreachable):
        client.applications()


def test_a_refused_connection_sends_nothing():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        client = Coolify(f"http://127.0.0.1:{unused.getsockname()[1]}/api/v1", "t")
        with pytest.raises(Unreachable, match="Nothing was sent") as caught:
            client.start("app-1")
    assert not caught.value.maybe_done


def test_https_to_a_plain_server_is_not_called_a_bad_certificate(scripted):
    client = Coolify(scripted.url.replace("http://", "https://"), "t")
    with pytest.raises(Unreachable, match=r"may serve http:// only\. Nothing was sent"):
        client.version()


def test_a_silent_server_does_not_block_the_caller(scripted):
    over = threading.Event()
    scripted.acts(lambda handler: over.wait(30))
    began = time.monotonic()
    with pytest.raises(Unreachable, match="within the timeout") as caught:
        Coolify(scripted.url, "t", timeout=0.5).stop("app-1")
    over.set()
    assert time.monotonic() - began < 15
    assert caught.value.maybe_done


def test_a_read_that_used_up_its_time_is_not_repeated(scripted):
    over = threading.Event()
    scripted.acts(lambda handler: over.wait(30))
    with pytest.raises(Unreachable):
        Coolify(scripted.url, "t", timeout=0.5).applications()
    over.set()
    wait_until(lambda: scripted.asked)
    assert len(scripted.asked) == 1


def test_an_answer_that_drips_does_not_block_the_caller(scripted):
    over = threading.Event()

    def drip(handler):
        handler.send_response(200)
        handler.send_header("Content-Length", "1000000")
        handler.end_headers()
        handler.close_connection = True
        while not over.wait(0.1):
            handler.wfile.write(b" ")
            handler.wfile.flush()

    scripted.acts(drip)
    began = time.monotonic()
    with pytest.raises(Unreachable, match="within the timeout"):
        Coolify(scripted.url, "t", timeout=1).applications()
    over.set()
    assert time.monotonic() - began < 15


def test_an_endless_answer_is_cut(scripted, client, monkeypatch):
    monkeypatch.setattr(transport, "MAX_ANSWER_BYTES", 1000)
    scripted.answers(["x" * 2000])
    with pytest.raises(MalformedAnswer, match="larger"):
        client.applications()


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 409, 422, 429, 500, 502])
def test_no_error_shows_the_token(scripted, client, status):
    scripted.answers({"message": "No."}, status=status)
    with pytest.raises(CoolifyError) as caught:
        client.start("app-1")
    assert "secret" not in str(caught.value) + repr(caught.value)
