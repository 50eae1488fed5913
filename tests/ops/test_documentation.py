"""The documentation: an index, the readers of each page, and links and paths that exist."""

import re
from pathlib import Path

import pytest

from tests.processes import ROOT

DOCS = ROOT / "docs"
INDEX = DOCS / "README.md"
PAGES = sorted(set(DOCS.glob("*.md")) - {INDEX})
ALL = [*sorted(ROOT.glob("*.md")), INDEX, *PAGES]
OURS = "api|bench|bots|botpool|coolify|core|dashboard|docs|ops|pool|queues|slots|templates|tests"


def each(pages: list[Path]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("page", pages, ids=lambda page: str(page.relative_to(ROOT)))


def links(page: Path) -> list[str]:
    found = re.findall(r"\]\(([^)\s]+)\)", page.read_text())
    return [link for link in found if "://" not in link]


def anchors(page: Path) -> set[str]:
    """Of its headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading).lower().replace(" ", "-") for heading in headings}


@each(PAGES)
def test_each_page_says_below_its_title_whom_it_is_for(page):
    title, blank, readers, *_ = page.read_text().splitlines()
    assert title.startswith("# ")
    assert blank == ""
    assert readers.startswith("For: ")


def test_the_index_lists_every_page():
    assert {page.name for page in PAGES} <= set(links(INDEX))


@each(ALL)
def test_links_lead_to_a_file_and_a_heading_that_exist(page):
    for link in links(page):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


@each(ALL)
def test_paths_in_the_text_exist(page):
    named = re.findall(rf"`((?:{OURS})/[\w/.-]*)`", page.read_text())
    assert [path for path in named if not (ROOT / path).exists()] == []
