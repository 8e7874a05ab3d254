"""The dashboard over a service that runs for a real Storm cluster, used as an operator does.

A plan is requested, applied, followed, evaluated and taken back in Chromium, and each of five questions of an operator
is answered within two clicks from the first page. With ``STORMWRIGHT_PICTURES=1`` it writes the pictures of the
documentation.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stormwright.storm.local_cluster import LocalCluster, LocalClusterConfig, RunningCluster, fitting_cores
from stormwright.workbench.demo.topologies import parse_submissions
from tests.browser.chromium import IN_CHROMIUM, LOOKS, check_access, tab

pytestmark = [*IN_CHROMIUM, pytest.mark.storm, pytest.mark.spark, pytest.mark.timeout(2400)]

PICTURES = Path(__file__).parents[2] / "docs" / "pictures"

TOPOLOGIES = ["word-count:name=words,rate=250,workers=3", "diamond:name=orders,rate=150,workers=3"]

#: Longest waits in ms: until loads are measured, and until a plan is done with the evaluation of its stages.
MEASURED_MS, DONE_MS = 240_000, 900_000


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    """Four small nodes, where the kernel can limit them, with two topologies that Nimbus has spread."""
    with pytest.MonkeyPatch.context() as patch:
        # A place of its own, so that a developer's cluster and that of other tests are left alone.
        directory = tmp_path_factory.mktemp("cluster")
        patch.setenv("TMPDIR", str(directory))
        patch.setattr(tempfile, "tempdir", str(directory))
        config = LocalClusterConfig(nodes=4, cores_per_node=fitting_cores(4), cpu_limits="auto", service_port=7171)
        with LocalCluster(config) as running:
            for topology in TOPOLOGIES:
                submit(running, topology)
            yield running


def submit(cluster: RunningCluster, topology: str) -> None:
    conf = {"stormwright.probe.service.url": cluster.service_url, "stormwright.probe.interval.ms": 1000}
    (submission,) = parse_submissions([topology])
    cluster.run_topology(submission.main_class, submission.arguments(), conf)


@pytest.fixture(scope="module")
def address(cluster: RunningCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the service, in mode observe."""
    log = tmp_path_factory.mktemp("service") / "log"
    with log.open("wb") as output:
        command = [str(Path(sys.executable).with_name("stormwright")), "cluster", "serve"]
        process = subprocess.Popen(command, stdout=output, stderr=output)
        try:
            yield cluster.service_url
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(120)


class Operator:
    """Someone at the dashboard, who counts clicks from the first page on."""

    def __init__(self, page: Any, address: str) -> None:
        self.page, self.address, self.clicks = page, address, 0

    def first_page(self) -> None:
        self.page.goto(self.address)
        self.clicks = 0

    def click(self, what: str) -> None:
        self.page.locator(what).first.click()
        self.page.wait_for_load_state()
        self.clicks += 1

    def reads(self, *where: str) -> str:
        """Return the text that is found there, within two clicks."""
        assert self.clicks <= 2
        return "\n".join(self.page.locator(each).first.inner_text() for each in where)

    def signs(self, form: str, reason: str) -> None:
        self.page.locator(f"{form} input[name=by]").first.fill("anna")
        self.page.locator(f"{form} input[name=reason]").first.fill(reason)

    def pictures(self, name: str, *, height: int = 900) -> None:
        if os.environ.get("STORMWRIGHT_PICTURES"):
            self.page.locator("#live", has_text="live").wait_for()
            self.page.set_viewport_size({"width": self.page.viewport_size["width"], "height": height})
            self.page.screenshot(path=PICTURES / f"{name}.png")


def test_operator_gets_answers_and_carries_out_a_plan(chromium: Any, address: str, cluster: RunningCluster) -> None:
    with tab(chromium) as page:
        page.on("dialog", lambda dialog: dialog.accept())
        anna = Operator(page, address)
        until_measured(anna)
        why_a_topology_waits(anna, cluster)
        which_node_is_fullest(anna)
        plan = what_a_plan_interrupts(anna)
        apply_and_follow(anna, plan)
        what_came_of_a_move(anna)
        for colours, width in LOOKS:
            check_access(chromium, address, all_paths(anna, plan), colours, width)
        pictures_of_all(chromium, address, anna)
        take_it_back(anna)


def until_measured(anna: Operator) -> None:
    anna.page.wait_for_timeout(1000)
    for _ in range(MEASURED_MS // 1000):
        try:
            anna.first_page()
            anna.page.locator("#facts", has_text="load measured").wait_for(timeout=1000)
        except Exception:  # neither the service nor the load is there yet
            anna.page.wait_for_timeout(1000)
        else:
            return
    pytest.fail("no load was measured")


def why_a_topology_waits(anna: Operator, cluster: RunningCluster) -> None:
    """Its workers have just started, and nothing moves before they were measured for a while."""
    submit(cluster, "exclamation:name=late,rate=50,workers=1")
    anna.page.wait_for_timeout(5000)
    anna.first_page()
    anna.click("nav.main a:has-text('Topologies')")
    anna.page.locator("tbody a:has-text('late')").wait_for(timeout=60_000)
    anna.click("tbody a:has-text('late')")
    anna.page.locator("#moves", has_text="It waits").wait_for(timeout=60_000)
    assert "measured" in anna.reads("#moves")
    anna.pictures("waits")


def which_node_is_fullest(anna: Operator) -> None:
    anna.first_page()
    name = anna.page.locator("#figures a").inner_text()
    anna.click("#figures a")
    assert name in anna.reads("h1")
    why = anna.reads("#figures", "#workers")
    assert "CPU, cores" in why
    assert "words" in why or "orders" in why
    anna.pictures("node")


def what_a_plan_interrupts(anna: Operator) -> str:
    """Return the path of a plan, which is found on the first page."""
    anna.first_page()
    anna.click("nav.main a:has-text('Plans')")
    # Topologies are planned for as soon as enough was measured.
    for _ in range(20):
        anna.page.select_option("select[name=goal]", "throughput")
        anna.signs("form", "before the sale")
        anna.page.click("button:has-text('Plan')")
        anna.page.wait_for_url("**/plans/*")
        anna.page.locator("#state", has_not_text="is being computed").wait_for(timeout=120_000)
        if anna.page.locator("#moved").count():
            break
        anna.page.wait_for_timeout(10_000)
        anna.page.goto(f"{anna.address}/plans")
    path = anna.page.url.removeprefix(anna.address)
    anna.first_page()
    anna.click(f"#would a[href='{path}']")
    interrupts = anna.reads("#moved")
    assert "pause" in interrupts
    assert " s" in interrupts
    anna.pictures("plan", height=1300)
    return path


def apply_and_follow(anna: Operator, plan: str) -> None:
    anna.page.goto(anna.address + plan)
    anna.signs("#do", "as agreed")
    anna.page.click("#do button:has-text('Apply')")
    anna.page.locator("#state", has_text="being moved").wait_for(timeout=120_000)
    anna.pictures("under-way")
    decided = anna.page.locator("#title .mark", has_text="done").or_(anna.page.locator("#do button:has-text('Resume')"))
    for _ in range(4):
        decided.first.wait_for(timeout=DONE_MS)
        if "done" in anna.page.locator("#title .mark").inner_text():
            return
        anna.pictures("waiting-for-you")
        anna.signs("#do", "good enough")
        anna.page.click("#do button:has-text('Resume')")
        anna.page.wait_for_timeout(3000)
    pytest.fail(anna.page.locator("#state").inner_text())


def what_came_of_a_move(anna: Operator) -> None:
    anna.first_page()
    outcome = anna.reads("#came")
    assert "promised" in outcome
    anna.click("#did a")
    assert "promised" in anna.reads("main")
    anna.pictures("history")


def take_it_back(anna: Operator) -> None:
    anna.first_page()
    anna.click("#did a")
    anna.click("details:has-text('Restore the placement before') summary")
    assert "Restore" in anna.reads("details[open]")
    anna.signs("details[open]", "not what we wanted")
    anna.page.locator("details[open] button").click()
    anna.page.wait_for_url("**/plans/*")
    assert "rollback" in anna.page.locator("#title").inner_text()
    anna.page.locator("#title .mark", has_text="done").wait_for(timeout=DONE_MS)


def all_paths(anna: Operator, plan: str) -> list[str]:
    """Return the paths of all kinds of pages."""
    found = ["/", "/cluster", "/topologies", "/traffic", "/timeline", "/plans", plan, "/history", "/try"]
    for page, link in (("/cluster", "#nodes tbody a"), ("/topologies", "tbody a"), ("/cluster", "a[href*=racks]")):
        anna.page.goto(anna.address + page)
        found.append(anna.page.locator(link).first.get_attribute("href"))
    return [*found, f"{found[-2]}/why"]


def pictures_of_all(chromium: Any, address: str, anna: Operator) -> None:
    anna.page.goto(f"{address}/topologies")
    topology = anna.page.locator("tbody a").first.get_attribute("href")
    shots = {
        "overview": ("light", 1200, "/", 1000),
        "cluster": ("light", 1200, "/cluster", 800),
        "topology": ("dark", 1200, topology, 1000),
        "timeline": ("dark", 1200, "/timeline", 900),
        "narrow": ("light", 360, "/", 780),
    }
    for name, (colours, width, path, height) in shots.items():
        with tab(chromium, colours, width) as page:
            page.goto(address + path)
            Operator(page, address).pictures(name, height=height)
