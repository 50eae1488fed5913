"""A viewer can change nothing at any URL. An anonymous visitor sees nothing."""

from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import Client
from django.urls import URLPattern, get_resolver

from bots.models import Bot
from dashboard.actions.registry import ACTIONS
from slots.models import Slot, SlotTransition
from tests.dashboard.conftest import logged_in, make_user
from tests.dashboard.populated import ask, run

VALUES = {"name": "pool-google-meet-001", "pk": "1"}
PUBLIC = {"healthz", "readyz", "metrics", "login", "logout"}
FOR_EVERYONE = {"/password/"}  # shows and changes nothing but the user's own password


def own_pages():
    """The paths of all pages, read from the URL configuration."""
    for pattern in _flat(get_resolver().url_patterns, ""):
        route, name = pattern
        if route.startswith(("api/", "admin/")) or name in PUBLIC:
            continue
        if name == "action":
            yield from (f"/actions/{action}/" for action in ACTIONS)
        else:
            for word, value in VALUES.items():
                route = route.replace(f"<str:{word}>", value).replace(f"<int:{word}>", value)
            yield f"/{route}"


def _flat(patterns, prefix):
    for each in patterns:
        route = prefix + str(each.pattern)
        if isinstance(each, URLPattern):
            yield route, each.name
        else:
            yield from _flat(each.url_patterns, route)


def test_the_list_of_pages_is_not_empty():
    assert {"/", "/slots/", "/bots/new/", "/actions/force-release/"} <= set(own_pages())


def test_an_anonymous_visitor_is_sent_to_the_login(db):
    for page in own_pages():
        for answer in (Client().get(page), Client().post(page)):
            assert answer.status_code in (302, 405), page
            assert answer.status_code == 405 or answer["Location"].startswith("/login/"), page


def test_a_user_without_a_role_sees_nothing(db):
    client = logged_in(make_user("norah"))
    for page in set(own_pages()) - FOR_EVERYONE:
        assert client.get(page).status_code in (403, 405), page


def test_a_viewer_can_change_nothing(viewer):
    slot = run(ask())
    Slot.objects.filter(pk=slot.pk).update(name=VALUES["name"])
    before = _state()
    form = {"reason": "Because", "targets": f'[["{VALUES["name"]}", "{slot.epoch}"]]', "size": "1"}
    for page in set(own_pages()) - FOR_EVERYONE:
        answer = viewer.post(f"{page}?item={slot.pk}", form)
        assert answer.status_code in (403, 405), page
        assert _state() == before, page


def _state():
    return [
        list(Slot.objects.values()),
        list(Bot.objects.values()),
        SlotTransition.objects.count(),
    ]


def test_a_viewer_is_offered_no_actions(viewer):
    slot = run(ask())
    for page in ("/", "/slots/", f"/slots/{slot.name}/", "/bots/", "/queue/", "/deployments/"):
        assert "/actions/" not in viewer.get(page).content.decode().replace(
            'action="/actions/"', ""
        )


def test_roles_exist_after_every_migration(transactional_db):
    call_command("flush", interactive=False, verbosity=0)
    user = make_user("olga", "operator")
    assert User.objects.get(pk=user.pk).has_perm("botpool.operate_pool")
    assert not User.objects.get(pk=user.pk).has_perm("botpool.administer_pool")


def test_a_refusal_is_one_log_line(viewer, caplog):
    viewer.get("/actions/stop/")
    [record] = [each for each in caplog.records if each.name == "django.request"]
    assert record.getMessage() == "Forbidden (Permission denied): /actions/stop/"
    assert record.exc_info is None
