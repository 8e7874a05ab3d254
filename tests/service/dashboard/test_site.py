"""The pages as a browser gets them: whole, linked, usable by keyboard and by ear, and of no other origin."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from urllib.parse import quote, urlsplit

import numpy as np
import pytest

from stormwright.client.shapes import Anomaly, DrainRequest, PlanRequest
from stormwright.service.dashboard.rendering import NAVIGATION
from stormwright.service.dashboard.site import VIEWS
from tests.controller.builders import on, problem, topology
from tests.service.dashboard.living import living
from tests.service.dashboard.sites import SERVED, Browser, Page, browsing, over_nimbus, until
from tests.service.plans.nimbus import ANNA, Nimbus, settled

#: Pages that name nothing.
PLAIN = sorted({"/", *(path for path in VIEWS if "{" not in path)})


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browsing(tmp_path_factory.mktemp("state"), living(8, 10)) as browser:
        browser.post("/plans", by="anna", reason="a look")
        browser.post("/try/compare", scheduler=["even", "online"])
        until(
            lambda: (
                "answered" in browser.get("/try").visible_text and "planning" not in browser.get("/plans").visible_text
            )
        )
        yield browser


def every_page(browser: Browser) -> dict[str, Page]:
    """Path → page, of all that can be come to from the first by links."""
    found: dict[str, Page] = {}
    left = ["/"]
    while left:
        path = left.pop()
        if path in found:
            continue
        found[path] = browser.get(path)
        for link in found[path].links:
            split = urlsplit(link)
            goes = (split.path or path.partition("?")[0]) + (f"?{split.query}" if split.query else "")
            left += [goes] if not split.path.startswith("/v1/") and goes not in found else []
    return found


@pytest.fixture(scope="module")
def pages(shop: Browser) -> dict[str, Page]:
    return every_page(shop)


@pytest.mark.slow
def test_all_links_resolve_and_all_views_are_linked(pages: dict[str, Page]) -> None:
    paths = {path.partition("?")[0] for path in pages}
    for pattern in VIEWS:
        shape = re.compile(re.sub(r"\{\w+\}", "[^/]+", pattern))
        assert any(shape.fullmatch(path) for path in paths), pattern


@pytest.mark.slow
def test_pages_contain_no_external_references_or_inline_code(shop: Browser, pages: dict[str, Page]) -> None:
    for path, page in pages.items():
        for tag, attributes, _ in page.elements:
            assert tag not in ("style", "iframe", "object", "base"), path
            for name, value in attributes.items():
                assert name != "style", (path, tag)
                assert not name.startswith("on"), (path, tag)
                assert "//" not in value or name in ("value", "title"), (path, tag, value)
                assert "javascript:" not in value, (path, tag)
        assert all(script.get("src", "").startswith("/assets/") for script in page.all("script"))
    policy = shop.client.get("/").headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy
    for name in ("style.css", "live.js", "icon.svg"):
        text = shop.client.get(f"/assets/{name}").text
        assert not re.search(r"(?:https?:)?//(?!www\.w3\.org)[a-z]+\.[a-z]", text), name


def test_pages_are_usable_by_keyboard_and_by_ear(pages: dict[str, Page]) -> None:
    for path, page in pages.items():
        tags = [tag for tag, _, _ in page.elements]
        assert page.all("html")[0]["lang"] == "en"
        assert [tags.count(tag) for tag in ("main", "header", "footer", "h1")] >= [1, 1, 1, 1], path
        assert tags.count("h1") == tags.count("main") == 1, path
        assert page.links[0] == "#content", "who has no mouse need not go through the navigation"
        ids = [each["id"] for _, each, _ in page.elements if "id" in each]
        assert len(ids) == len(set(ids)), path
        for tag, attributes, within in page.elements:
            if tag in ("input", "select") and attributes.get("type") != "hidden":
                assert "label" in within, (path, attributes)
            if tag == "th":
                assert "scope" in attributes, path
            if tag == "img":
                assert "alt" in attributes, path
            if tag == "nav":
                assert attributes["aria-label"], path
            if tag == "table":
                assert "div" in within, path
            if "scroll" in attributes.get("class", "").split():
                assert attributes["tabindex"] == "0", "who has no mouse scrolls it by keys"
                assert "aria-label" in attributes or attributes["aria-labelledby"] in ids, path
            if "aria-labelledby" in attributes:
                assert attributes["aria-labelledby"] in ids, (path, attributes)
            if int(attributes.get("tabindex", "0")) > 0:
                pytest.fail(f"{path}: an order of its own")
        levels = [int(tag[1]) for tag in tags if tag in ("h1", "h2", "h3")]
        assert all(b - a <= 1 for a, b in pairwise(levels)), (path, levels)


def test_navigation_marks_current_page(shop: Browser) -> None:
    for path, name in NAVIGATION.items():
        page = shop.get(path)
        assert [each["href"] for each in page.all("a") if each.get("aria-current") == "page"] == [path]
        assert page.visible_text.startswith(name), "the title of the tab"


@pytest.mark.slow
def test_each_page_names_its_command(pages: dict[str, Page]) -> None:
    assert all("On the command line: stormwright " in page.visible_text for page in pages.values())
    assert all("/v1/problem" in page.links for page in pages.values())


def test_pages_explain_missing_snapshot_before_first_poll(tmp_path: Path) -> None:
    with browsing(tmp_path, None) as browser:
        for path in PLAIN:
            page = Page(browser.client.get(path).text)
            assert any(each.get("class", "").startswith("empty") for _, each, _ in page.elements) or path == "/try"
        assert "Either Nimbus has not polled the service" in browser.get("/cluster", 503).visible_text
        assert "Waiting for Nimbus" in browser.get("/").visible_text or "found" in browser.get("/").visible_text


@pytest.mark.slow
def test_pages_exist_for_cluster_without_running_topologies(tmp_path: Path) -> None:
    empty = problem([topology("t")])
    with browsing(tmp_path, empty) as browser:
        pages = every_page(browser)
        assert "4 executors of t have no slot" in pages["/"].visible_text
        assert "No worker None of its executors has a slot" in pages["/topologies/t-1-0"].visible_text
    with browsing(tmp_path / "none", problem([], nodes=1)) as browser:
        assert "No topologies" in every_page(browser)["/topologies"].visible_text


@pytest.mark.slow
def test_names_are_escaped_in_pages(tmp_path: Path) -> None:
    evil = "<script>alert(1)</script>\"'&"
    named = topology("t")
    components = tuple(replace(each, id=f"{each.id}{evil}", inputs=()) for each in named.components)
    bad = replace(named, name=evil, components=components)
    cluster = problem([bad], current={bad.id: on("n0", "n1")}, name=evil)
    cluster = replace(
        cluster, supervisors=tuple(replace(each, host=f"{each.host}{evil}") for each in cluster.supervisors)
    )
    with browsing(tmp_path, cluster) as browser:
        browser.post("/plans", by=evil, reason=evil)
        until(lambda: "planning" not in browser.get("/plans").visible_text)
        for path, page in every_page(browser).items():
            assert len(page.all("script")) == 1, path
        assert evil in browser.get(f"/topologies/{bad.id}").visible_text
        assert evil in browser.get("/plans").visible_text
        assert evil in browser.get("/cluster/nodes/n0").visible_text
        assert "<script>alert" not in browser.client.get(f"/topologies?find={evil}").text
        assert "<script>alert" not in browser.client.get(f"/plans/{evil}").text


def test_missing_page_answers_404_with_explanation(shop: Browser) -> None:
    for path in (
        "/nothing",
        "/cluster/nodes/none",
        "/cluster/racks/99",
        "/topologies/none",
        "/plans/none",
        "/try/none",
    ):
        page = shop.get(path, 404)
        assert "Overview" in page.visible_text, path
        assert "on the command line" not in page.visible_text, path
    assert "no node none" in shop.get("/cluster/nodes/none", 404).visible_text


def test_cross_site_forms_are_rejected(shop: Browser) -> None:
    before = shop.get("/plans").visible_text
    fields = {"by": "mallory", "reason": "mischief"}
    assert "another site" in shop.refused("/plans", 403, {"sec-fetch-site": "cross-site"}, **fields)
    assert "another site" in shop.refused("/plans", 403, {"origin": "http://evil.example"}, **fields)
    assert before.split("ago")[0] in shop.get("/plans").visible_text
    assert "mallory" not in shop.get("/plans").visible_text


def test_invalid_form_input_is_reported(shop: Browser) -> None:
    assert "your name: fill this in" in shop.refused("/plans", 400, reason="a look")
    assert "why: fill this in" in shop.refused("/plans", 400, by="anna")
    assert "tick at least one scheduler" in shop.refused("/try/compare", 400)
    assert "there is no scheduler best" in shop.refused("/try/compare", 400, scheduler="best")
    assert "nothing to change" in shop.refused("/try/what-if", 400)
    assert "should be a number" in shop.refused("/try/what-if", 400, add_nodes="many")
    assert "unknown action" in shop.refused("/plans/x/destroy", 404, by="a", reason="b")


def test_questions_are_answered_on_their_pages(shop: Browser) -> None:
    where = shop.post("/try/what-if", rate="×1.5")
    page = until(lambda: page if "answered" in (page := shop.get(where)).visible_text else None)
    assert "×1.5" in page.visible_text
    assert "stormwright whatif problem.json --rate '×1.5'" in page.visible_text


def test_commands_quote_what_people_and_topologies_are_called(shop: Browser, tmp_path: Path) -> None:
    where = shop.post("/try/what-if", kill_node="; rm -rf ~")
    assert "stormwright whatif problem.json --kill-node '; rm -rf ~'" in shop.get(where).visible_text
    odd = replace(topology("t"), id="$(date)-1-0")
    with browsing(tmp_path / "odd", problem([odd], current={odd.id: on("n0", "n1")})) as browser:
        text = browser.get(f"/topologies/{quote(odd.id, safe='')}/why").visible_text
        assert "stormwright explain problem.json --topology '$(date)-1-0' --executor" in text


def test_plan_is_created_applied_and_reverted_through_pages(tmp_path: Path) -> None:
    start = problem([topology("t")], current={topology("t").id: on("n0", "n1")})
    nimbus = Nimbus(tmp_path, start)
    nimbus.wants = np.array([4, 4, 5, 5], dtype=np.int32)
    before = nimbus.where()
    try:
        with over_nimbus(nimbus) as browser:
            plan = nimbus.propose(nimbus.wants)
            page = browser.get(f"/plans/{plan}")
            assert "Apply" in page.visible_text
            assert "Prediction before and after" in page.visible_text
            assert browser.post(f"/plans/{plan}/apply", by="anna", reason="it pays") == f"/plans/{plan}"
            nimbus.run()
            assert nimbus.where() != before
            assert "done" in browser.get(f"/plans/{plan}").visible_text
            history = browser.get("/history")
            assert "anna" in history.visible_text
            (form,) = [each["action"] for each in history.all("form") if each.get("method") == "post"]
            back = browser.post(form, by="anna", reason="too soon").rpartition("/")[2]
            until(lambda: settled(nimbus, back).state != "planned")
            nimbus.run()
            assert nimbus.where() == before
            assert "Apply" not in browser.get(f"/plans/{plan}").visible_text, "it is done"
            assert "is done" in browser.refused(f"/plans/{plan}/apply", 409, by="anna", reason="again")
    finally:
        nimbus.end()


def test_plan_page_lists_heaps_that_change(tmp_path: Path) -> None:
    nimbus = Nimbus(tmp_path, problem([topology("t")], current={topology("t").id: on("n0", "n1")}))
    try:
        with over_nimbus(nimbus) as browser:
            plan = nimbus.propose(np.array([4, 4, 4, 5], dtype=np.int32))
            page = browser.get(f"/plans/{plan}").visible_text
            assert "t: heap of host2:6700 256 → 384 MB" in page
            assert "t: heap of host2:6701 256 → 128 MB" in page
    finally:
        nimbus.end()


def test_a_node_is_drained_and_used_again_by_its_page(tmp_path: Path) -> None:
    nimbus = Nimbus(tmp_path, problem([topology("t")], current={topology("t").id: on("n0", "n1")}))
    try:
        with over_nimbus(nimbus) as browser:
            where = browser.post("/cluster/nodes/n0/drain", by="anna", reason="new disks")
            until(lambda: not settled(nimbus, where.rpartition("/")[2]).auto_apply)
            nimbus.run()
            page = browser.get("/cluster/nodes/n0")
            assert "host0 drained" in page.visible_text
            assert "anna" in page.visible_text
            assert "new disks" in page.visible_text
            assert "stormwright drain host0" in page.visible_text
            assert "host0 is drained by anna: new disks" in browser.get("/").visible_text
            assert browser.post("/cluster/nodes/n0/uncordon", by="anna", reason="done") == "/cluster/nodes/n0"
            assert "drained" not in browser.get("/cluster/nodes/n0").visible_text
            assert "is not drained" in browser.refused("/cluster/nodes/n0/uncordon", 404, by="anna", reason="again")
    finally:
        nimbus.end()


def test_topology_is_tuned_by_its_page(tmp_path: Path) -> None:
    t = topology("t")
    nimbus = Nimbus(tmp_path, problem([t], current={t.id: on("n0", "n1")}))
    try:
        with over_nimbus(nimbus) as browser:
            here = f"/topologies/{t.id}"
            assert "one that is not measurably better is taken back" in browser.get(here).visible_text
            form = {"quantity": "throughput", "latency_ms": "25.5", "by": "anna", "reason": "more"}
            assert browser.post(f"{here}/tune", **form) == here
            page = browser.get(here).visible_text
            assert "Running: highest rate, mean latency up to 25.5 ms" in page
            assert "By anna: more" in page
            assert "is being tuned already" in browser.refused(f"{here}/tune", 409, **form)
            assert browser.post(f"{here}/stop-tuning", by="bob", reason="enough") == here
            assert "bob: enough" in browser.get(here).visible_text.lower()
            for wrong in ("0", "-1", "nan", "many"):
                text = f"should be a number of ms from 1 on, got {wrong}"
                assert text in browser.refused(f"{here}/tune", 400, **{**form, "latency_ms": wrong})
    finally:
        nimbus.end()


def test_overview_lists_only_plans_with_moves(tmp_path: Path) -> None:
    nimbus = Nimbus(tmp_path, problem([topology("t")], current={topology("t").id: on("n0", "n1")}))
    try:
        with over_nimbus(nimbus) as browser:
            nothing = nimbus.plan_service.request(PlanRequest(by="anna", reason="a look")).id
            assert settled(nimbus, nothing).step_count == 0
            request = DrainRequest(by="anna", reason="new disks", wait=True)
            drain = nimbus.plan_service.nodes.drain("n0", request).plan
            assert drain is not None
            settled(nimbus, drain.id)
            assert f"/plans/{drain.id}" in (links := browser.get("/").links)
            assert f"/plans/{nothing}" not in links
            nimbus.plan_service.apply(drain.id, ANNA)
            nimbus.plan_service.nodes.uncordon("n0", ANNA)
            nimbus.run()
            n = nimbus.plan_service.plan(drain.id).decision
            ways = [f"/plans/{drain.id}/resume", f"/history/{n}/revert", f"/plans/{drain.id}/discard"]
            for path in ("/", f"/plans/{drain.id}"):
                page = browser.get(path)
                assert "Waiting for you" in page.visible_text
                assert [each["formaction"] for each in page.all("button")] == ways, "in the order of the command line"
    finally:
        nimbus.end()


def test_overview_shows_anomalies_and_holds(tmp_path: Path) -> None:
    nimbus = Nimbus(tmp_path, problem([topology("t")], current={topology("t").id: on("n0", "n1")}))
    slow = Anomaly(
        kind="slow-node",
        node="host0",
        supervisor="n0",
        text="host0: slow",
        since_ms=1,
        response="fix",
        waits="mode observe",
    )
    served = replace(SERVED, hold="missing", hold_why="3 nodes of 5 are missing", anomalies=[slow.model_dump()])
    try:
        with over_nimbus(nimbus, served) as browser:
            words = browser.get("/").visible_text
            assert "Nothing moves (missing): 3 nodes of 5 are missing" in words
            assert "host0: slow; not drained: mode observe (slow-node)" in words
    finally:
        nimbus.end()


def test_overview_reports_overloaded_node_first(tmp_path: Path) -> None:
    crowded = living(8, 1)
    with browsing(tmp_path, crowded) as browser:
        words = browser.get("/").visible_text
        assert "node-0000.example" in words.partition("uses more CPU than it has")[0]
        assert "Healthy" not in words


def test_waiting_components_are_notes_of_three_topologies_at_most(tmp_path: Path) -> None:
    shops = living(8, 8)
    assert shops.load is not None
    waiting = {
        name: replace(
            load,
            executing=np.where(np.arange(len(load.cpu_hz)) < 4, 0.9, 0.0),
            cpu_hz=load.cpu_hz / 100,
            waited=0 * load.cpu_hz,
        )
        for name, load in shops.load.topologies.items()
    }
    with browsing(tmp_path, shops.with_load(replace(shops.load, topologies=waiting))) as browser:
        named = re.findall(r"(\S+): count waits for something else than CPU", browser.get("/").visible_text)
        assert set(named) == {each.name for each in shops.topologies[:3]}
        words = browser.get(f"/topologies/{shops.topologies[7].id}").visible_text
        assert "waits for something else than CPU in" in words


def test_topology_pages_are_found_by_name_if_it_is_unique(tmp_path: Path) -> None:
    words, twins = topology("words"), [replace(topology("twin"), id=f"twin-{number}") for number in (1, 2)]
    with browsing(tmp_path, problem([words, *twins], current={words.id: on("n0", "n1")})) as browser:
        assert browser.get("/topologies/words").visible_text == browser.get(f"/topologies/{words.id}").visible_text
        assert "candidate slots" in browser.get("/topologies/words/why").visible_text
        assert "by id twin-1, twin-2" in browser.get("/topologies/twin", 404).visible_text


def test_topology_page_explains_executor_placement(shop: Browser) -> None:
    where = next(each for each in shop.get("/topologies").links if each.startswith("/topologies/")) + "/why"
    assert where in shop.get(where.removesuffix("/why")).links
    words = shop.get(f"{where}?executor=1").visible_text
    assert "Executor 1 " in words
    assert "candidate slots" in words
    assert f"--topology {where.split('/')[2]} --executor 1" in words
    assert "has no such executor" in shop.get(f"{where}?executor=9999", 400).visible_text
