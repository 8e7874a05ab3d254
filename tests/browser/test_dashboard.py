"""The dashboard in a real Chromium: readable by all, at any width, live, and as fast as it has to be."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from stormwright.client.shapes import ChangeRequest, PlanRequest
from stormwright.model import Problem
from stormwright.schedulers import make_scheduler
from stormwright.service.dashboard.over_file import app_of
from stormwright.service.dashboard.site import Site
from stormwright.service.dashboard.sources import Sources
from stormwright.service.dashboard.state import DashboardState, Point
from tests.browser.chromium import IN_CHROMIUM, LOOKS, check_access, tab
from tests.service.dashboard.living import living
from tests.service.dashboard.sites import SERVED, Parrot
from tests.service.plans.nimbus import Nimbus, settled

uvicorn = pytest.importorskip("uvicorn")

pytestmark = IN_CHROMIUM


@contextmanager
def served(site: Site) -> Iterator[str]:
    """The address of a site, which another thread serves."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        config = uvicorn.Config(app_of(site), log_level="error", lifespan="off", timeout_graceful_shutdown=1)
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(10)


def remembered(known: DashboardState, minutes: int = 90) -> None:
    """As if rates had been measured for a while, and one of them had grown."""
    scene = known.scene()
    assert scene is not None
    rng, now_ms = np.random.default_rng(3), round(time.time() * 1000)
    for ago in range(2 * minutes, 0, -1):
        part = 1 + 0.04 * rng.normal() - (0.25 if ago > minutes else 0.0)
        rates = {t: each.rate_tps * part for t, each in scene.by_topology.items()}
        latencies = {t: each.latency_ms.value / part for t, each in scene.by_topology.items() if each.latency_ms}
        point = Point(
            now_ms - 30_000 * ago, rates, latencies, scene.heat.total_tps * (2.0 if ago > minutes else 1.0), ()
        )
        known.trace._points.append(point)  # noqa: SLF001 (nobody waits for an hour)


@pytest.fixture(scope="module")
def shops(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, list[str]]]:
    """A service's address with a plan applied and another proposed, and paths of its pages."""
    start = living(12, 16)
    near = make_scheduler("online").schedule(start.with_nothing_running())
    nimbus = Nimbus(tmp_path_factory.mktemp("state"), start.with_current(near.by_topology(start)))
    first = nimbus.propose(start.current_slot)
    nimbus.plan_service.apply(first, ChangeRequest(by="anna", reason="node-0004 is to be emptied"))
    nimbus.run()
    nimbus.wants = near.slot_of_executor
    second = settled(nimbus, nimbus.plan_service.request(PlanRequest(by="ben", reason="before the sale")).id)
    # Its latencies are of other topologies.
    status = replace(SERVED, pipeline=SERVED.pipeline | {"complete_latency_ms": {}})
    with DashboardState(
        Sources(nimbus.look, lambda: status, lambda: 4.0, dict, nimbus.plan_service, Parrot())
    ) as known:
        remembered(known)
        topology = start.topologies[0].id
        paths = [
            "/",
            "/cluster",
            "/cluster/racks/0",
            "/cluster/nodes/sup-0001",
            "/topologies",
            f"/topologies/{topology}",
        ]
        paths += [
            "/traffic",
            "/timeline",
            "/plans",
            f"/plans/{second.id}",
            f"/plans/{first}",
            "/history",
            "/try",
            "/none",
        ]
        with served(Site(known)) as address:
            yield address, paths
    nimbus.end()


@pytest.mark.parametrize(("colours", "width"), LOOKS)
def test_axe_finds_nothing_serious_on_any_page(
    chromium: Any, shops: tuple[str, list[str]], colours: str, width: int
) -> None:
    check_access(chromium, *shops, colours, width)


def test_nothing_of_a_page_offends_its_own_policy(chromium: Any, shops: tuple[str, list[str]]) -> None:
    address, paths = shops
    wrong: list[str] = []
    with tab(chromium) as page:
        page.on("console", lambda message: wrong.append(message.text) if "404" not in message.text else None)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        for path in paths:
            page.goto(address + path)
    assert wrong == []


def test_dashboard_content_and_links_are_reachable_by_keyboard(chromium: Any, shops: tuple[str, list[str]]) -> None:
    with tab(chromium) as page:
        page.goto(shops[0])
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "Skip to content"
        page.keyboard.press("Enter")
        page.keyboard.press("Tab")
        assert page.evaluate("document.getElementById('content').contains(document.activeElement)")
        page.goto(f"{shops[0]}/cluster")
        page.locator(".cells a").first.focus()
        page.keyboard.press("Enter")
        page.wait_for_url("**/cluster/nodes/*")


def test_dashboard_works_without_javascript(chromium: Any, shops: tuple[str, list[str]]) -> None:
    with tab(chromium, java_script_enabled=False) as page:
        page.goto(f"{shops[0]}/plans")
        page.fill("input[name=by]", "anna")
        page.click("button:has-text('Plan')")
        page.wait_for_url("**/plans/*")
        assert "anna" in page.content()


def test_figures_change_without_a_reload(chromium: Any) -> None:
    now: list[Problem] = [living(3, 4)]
    with (
        DashboardState(Sources(lambda: now[0], lambda: SERVED)) as known,
        served(Site(known)) as address,
        tab(chromium) as page,
    ):
        page.goto(address)
        page.locator("#live", has_text="live").wait_for()
        page.evaluate("window.kept = true")
        now[0] = living(5, 4)
        page.locator("#figures", has_text="100").wait_for(timeout=30_000)
        assert page.evaluate("window.kept"), "it was not loaded anew"


def test_page_that_was_opened_before_the_first_data_shows_them(chromium: Any) -> None:
    """It stayed at "No data yet", as only parts that were there were replaced."""
    now: list[Problem | None] = [None]
    with (
        DashboardState(Sources(lambda: now[0], lambda: SERVED)) as known,
        served(Site(known)) as address,
        tab(chromium) as page,
    ):
        page.goto(f"{address}/cluster")
        page.locator("#waiting").wait_for()
        page.locator("#live", has_text="live").wait_for()
        now[0] = living(3, 4)
        page.locator("#nodes tbody tr").first.wait_for(timeout=30_000)
        assert page.locator("#waiting").count() == 0


def test_page_of_a_service_that_has_ended_looks_stale(chromium: Any) -> None:
    """It stayed green, with ages that stood still."""
    with DashboardState(Sources(lambda: living(3, 4), lambda: SERVED)) as known, tab(chromium) as page:
        with served(Site(known)) as address:
            page.goto(address)
            page.locator("#live", has_text="live").wait_for()
            assert page.locator("#gone").is_hidden()
        page.locator("#gone", has_text="Not reached since").wait_for(timeout=30_000)
        assert page.evaluate("document.body.classList.contains('stale')")


def test_tables_are_sorted_and_filtered_by_their_links(chromium: Any, shops: tuple[str, list[str]]) -> None:
    with tab(chromium) as page:
        page.goto(f"{shops[0]}/cluster")
        page.click("thead a:has-text('node')")
        names = page.locator("#nodes tbody th a").all_inner_texts()
        assert names == sorted(names)
        page.click("thead a:has-text('node')")
        assert page.locator("#nodes tbody th a").all_inner_texts() == names[::-1]
        page.fill("input[name=find]", names[0])
        page.keyboard.press("Enter")
        page.wait_for_url("**find=*")
        assert page.locator("#nodes tbody th a").all_inner_texts() == [names[0]]


#: Bytes and milliseconds of a page of 5,000 nodes.
MAX_BYTES, MAX_PAINT_MS = 200_000, 1000


def test_overview_of_largest_cluster_loads_within_two_seconds(chromium: Any) -> None:
    big = living(1000, 5000, racks=100, sizes=(10, 20, 20, 30, 20))
    with (
        DashboardState(Sources(lambda: big, lambda: SERVED)) as known,
        served(Site(known)) as address,
        tab(chromium) as page,
    ):
        while known.scene() is None:
            time.sleep(0.1)
        topology, node = big.topologies[0].id, big.supervisors[0].id
        for path in ("/", "/cluster", "/topologies", f"/topologies/{topology}", f"/cluster/nodes/{node}", "/traffic"):
            page.goto(address + path, wait_until="load")
            assert len(page.content().encode()) <= MAX_BYTES, path
            assert page.evaluate("performance.getEntriesByType('navigation')[0].loadEventEnd") < 2000, path
