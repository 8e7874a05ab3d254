"""The pages beside the other endpoints of a service: over sockets, live, and fast at any size."""

from __future__ import annotations

import http.client
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest

from stormwright.api import compare
from stormwright.cli import run
from stormwright.model import Problem
from stormwright.schedulers import make_scheduler
from stormwright.service.dashboard.charts import axis_label
from stormwright.service.dashboard.rendering import span, written
from stormwright.service.dashboard.site import Site
from stormwright.service.dashboard.sources import Sources
from stormwright.service.dashboard.state import DashboardState
from stormwright.service.dashboard.trials import Change
from stormwright.service.dashboard.views import cluster
from stormwright.service.dashboard.views.overview import overview, overview_data
from stormwright.service.http.app import make_app
from stormwright.service.http.deliveries import BodyRecipient
from stormwright.service.http.server import HttpServer
from stormwright.simulator.cluster.clock import VirtualClock
from stormwright.storm.bridge import Bridge
from stormwright.workbench.live_trials import LiveTrials
from tests.service.dashboard.living import living
from tests.service.dashboard.sites import SERVED, browsing

HOST = "127.0.0.1"
BROWSER, PROGRAM = {"accept": "text/html,*/*;q=0.8"}, {"accept": "*/*"}


@contextmanager
def serving(problem: Problem) -> Iterator[http.client.HTTPConnection]:
    with socket.socket() as free:
        free.bind((HOST, 0))
        number = free.getsockname()[1]
    bridge = Bridge(make_scheduler("even"), "even")
    with DashboardState(Sources(lambda: problem, lambda: SERVED, lambda: 1.0)) as known:
        app = make_app(bridge, BodyRecipient(lambda _: None), lambda: SERVED, lambda: problem, pages=Site(known))
        with HttpServer(app, HOST, number):
            connection = http.client.HTTPConnection(HOST, number, timeout=60)
            yield connection
            connection.close()


def ask(connection: http.client.HTTPConnection, path: str, headers: dict[str, str]) -> tuple[int, str, bytes]:
    connection.request("GET", path, headers=headers)
    answer = connection.getresponse()
    return answer.status, answer.headers["content-type"], answer.read()


def test_browsers_get_pages_where_programs_get_json() -> None:
    with serving(living(2, 3)) as connection:
        status, kind, body = ask(connection, "/", PROGRAM)
        assert (status, kind) == (200, "application/json")
        assert "GET /v1/status" in orjson.loads(body)["endpoints"]
        status, kind, body = ask(connection, "/", BROWSER)
        assert (status, kind) == (200, "text/html; charset=utf-8")
        assert b"<h1" in body
        assert ask(connection, "/v1/none", PROGRAM)[:2] == (404, "application/json")
        assert ask(connection, "/none", BROWSER)[:2] == (404, "text/html; charset=utf-8")
        assert ask(connection, "/v1/status", BROWSER)[1] == "application/json"


def test_live_events_announce_changes(tmp_path: Path) -> None:
    with serving(living(2, 3)) as connection:
        connection.request("GET", "/live", headers={"accept": "text/event-stream"})
        answer = connection.getresponse()
        assert answer.headers["content-type"].startswith("text/event-stream")
        lines = [answer.readline() for _ in range(4)]
        assert lines[1] == b"event: version\n"
        connection.close()
    with browsing(tmp_path, living(2, 3)) as browser:
        known = browser.site.known
        known.scene()
        before = known.version()
        browser.post("/plans", by="anna", reason="a look")
        assert known.version() != before


@pytest.mark.long
def test_dashboard_trials_match_command_line() -> None:
    shops = living(4, 6)
    table = LiveTrials().compare(shops, ["even", "online"]).table
    rows = {row.name: row for row in compare(shops, "even,online").rows}
    cost = {row[0]: row[table.head.index("cost")] for row in table.rows}
    for name, row in rows.items():
        assert row.figures is not None
        assert float(cost[name].replace(",", "")) == pytest.approx(row.figures.cost.total, rel=0.005)
    prediction = LiveTrials().what_if(shops, Change(rate="×2", kill_node="sup-0001"))
    assert [row[1] for row in prediction.table.rows[:2]] == ["today", "then"]
    assert float(prediction.table.rows[1][2].partition(",")[0].replace(",", "")) > 0
    assert any("placed by" in note for note in prediction.notes)


def test_file_dashboard_reports_faults_before_serving(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    assert run(["dashboard", str(tmp_path / "none.json")]) == 2
    assert "none.json" in capsys.readouterr().err
    case = Path(__file__).parents[2] / "cases" / "placement" / "s01_excl18_n5.json.gz"
    assert run(["dashboard", str(case), "--scheduler", "none"]) == 2


def test_occupied_address_is_reported_by_file_dashboard(capfd: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        taken.listen(1)
        where = taken.getsockname()[1]
        assert run(["dashboard", "ready:cluster-20", "--port", str(where)]) == 2
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith(f"stormwright: {HOST}:{where}: cannot listen there: address already in use; ")


@pytest.mark.slow
def test_pages_of_largest_cluster_are_served_within_200_ms() -> None:
    """1,000 topologies, 100,000 executors, 5,000 nodes: p99 within 200 ms, once the first has been rendered."""
    paths = ["/", "/cluster", "/cluster/racks/3", "/cluster/nodes/sup-0004", "/topologies", "/traffic", "/timeline"]
    with serving(living(1000, 5000, racks=100, sizes=(10, 20, 20, 30, 20))) as connection:
        began = time.perf_counter()
        while ask(connection, "/cluster", BROWSER)[0] != 200:
            assert time.perf_counter() - began < 60
        seconds = []
        for _ in range(20):
            for path in paths:
                began = time.perf_counter()
                assert ask(connection, path, BROWSER)[0] == 200
                seconds.append(time.perf_counter() - began)
        assert np.quantile(seconds, 0.99) < 0.2


def test_slightly_negative_age_is_shown_as_zero() -> None:
    assert span(-0.0004) == "0 s"


def test_empty_cluster_is_no_problem() -> None:
    """Neither is Nimbus taken for silent there, nor is a load expected."""
    empty = Problem(living(2, 3).supervisors, ())
    pipeline: Any = {"running": True, "error": None}
    status = replace(SERVED, hold="unmeasured", hold_why="nothing was measured", pipeline=pipeline)
    with DashboardState(Sources(lambda: empty, lambda: status, lambda: 1.0)) as known:
        found = overview_data(known).findings
    assert [each.text for each in found if each.page in ("/timeline", "/topologies")] == ["No topology runs yet"]
    assert not [each for each in found if each.level == "bad"]


def test_virtual_time_is_shown_in_the_header() -> None:
    clock = VirtualClock(1_767_225_600.0)
    with DashboardState(Sources(lambda: None, lambda: SERVED, lambda: 1.0, clock=clock)) as known:
        assert "virtual time" in written(overview(known), known)
    with DashboardState(Sources(lambda: None, lambda: SERVED, lambda: 1.0)) as known:
        assert "virtual time" not in written(overview(known), known)


def test_axis_labels_fit_beside_the_axis() -> None:
    """They were cut to the left: 000,000 was left of 2,000,000."""
    assert [axis_label(value, 2e6) for value in (0, 5e5, 2e6)] == ["0", "0.5 M", "2.0 M"]
    assert [axis_label(value, 1.6e5) for value in (4e4, 1.6e5)] == ["40 k", "160 k"]
    assert max(len(axis_label(10.0**power, 10.0**power)) for power in range(-6, 12)) <= 7


def test_cpu_of_a_node_is_one_figure_of_the_whole_node() -> None:
    """The map, the table, the fullest node and the node's own page have the same; executors are a part of it."""
    problem = living(2, 3)
    measured: Any = {
        each.id: {"cpu_cores": 1.0 + 0.5 * number, "capacity_cores": 2.0}
        for number, each in enumerate(problem.supervisors)
    }
    status = replace(SERVED, pipeline=SERVED.pipeline | {"nodes": measured})
    with DashboardState(Sources(lambda: problem, lambda: status, lambda: 1.0)) as known:
        scene = known.scene()
        assert scene is not None
        assert scene.nodes.cpu_cores.tolist() == [1.0, 1.5, 2.0]
        pages = [overview(known), cluster.cluster(known, {}), cluster.node(known, problem.supervisors[2].id)]
        assert all("2 of 2" in written(page, known) for page in pages)
        assert not any("GHz" in written(page, known) for page in pages)
