"""A real Chromium, and what tests of pages do with it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

#: Marks of tests that need it.
IN_CHROMIUM = [
    pytest.mark.slow,
    pytest.mark.xdist_group("browser"),
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium: tools/setup browser installs one"),
]

#: What a person may look with: colours and width of the window.
LOOKS = [("light", 1200), ("dark", 1200), ("light", 360), ("dark", 360)]


def axe() -> Any:
    """What looks for faults of access; what only these tests need is not imported where they do not run."""
    return pytest.importorskip("axe_playwright_python.sync_playwright", reason="needs the dev extra").Axe()


@contextmanager
def running_chromium() -> Iterator[Any]:
    """Start Chromium, and end it."""
    playing = pytest.importorskip("playwright.sync_api", reason="needs the dev extra").sync_playwright()
    with playing as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@contextmanager
def tab(chromium: Any, colours: str = "light", width: int = 1200, **more: Any) -> Iterator[Any]:
    context = chromium.new_context(color_scheme=colours, viewport={"width": width, "height": 800}, **more)
    try:
        yield context.new_page()
    finally:
        context.close()


def check_access(chromium: Any, address: str, paths: list[str], colours: str, width: int) -> None:
    """Check that axe finds nothing serious, nothing is wider than the window, and nothing is fetched from elsewhere."""
    found, wrong = [], []
    with tab(chromium, colours, width, bypass_csp=True) as page:  # axe is put into the page
        page.on("console", lambda message: wrong.append(message.text) if "404" not in message.text else None)
        page.on("request", lambda request: wrong.append(request.url) if not request.url.startswith(address) else None)
        for path in paths:
            page.goto(address + path)
            result = axe().run(page)
            found += [(path, each["impact"], each["id"]) for each in result.response["violations"]]
            across = page.evaluate("document.documentElement.scrollWidth")
            assert across <= width, f"{path} is {across} px wide"
    assert [each for each in found if each[1] in ("serious", "critical")] == []
    assert wrong == []
