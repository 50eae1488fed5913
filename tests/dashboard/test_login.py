"""Login, its limits, and the security of pages."""

import pytest
from django.contrib.auth.forms import AuthenticationForm
from django.db.models import F
from django.test import Client

from dashboard import login as page
from dashboard.login import prune_login_failures
from dashboard.models import LoginFailure
from tests.dashboard.conftest import PASSWORD, logged_in, make_user


def attempt(client, password, *, name="vera", forwarded_for="", peer="127.0.0.1"):
    return client.post(
        "/login/",
        {"username": name, "password": password},
        headers={"X-Forwarded-For": forwarded_for},
        REMOTE_ADDR=peer,
    )


def test_the_right_password_logs_in(client, db):
    make_user("vera", "viewer", password=PASSWORD)
    assert attempt(client, PASSWORD)["Location"] == "/"


def test_it_refuses_even_the_right_password_after_too_many_wrong_ones(client, db):
    make_user("vera", "viewer", password=PASSWORD)
    for _ in range(page.FAILURES_OF_A_NAME):
        assert attempt(client, "guess").status_code == 200
    assert attempt(client, PASSWORD).status_code == 429
    # Upper case does not make it a different name.
    assert attempt(client, PASSWORD, name="VERA").status_code == 429


def test_attempts_at_once_count_before_their_password_is_checked(client, db, monkeypatch):
    monkeypatch.setattr(page, "FAILURES_OF_A_NAME", 1)
    make_user("vera", "viewer", password=PASSWORD)
    check, beside = AuthenticationForm.clean, []

    def slow_check(form):
        monkeypatch.setattr(AuthenticationForm, "clean", check)
        beside.append(attempt(Client(), PASSWORD).status_code)
        return check(form)

    monkeypatch.setattr(AuthenticationForm, "clean", slow_check)
    assert attempt(client, "guess").status_code == 200
    assert beside == [429]


def test_a_right_password_does_not_count(client, db):
    make_user("vera", "viewer", password=PASSWORD)
    attempt(client, PASSWORD)
    assert not LoginFailure.objects.exists()


def test_the_lock_ends_after_a_while(client, db):
    make_user("vera", "viewer", password=PASSWORD)
    for _ in range(page.FAILURES_OF_A_NAME):
        attempt(client, "guess")
    LoginFailure.objects.update(at=F("at") - page.WITHIN)
    assert attempt(client, PASSWORD).status_code == 302


def test_one_address_cannot_try_many_names(client, db, monkeypatch):
    monkeypatch.setattr(page, "FAILURES_OF_AN_ADDRESS", 5)
    make_user("vera", "viewer", password=PASSWORD)
    for n in range(5):
        attempt(client, "guess", name=f"name{n}")
    assert attempt(client, PASSWORD).status_code == 429


def test_behind_a_proxy_one_client_does_not_lock_out_the_others(client, db, monkeypatch):
    monkeypatch.setattr(page, "FAILURES_OF_AN_ADDRESS", 5)
    make_user("vera", "viewer", password=PASSWORD)
    for n in range(6):
        attempt(client, "guess", name=f"name{n}", forwarded_for="198.51.100.7")
    assert attempt(client, "guess", name="x", forwarded_for="198.51.100.7").status_code == 429
    assert attempt(client, PASSWORD, forwarded_for="203.0.113.9").status_code == 302


@pytest.mark.parametrize(
    ("peer", "forwarded", "counted"),
    [
        (
            "127.0.0.1",
            "198.51.100.1, 203.0.113.9",
            "203.0.113.9",
        ),  # the last entry is the proxy's own
        ("127.0.0.1", "2001:DB8:0::9", "2001:db8::9"),  # canonical form
        ("127.0.0.1", "nonsense", "127.0.0.1"),
        ("127.0.0.1", f"fe80::1%{'x' * 200}", "127.0.0.1"),
        ("10.1.2.3", "203.0.113.9", "203.0.113.9"),  # in the network of proxies
        ("127.0.0.1", "", "127.0.0.1"),
        ("192.0.2.1", "203.0.113.9", "192.0.2.1"),  # not a trusted proxy
    ],
)
def test_the_counted_address_cannot_be_forged(client, db, settings, peer, forwarded, counted):
    settings.FORWARDED_ALLOW_IPS = ["127.0.0.1", "10.0.0.0/8"]
    attempt(client, "guess", forwarded_for=forwarded, peer=peer)
    assert LoginFailure.objects.get().address == counted


def test_old_failures_are_deleted(client, db):
    attempt(client, "guess")
    assert prune_login_failures() == 0
    LoginFailure.objects.update(at=F("at") - 5 * page.WITHIN)
    assert prune_login_failures() == 1


@pytest.fixture
def reader(client, db):
    """Staff that may see everything, after failed logins of a user and of no user."""
    make_user("otto", "operator")
    attempt(client, "guess", name="OTTO")
    attempt(client, "guess", name="my password")
    return logged_in(make_user("vera", "viewer", is_staff=True))


FAILURES = "/admin/botpool/loginfailure/"


def test_the_admin_shows_failed_logins_of_users_by_name(reader):
    page = reader.get(FAILURES).text
    assert "otto" in page
    assert "(no such user)" in page
    assert reader.get(FAILURES, {"q": "Otto"}).context["cl"].result_count == 1


def test_what_was_typed_as_a_name_that_no_user_has_is_not_shown(reader):
    """It may be a password in the wrong field."""
    addresses = [FAILURES, *(f"{FAILURES}?o={n}" for n in (1, 2, 3))]
    addresses += [f"{FAILURES}{failure.pk}/change/" for failure in LoginFailure.objects.all()]
    for address in addresses:
        page = reader.get(address)
        assert (page.status_code, "my password" in page.text) == (200, False), address
    assert reader.get(FAILURES, {"q": "my password"}).context["cl"].result_count == 0


def test_pages_have_a_strict_policy(viewer):
    policy = viewer.get("/")["Content-Security-Policy"]
    assert "default-src 'self'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy


def test_pages_have_no_inline_script_or_style(administrator):
    for address in ("/", "/slots/", "/queue/", "/activity/", "/admin/"):
        html = administrator.get(address).text
        assert "<style" not in html
        assert ' style="' not in html
        assert "<script>" not in html
        assert " onclick" not in html


def test_a_form_from_another_site_is_refused(db):
    client = Client(enforce_csrf_checks=True)
    client.force_login(make_user("otto", "operator"))
    assert client.post("/actions/force-release/", {"reason": "x"}).status_code == 403


def test_a_form_from_before_a_login_is_refused_with_an_explanation(db):
    client = Client(enforce_csrf_checks=True)
    client.force_login(make_user("otto", "operator"))
    answer = client.post("/bots/new/", {})
    assert answer.status_code == 403
    assert "logged in or out" in answer.text
    assert "botpool.css" in answer.text


def test_a_link_does_not_log_out(viewer):
    assert viewer.get("/logout/").url == "/"
    assert viewer.get("/").status_code == 200


def test_the_button_logs_out(viewer):
    assert viewer.post("/logout/").url == "/login/"
    assert viewer.get("/").status_code == 302


NEW = "staple battery horse correct"


def test_every_user_can_change_their_own_password(client, db):
    make_user("vera", "viewer", password=PASSWORD)
    attempt(client, PASSWORD)
    assert 'href="/password/"' in client.get("/").text
    form = {"old_password": PASSWORD, "new_password1": NEW, "new_password2": NEW}
    page = client.post("/password/", form, follow=True)
    assert "Password changed" in page.text
    assert attempt(Client(), PASSWORD).status_code == 200
    assert attempt(Client(), NEW).status_code == 302


def test_the_old_password_is_needed_to_change_it(client, db):
    make_user("vera", "viewer", password=PASSWORD)
    attempt(client, PASSWORD)
    form = {"old_password": "guess", "new_password1": NEW, "new_password2": NEW}
    assert "incorrectly" in client.post("/password/", form).text
    assert attempt(Client(), PASSWORD).status_code == 302


def test_guesses_of_the_old_password_are_limited_like_logins(client, db):
    make_user("vera", "viewer", password=PASSWORD)
    attempt(client, PASSWORD)
    form = {"new_password1": NEW, "new_password2": NEW}
    for _ in range(page.FAILURES_OF_A_NAME):
        assert client.post("/password/", {"old_password": "guess", **form}).status_code == 200
    answer = client.post("/password/", {"old_password": PASSWORD, **form})
    assert answer.status_code == 429
    assert "Too many failed attempts. Try again in 15 minutes." in answer.text
    # The same counters: the login is closed, too.
    assert attempt(Client(), PASSWORD).status_code == 429


def test_a_right_old_password_does_not_count(client, db):
    make_user("vera", "viewer", password=PASSWORD)
    attempt(client, PASSWORD)
    client.post("/password/", {"old_password": PASSWORD, "new_password1": "a", "new_password2": ""})
    assert not LoginFailure.objects.exists()


@pytest.mark.parametrize("method", ["get", "post"])
def test_the_admin_has_no_other_page_to_change_a_password(administrator, method):
    answer = getattr(administrator, method)("/admin/password_change/")
    assert (answer.status_code, answer["Location"]) == (302, "/password/")


def test_the_admin_says_that_it_is_for_staff_only(viewer):
    page = viewer.get("/admin/", follow=True)
    assert page.status_code == 403
    assert "staff status" in page.text
