"""The demonstration's result for people and for programs."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest

from stormwright.storm.local_cluster import LocalClusterConfig
from stormwright.workbench.demo.report import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, Curve, chart_of, write_html
from stormwright.workbench.demo.result import as_dict, counts, limits, outcomes, ratio_name, sums, table
from tests.workbench.demo.results import demo_result, rolled_back

SETTINGS = SimpleNamespace(cluster=LocalClusterConfig(link="25mbit", cores_per_node=0.4))


@pytest.mark.long
def test_report_shows_measured_beside_predicted_values():
    result = demo_result()
    rows = {}
    for row in table(result):
        rows.setdefault(row.label, row)
    assert rows["words: acked / s"].before == "9,000"
    assert rows["words: acked / s"].ratio == "1.33"
    promised = result.before.promise.topologies["words-1-0"].rate_tps.value
    assert rows["… predicted"].before == f"{promised:,.0f}"
    assert rows["n0: CPU of 0.4 cores, %"].before == "95"
    assert rows["n1: link out of 25 Mbit/s, %"].after == "36"
    assert rows["youngest worker had run, s"].before == "31"
    assert not rows["n0: CPU of 0.4 cores, %"].better, "what a node uses is neither good nor bad"


@pytest.mark.long
def test_nodes_without_limits_show_cores_used_by_workers():
    rows = {row.label: row for row in table(demo_result(limits=False))}
    assert rows["n0: cores used by its workers"].before == "0.38"
    assert not any("%" in label and label.startswith("n0") for label in rows)


@pytest.mark.long
def test_the_bottleneck_is_named_as_measured_and_as_predicted():
    before, after = limits(demo_result())
    assert before == "under even: fullest was the CPU of node n0, 95%; predicted limit: the CPU of node n0 (words)"
    assert after.startswith("under moon: fullest was the CPU of node n1, 75%: nothing was full; predicted limit: ")
    slow, _ = limits(demo_result(rate=500.0))
    assert slow.endswith("predicted limit: its spouts, which begin 500 trees/s (words)")


@pytest.mark.long
def test_result_json_contains_all_displayed_values():
    found = json.loads(json.dumps(as_dict(demo_result())))
    (topology,) = found["topologies"]
    assert topology["after"]["acked_tps"] == pytest.approx(12_000)
    assert topology["after"]["predicted"]["bottleneck"] == "the link into node n1"
    assert topology["before"]["predicted"]["mean_latency_ms"]["value"] > 0
    assert found["nodes"]["n0"]["before"]["cpu_share"] == pytest.approx(0.95)
    assert found["nodes"]["n1"]["after"]["sent_share"] == pytest.approx(0.36)
    assert found["nodes"]["n0"]["before"]["predicted"]["cpu"]["value"] == pytest.approx(1.0, rel=0.01)
    assert found["fullest"]["before"] == {"what": "the CPU of node n0", "share": pytest.approx(0.95), "is_full": True}
    assert found["youngest_worker_ran_s"] == {"before": 31.0, "after": 31.0}


@pytest.mark.long
@pytest.mark.parametrize("limited", [True, False])
def test_html_report_is_complete_and_self_contained(tmp_path, limited):
    """Also where nodes have no limits: then it says so, and there are no bars."""
    result = demo_result(limits=limited)
    write_html(result, SETTINGS, tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert ("CPU of 0.4 cores" in text) == limited
    assert ("nodes have no limit of CPU or link" in text) != limited
    for expected in (
        "<polyline",
        'class="dashes"',
        "measured: moon",
        "under even",
        "because &lt;b&gt;",
        *counts(result),
    ):
        assert expected in text
    assert "prefers-color-scheme: dark" in text
    for outside in ("src=", "href=", "url(", "@import"):
        assert outside not in text


@pytest.mark.long
def test_page_and_document_show_every_measurement_and_the_verdict(tmp_path):
    result = rolled_back()
    write_html(result, SETTINGS, tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    for expected in (
        "promised +24 %, measured −44 %",
        "rolled back",
        "corrected from 36 to 52 µs",
        "under even, again",
    ):
        assert expected in text
    assert text.count('<td class="text">moon</td>') == 1
    found = json.loads(json.dumps(as_dict(result)))
    assert [(start["placement"], start["verdict"]) for start in found["trials"]] == [
        ("even", None),
        ("moon", "worse"),
        ("even", None),
    ]
    assert found["trials"][1]["acked_tps"] == {"words": 5_000.0}
    (decision,) = found["decisions"]
    assert (decision["outcome"], decision["promised_ratio"]) == ("rolled back", 1.24)
    assert decision["measured"]["low"] < decision["measured"]["ratio"] < decision["measured"]["high"] < 1


def test_a_curve_fills_its_picture():
    chart = chart_of([Curve("a", "red", [0.5, 49.5, 99.5], [0, 2000, 950], [(50.0, 99.5, 1000.0)])], [(40, 50, "here")])
    points = [tuple(map(float, point.split(","))) for point in chart.lines[0].points.split()]
    assert points[0][1] == HEIGHT - BOTTOM
    assert points[-1][0] == WIDTH - RIGHT
    assert TOP < points[1][1] < TOP + 20, "a little is left above the highest"
    assert all(LEFT <= x <= WIDTH - RIGHT for x, _ in points)
    (start, end, y), (_, tall) = chart.lines[0].dashes[0], points[-1]
    assert start < end
    assert y == pytest.approx(tall, abs=10)
    assert [label for _, label in chart.y_ticks] == ["0", "500", "1,000", "1,500", "2,000"]
    assert [label for _, label in chart.x_ticks] == ["0", "20", "40", "60", "80"]
    assert chart.spans[0].label == "here"


def test_nothing_measured_is_a_picture_too():
    chart = chart_of([Curve("a", "red", [], [])], [])
    assert chart.lines[0].points == ""
    assert chart.y_ticks[0][1] == "0"


@pytest.mark.long
def test_ratio_is_no_gain_where_the_placement_is_the_same():
    """Workers that are a minute older do more: 1.23 was printed as if the placement had gained it."""
    moved = demo_result()
    assert ratio_name(moved) == "after / before"
    assert any(row.better for row in table(moved))
    for same in (replace(moved, moves=[]), rolled_back()):
        assert ratio_name(same) == "again / before"
        assert not any(row.better for row in (*table(same), *sums(same)))
        assert outcomes(same) == []


@pytest.mark.long
def test_every_topology_that_moved_has_its_promise_and_its_outcome():
    result = demo_result()
    (line,) = outcomes(result)
    came = result.topologies[0].after.acked_tps / result.topologies[0].before.acked_tps
    assert line.startswith(f"{result.topologies[0].name}: came to {came:.2f} times its rate, promised ")
