"""axe-core finds no serious fault on any page, in light or dark mode, wide or narrow."""

from pathlib import Path

import pytest

from slots.models import Slot
from tests.browser.conftest import Visitor
from tests.dashboard.conftest import PASSWORD, make_user
from tests.dashboard.populated import ask, keep_logs, notify, populate, sample_an_hour, serve

pytestmark = pytest.mark.slow

AXE = (Path(__file__).parent / "axe" / "axe.min.js").read_text()
RUN = "rules => axe.run({resultTypes: ['violations'], ...(rules && {runOnly: rules})})"
PAGES = [
    "/",
    "/slots/",
    "/slots/pool-google-meet-001/",
    "/slots/pool-google-meet-005/",
    "/bots/",
    "/bots/{bot}/",
    "/bots/{failed}/",
    "/bots/{bot}/log/",
    "/queue/",
    "/deployments/",
    "/maintenance/",
    "/history/?range=1h",
    "/search/?q=meet",
    "/servers/",
    "/notifications/",
    "/notifications/log/",
    "/notifications/channels/new/",
    "/notifications/rules/new/",
    "/actions/maintenance/?item=frankfurt",
    "/activity/",
    "/activity/?show=leases",
    "/activity/?show=parts",
    "/activity/?show=repairs",
    "/activity/?show=operators",
    "/clients/",
    "/webhooks/",
    "/webhooks/new/",
    "/bots/new/",
    "/password/",
    "/actions/force-release/?all=slots",
    "/actions/resize/?item=zoom",
]
ADMIN = [
    "/admin/",
    "/admin/slots/slot/",
    "/admin/slots/slot/{slot}/change/",
    "/admin/bots/bot/",
    "/admin/bots/apikey/add/",
    "/admin/auth/user/{user}/history/",
]


# Of a dark page only the colours differ from the light one.
LOOKS = [
    ("light", 1440, None),
    ("dark", 1440, ["color-contrast"]),
    ("light", 390, None),
]


@pytest.mark.parametrize("pages", [PAGES[::2], PAGES[1::2], ADMIN], ids=["some", "others", "admin"])
def test_no_page_has_a_serious_fault(browser, live_server, settings, pages):
    settings.MAX_POOL_SIZES = {**settings.MAX_POOL_SIZES, "google-meet": 12}
    user = make_user("ada", "administrator", password=PASSWORD, is_staff=True)
    bots = populate(12)
    settings.MAX_POOL_SIZES = {**settings.MAX_POOL_SIZES, "google-meet": 0}
    sample_an_hour()
    notify()
    ask()
    slots = {slot.number: slot for slot in Slot.objects.all()}
    keep_logs(bots[4], slots[5])
    serve(settings)
    context = browser.new_context(reduced_motion="reduce")
    visitor = Visitor(context, live_server.url)
    visitor.visit("/login/")
    faults = {"/login/": _faults_in_each_look(visitor.page)}
    visitor.log_in("ada")
    ids = {"bot": bots[2].pk, "failed": bots[4].pk, "slot": slots[1].pk, "user": user.pk}
    for path in pages:
        visitor.visit(path.format(**ids))
        faults[path] = _faults_in_each_look(visitor.page)
    context.close()
    assert {path: found for path, found in faults.items() if found} == {}


def _faults_in_each_look(page):
    """Without a reload: only the styles differ."""
    found = []
    for scheme, width, rules in LOOKS:
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme=scheme)
        found += [f"{scheme}, {width} px: {fault}" for fault in _faults(page, rules)]
    return found


def _faults(page, rules=None):
    if page.evaluate("!window.axe"):
        page.evaluate(AXE)
    result = page.evaluate(RUN, rules)
    return [
        f"{fault['id']}: {fault['nodes'][0]['html'][:150]} ({len(fault['nodes'])})"
        for fault in result["violations"]
        if fault["impact"] in ("serious", "critical")
    ]


def test_the_check_finds_a_planted_fault(visitor):
    page = visitor.visit("/login/")
    page.evaluate("document.querySelector('label').remove()")
    page.evaluate("document.querySelector('form').append(document.createElement('input'))")
    assert any(fault.startswith("label") for fault in _faults(page))
