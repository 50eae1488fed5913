"""A real browser against a real server."""

import os
import shutil
from collections.abc import Iterator

import pytest
from django.core.cache import cache
from django.db import connections
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from dashboard.roles import ADMINISTRATOR, OPERATOR, VIEWER
from tests.dashboard.conftest import PASSWORD, make_user

FLAGS = [
    "--no-sandbox",
    "--disable-dev-shm-usage",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
HOW_TO_INSTALL = (
    "Chromium is missing. Install it for the browser tests, e.g. apt-get install chromium"
)


# The first one draws no windows, and takes half of the CPU time.
CHROMIUM = ("chromium-headless-shell", "chromium", "chromium-browser")


def _chromium() -> str:
    found = next(filter(None, map(shutil.which, CHROMIUM)), None)
    if found is None and os.environ.get("CI", "").lower() in ("1", "true"):
        pytest.fail(HOW_TO_INSTALL, pytrace=False)
    if found is None:
        pytest.skip(HOW_TO_INSTALL)
    return found


# Not session-scoped. While Playwright's event loop runs in this thread, Django opens separate
# database connections. A later test that forks would share them with its children.
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    executable = _chromium()
    with pytest.MonkeyPatch.context() as patch, sync_playwright() as playwright:
        patch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "1")
        browser = playwright.chromium.launch(executable_path=executable, args=FLAGS)
        yield browser
        browser.close()
        connections.close_all()


# A page gives up after 8 s: too soon for a busy machine.
PATIENT = (
    "addEventListener('DOMContentLoaded', () => { if (window.htmx) htmx.config.timeout = 6e4 })"
)


class Visitor:
    """A user with a browser."""

    def __init__(self, context: BrowserContext, url: str) -> None:
        self.context = context
        self.url = url
        self.page: Page = context.new_page()
        self.page.set_default_timeout(30_000)
        self.page.add_init_script(PATIENT)
        self.complaints: list[str] = []
        self.page.on("console", self._note)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))

    def _note(self, message) -> None:
        if message.type == "error":
            self.complaints.append(message.text)

    def visit(self, path: str) -> Page:
        self.page.goto(f"{self.url}{path}")
        return self.page

    def log_in(self, name: str) -> Page:
        page = self.visit("/login/")
        page.get_by_label("Username").fill(name)
        page.get_by_label("Password").fill(PASSWORD)
        page.get_by_role("button", name="Log in").click()
        page.wait_for_url(f"{self.url}/")
        return page


@pytest.fixture
def visitor(browser, live_server) -> Iterator[Visitor]:
    cache.clear()
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    yield Visitor(context, live_server.url)
    context.close()


@pytest.fixture
def operator(visitor) -> Visitor:
    make_user("otto", OPERATOR, password=PASSWORD)
    visitor.log_in("otto")
    return visitor


@pytest.fixture
def administrator(visitor) -> Visitor:
    make_user("ada", ADMINISTRATOR, password=PASSWORD, is_staff=True)
    visitor.log_in("ada")
    return visitor


@pytest.fixture
def viewer(visitor) -> Visitor:
    make_user("vera", VIEWER, password=PASSWORD)
    visitor.log_in("vera")
    return visitor
