"""What the docs name is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    [*ROOT.glob("*.md"), *(page for page in ROOT.glob("docs/**/*.md") if "results" not in page.parts)],
)

#: Where a module may be named from.
FROM = (ROOT, ROOT / "src", ROOT / "src" / "stormwright")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    text = page.read_text(encoding="utf-8")
    targets = re.findall(r"\]\((?!https?:|#)([^)#\s]+)", text)
    assert [target for target in targets if not (page.parent / target).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_modules_are_where_they_are_said_to_be(page):
    text = page.read_text(encoding="utf-8")
    named = [name for name in re.findall(r"`([\w/]+/\w+\.py)`", text) if "NAME" not in name]
    assert [name for name in named if not any((start / name).exists() for start in FROM)] == []


def test_each_failure_names_tests_that_there_are():
    """A link whose text is a test leads to the file that has it."""
    page = ROOT / "docs" / "failures.md"
    named = re.findall(r"\[(test_\w+)\]\(([^)]+)\)", page.read_text(encoding="utf-8"))
    assert len(named) > 30
    there = {path: (page.parent / path).read_text(encoding="utf-8") for _, path in named}
    assert [name for name, path in named if f"\ndef {name}(" not in there[path]] == []
