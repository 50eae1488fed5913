import requests

from tests.simulated_coolify import IMAGE


def test_the_page_lists_applications_deployments_and_servers(api):
    uuid = api.create("pool-zoom-001", description="[BUSY] Bot #1")
    api.run(uuid)
    page = requests.get(api.simulator.url, timeout=10)
    assert page.headers["Content-Type"].startswith("text/html")
    for text in ("pool-zoom-001", "[BUSY] Bot #1", f"{IMAGE}:1", "finished", "server-1"):
        assert text in page.text


def test_an_empty_page_says_so(api):
    assert requests.get(api.simulator.url, timeout=10).text.count("None yet.") == 2


def test_the_page_escapes_what_it_shows(api):
    api.create("<script>alert(1)</script>")
    page = requests.get(api.simulator.url, timeout=10).text
    assert "<script>" not in page
    assert "&lt;script&gt;" in page


def test_the_page_loads_nothing_from_other_hosts(api):
    page = requests.get(api.simulator.url, timeout=10).text
    assert "http://" not in page
    assert "https://" not in page
