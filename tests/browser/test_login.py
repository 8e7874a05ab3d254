"""Logging in and out in a real Chromium, which keeps to what cookies, forms and policies say."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser.chromium import IN_CHROMIUM, LOOKS, axe, tab
from tests.service.auth.authorities import Authority
from tests.service.auth.guarded import Guarded, guarded

pytestmark = IN_CHROMIUM


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Guarded]:
    with guarded(tmp_path) as found:
        yield found


def log_in(page: Any, address: str, secret: str) -> None:
    page.goto(f"{address}/plans")
    page.fill("input[name=token]", secret)
    page.keyboard.press("Enter")
    page.wait_for_url("**/plans")


@pytest.mark.parametrize(("colours", "width"), LOOKS)
def test_axe_finds_nothing_serious(chromium: Any, service: Guarded, colours: str, width: int) -> None:
    address, found = f"http://{service.host}:{service.port}", []
    with tab(chromium, colours, width, bypass_csp=True) as page:  # axe is put into the page
        page.goto(f"{address}/login")
        page.fill("input[name=token]", "none")
        page.click("button")
        assert "This token is invalid" in page.content()
        found += axe().run(page).response["violations"]
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        log_in(page, address, service.secrets["operator"])
        found += axe().run(page).response["violations"]
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert [each["id"] for each in found if each["impact"] in ("serious", "critical")] == []


@pytest.mark.parametrize("scripts", [True, False])
def test_logged_in_user_creates_plans_under_own_name_until_logout(
    chromium: Any, service: Guarded, scripts: bool
) -> None:
    address, wrong = f"http://{service.host}:{service.port}", []
    with tab(chromium, java_script_enabled=scripts) as page:
        page.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
        log_in(page, address, service.secrets["operator"])
        (cookie,) = page.context.cookies()
        assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
        page.click("button:has-text('Plan')")
        page.wait_for_url("**/plans/*")
        assert "operator" in page.inner_text("main")
        page.click("button:has-text('Log out')")
        page.wait_for_url("**/login")
        assert page.context.cookies() == []
        page.goto(f"{address}/history")
        assert page.url.endswith("/login?next=%2Fhistory")
    assert wrong == []


def test_over_tls_its_cookie_is_of_this_host_alone(chromium: Any, tmp_path: Path) -> None:
    authority = Authority(tmp_path / "authority")
    serving = guarded(tmp_path, tls=authority.tls("127.0.0.2"), context=authority.context())
    with serving as service, tab(chromium, ignore_https_errors=True) as page:
        log_in(page, f"https://{service.host}:{service.port}", service.secrets["viewer"])
        (cookie,) = page.context.cookies()
        assert (cookie["name"], cookie["secure"]) == ("__Host-stormwright", True)


def test_another_site_acts_in_nobodys_name(chromium: Any, service: Guarded) -> None:
    address = f"http://{service.host}:{service.port}"
    with tab(chromium) as page:
        log_in(page, address, service.secrets["operator"])
        form = f"<form method=post action='{address}/plans'><input name=reason value=x><button>Go</button></form>"
        page.route("http://other.example/", lambda route: route.fulfill(body=form, content_type="text/html"))
        page.goto("http://other.example/")
        with page.expect_navigation():
            page.click("button")
        assert service.nimbus.plan_service.plans().plans == ()
