"""axe-core finds no serious fault on any page, in light or dark mode, wide or narrow."""

from pathlib import Path

import pytest

from tests.browser.conftest import Visitor
from tests.dashboard.conftest import PASSWORD, make_user
from tests.dashboard.populated import ask, notify, populate, sample_an_hour

pytestmark = pytest.mark.slow

AXE = (Path(__file__).parent / "axe" / "axe.min.js").read_text()
RUN = "() => axe.run({resultTypes: ['violations']})"
PAGES = [
    "/",
    "/slots/",
    "/slots/pool-google-meet-001/",
    "/slots/pool-google-meet-005/",
    "/bots/",
    "/bots/{bot}/",
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
    "/actions/maintenance/?item=server-1",
    "/activity/",
    "/activity/?show=leases",
    "/activity/?show=parts",
    "/actions/force-release/?all=slots",
]


@pytest.mark.parametrize(("scheme", "width"), [("light", 1440), ("dark", 390)])
def test_no_page_has_a_serious_fault(browser, live_server, settings, scheme, width):
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    settings.MAX_POOL_SIZES = {**settings.MAX_POOL_SIZES, "google-meet": 12}
    make_user("ada", "administrator", password=PASSWORD)
    bots = populate(12)
    settings.MAX_POOL_SIZES = {**settings.MAX_POOL_SIZES, "google-meet": 0}
    sample_an_hour()
    notify()
    ask()
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, reduced_motion="reduce"
    )
    visitor = Visitor(context, live_server.url)
    visitor.visit("/login/")
    faults = {"/login/": _faults(visitor.page)}
    visitor.log_in("ada")
    for path in PAGES:
        visitor.visit(path.format(bot=bots[2].pk))
        faults[path] = _faults(visitor.page)
    context.close()
    assert {path: found for path, found in faults.items() if found} == {}


def _faults(page):
    page.evaluate(AXE)
    result = page.evaluate(RUN)
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
