"""What a page's HTML cannot show: that words fit into their buttons, fields and panels."""

import pytest
from django.db.models.functions import Now

from bots.status import Platform
from dashboard.notifications.records import NotificationChannel
from slots.models import Lease
from tests.dashboard.notifications.conftest import make_channel
from tests.dashboard.populated import ask, run

NARROW = {"width": 390, "height": 844}
CUT_OFF = """element => element.scrollHeight > element.clientHeight + 1"""
BEYOND_PANEL = """() => {
    const edge = document.querySelector(".module").getBoundingClientRect().right;
    return [...document.querySelectorAll(".form-row *")]
        .filter(each => each.checkVisibility() && each.getBoundingClientRect().right > edge + 1)
        .map(each => each.outerHTML.slice(0, 80));
}"""
CONTRAST = """element => {
    const parts = colour => colour.match(/[\\d.]+/g).map(Number);
    const light = colour => parts(colour).slice(0, 3)
        .map(c => c / 255).map(c => c <= .04045 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4)
        .reduce((sum, c, i) => sum + c * [.2126, .7152, .0722][i], 0);
    let ground = element;
    while (parts(getComputedStyle(ground).backgroundColor)[3] === 0) ground = ground.parentElement;
    const [a, b] = [getComputedStyle(element).color, getComputedStyle(ground).backgroundColor]
        .map(light).sort();
    return (b + .05) / (a + .05);
}"""


@pytest.mark.parametrize(
    ("path", "field"),
    [("/notifications/rules/new/", "What"), ("/webhooks/new/", "Statuses")],
)
def test_a_list_to_select_several_from_shows_several(administrator, path, field):
    page = administrator.visit(path)
    assert page.get_by_role("listbox", name=field).bounding_box()["height"] > 80


def test_buttons_of_the_admin_show_their_words(administrator, django_user_model):
    bot = ask(Platform.ZOOM)
    run(bot)
    user = django_user_model.objects.create_user("vera")
    for path, button in [
        (f"/admin/bots/bot/{bot.pk}/change/", ".closelink"),
        (f"/admin/auth/user/{user.pk}/change/", ".deletelink"),
        (f"/admin/auth/user/{user.pk}/delete/", ".cancel-link"),
    ]:
        assert not administrator.visit(path).locator(button).evaluate(CUT_OFF), button


def test_forms_of_the_admin_fit_a_phone(administrator, django_user_model):
    user = django_user_model.objects.create_user("vera")
    administrator.page.set_viewport_size(NARROW)
    for path in ("/admin/bots/apikey/add/", f"/admin/auth/user/{user.pk}/change/"):
        assert administrator.visit(path).evaluate(BEYOND_PANEL) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_groups_of_a_user_have_a_readable_title(administrator, django_user_model, scheme):
    user = django_user_model.objects.create_user("vera")
    administrator.page.emulate_media(color_scheme=scheme)
    page = administrator.visit(f"/admin/auth/user/{user.pk}/change/")
    for part in (".selector-chosen-title label", ".selector-chosen-title .helptext"):
        assert page.locator(part).first.evaluate(CONTRAST) > 4.5, part


def test_a_failing_channel_is_readable_on_a_phone(administrator):
    make_channel("https://app.example/hooks")
    NotificationChannel.objects.update(
        failing_since=Now(), last_error="The host app.example cannot be resolved."
    )
    administrator.page.set_viewport_size(NARROW)
    page = administrator.visit("/notifications/")
    assert page.locator('#channels td[data-label="State"] small').bounding_box()["width"] > 120


def test_a_long_holder_of_a_lease_fits_a_phone(administrator):
    Lease.objects.create(key="reconciler", holder="web-1.frankfurt.example:27235:140185153098240")
    administrator.page.set_viewport_size(NARROW)
    page = administrator.visit("/activity/?show=leases")
    assert page.evaluate("document.documentElement.scrollWidth") == NARROW["width"]
