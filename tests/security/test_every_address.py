"""Every role on every path. New pages are included automatically."""

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client

from api.keys import create_api_key
from dashboard.roles import ADMINISTRATOR, OPERATOR, VIEWER
from pool.assign import assign_bot_to_slot
from slots.models import Slot
from tests.factories import SlotFactory
from tests.security.addresses import HARMLESS, PUBLIC, a_bot, paths, routes

pytestmark = pytest.mark.django_db


def all_paths() -> list[str]:
    slot, bot = SlotFactory(), a_bot()
    wanted = [route for route in routes() if route not in PUBLIC | HARMLESS]
    return [path for route in wanted for path in paths(route, slot=slot, bot=bot)]


def client_of(*roles: str, **fields: bool) -> Client:
    user = User.objects.create_user("-".join(roles) or "norah", **fields)
    user.groups.set(Group.objects.filter(name__in=roles))
    client = Client()
    client.force_login(user)
    return client


def test_the_routes_are_found():
    found = routes()
    assert len(found) > 60
    assert {"", "slots/", "bots/<int:pk>/", "api/v1/bots", "admin/"} <= set(found)


@pytest.mark.parametrize("method", ["get", "post", "put", "patch", "delete", "options"])
def test_an_anonymous_visitor_sees_nothing(method):
    client = Client()
    for path in all_paths():
        answer = getattr(client, method)(path)
        assert answer.status_code in (302, 401, 403, 404, 405), (path, answer.status_code)
        if answer.status_code == 302:
            assert answer["Location"].startswith(("/login/", "/admin/login/")), path


def test_an_api_key_opens_no_page():
    headers = {"Authorization": f"Bearer {create_api_key(name='k', role='operator')}"}
    client = Client(headers=headers)
    for path in all_paths():
        if not path.startswith("/api/"):
            assert client.get(path).status_code in (302, 404, 405), path


@pytest.mark.parametrize("method", ["get", "post"])
def test_a_client_learns_nothing_of_the_bots_of_another(method):
    SlotFactory()
    bot = a_bot()
    assign_bot_to_slot(bot, reason="test", actor="test")
    slot = Slot.objects.get(assigned_bot=bot)
    key = create_api_key(name="another client")
    client = Client(headers={"Authorization": f"Bearer {key}"})
    for route in routes():
        if not route.startswith("api/v1/") or route in PUBLIC:
            continue
        for path in paths(route, slot=slot, bot=bot):
            answer = getattr(client, method)(path)
            text = answer.content.decode()
            if "<int:id>" in route:
                assert answer.status_code in (401, 404, 405), (path, answer.status_code)
            assert bot.meeting_url not in text and bot.correlation_id not in text, path
            assert f'"botId": {bot.pk}' not in text, path
    bot.refresh_from_db()
    assert bot.status == "DEPLOYING"


def test_a_session_does_not_open_the_api():
    client = Client()
    client.force_login(User.objects.create_superuser("root"))
    for path in all_paths():
        if path.startswith("/api/v1/"):
            for answer in (client.get(path), client.post(path)):
                assert answer.status_code in (401, 404, 405), path


def test_a_user_without_a_role_sees_no_page():
    client = client_of()
    for path in set(all_paths()) - {"/password/"}:  # shows nothing but a form
        answer = client.get(path)
        refused = answer.status_code in (401, 403, 404, 405)
        assert refused or answer["Location"].startswith(("/admin/login/", "/login/")), path


@pytest.mark.parametrize("role", [VIEWER, OPERATOR])
def test_the_admin_is_for_staff_only(role):
    client = client_of(role)
    for path in all_paths():
        if path.startswith("/admin/"):
            assert client.get(path).status_code in (302, 403, 404), path
            assert client.post(path).status_code in (302, 403, 404), path


@pytest.mark.parametrize("role", [VIEWER, OPERATOR])
def test_staff_without_permission_can_change_nothing_in_the_admin(role):
    client = client_of(role, is_staff=True)
    for path in all_paths():
        if path.startswith("/admin/") and path.endswith(("/add/", "/delete/", "/change/")):
            assert client.post(path, {"post": "yes"}).status_code in (302, 403), path
    assert User.objects.count() == 1


def test_administrators_cannot_change_history():
    client = client_of(ADMINISTRATOR, is_staff=True)
    for path in all_paths():
        own = path.startswith(("/admin/slots/", "/admin/queues/", "/admin/coolify/"))
        if own and path.endswith(("/add/", "/delete/")):
            assert client.post(path, {"post": "yes"}).status_code in (302, 403), path


def test_every_post_needs_a_csrf_token():
    client = Client(enforce_csrf_checks=True)
    client.force_login(User.objects.create_superuser("root"))
    for path in [*all_paths(), "/login/", "/logout/", "/admin/logout/"]:
        if not path.startswith("/api/"):
            answer = client.post(path, {"reason": "x", "post": "yes"})
            assert answer.status_code in (302, 403, 404, 405), (path, answer.status_code)
            if answer.status_code == 302:  # the admin's own login redirects
                assert path == "/admin/login/", path


def test_every_page_has_a_strict_policy_and_cannot_be_framed():
    client = Client()
    client.force_login(User.objects.create_superuser("root"))
    for path in [*all_paths(), "/login/"]:
        answer = client.get(path)
        assert answer.headers["X-Content-Type-Options"] == "nosniff", path
        if not path.startswith("/api/"):
            policy = answer.headers["Content-Security-Policy"]
            assert "script-src 'self'" in policy, path
            assert "unsafe" not in policy, path
            assert "frame-ancestors 'none'" in policy, path
            assert answer.headers["X-Frame-Options"] == "DENY", path


def test_no_page_is_kept_by_a_cache():
    client = Client()
    client.force_login(User.objects.create_superuser("root"))
    for path in [*all_paths(), "/login/", "/nowhere/"]:
        assert "no-store" in client.get(path).headers.get("Cache-Control", ""), path
