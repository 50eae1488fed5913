"""The interactive API page works in a real browser under the strict policy."""

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]


def test_it_shows_all_calls_without_browser_errors(live_server, browser):
    complaints, hosts = [], set()
    page = browser.new_page()
    page.on("console", lambda m: complaints.append(m.text) if m.type == "error" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: hosts.add(request.url.split("/")[2]))
    page.goto(f"{live_server.url}/api/v1/docs")
    page.wait_for_selector(".opblock", timeout=60_000)
    shown = page.locator(".opblock").count()
    page.close()
    assert shown >= 14
    assert complaints == []
    assert hosts <= {live_server.url.split("/")[2], ""}
