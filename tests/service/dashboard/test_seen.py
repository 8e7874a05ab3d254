"""What pages show is what the model and the predictions say, and it is made beside the pages."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import numpy as np
import pytest

import stormwright as sw
from stormwright.model import cost_of
from stormwright.service.dashboard.charts import Line, Mark, chart
from stormwright.service.dashboard.flows import MAX_PLACES, Heat, component_flows
from stormwright.service.dashboard.heat_map import without_domain
from stormwright.service.dashboard.rendering import number, span
from stormwright.service.dashboard.scene import Scene
from stormwright.service.dashboard.state import CachedValue
from stormwright.service.dashboard.svg import use_class
from stormwright.service.dashboard.topology_graph import Box, Edge, graph, layered
from tests.service.dashboard.living import living
from tests.service.dashboard.sites import browsing, until


@pytest.mark.parametrize(("nodes", "racks"), [(10, 2), (MAX_PLACES + 8, 4), (MAX_PLACES + 8, 1)])
def test_node_traffic_matches_cost_model(nodes: int, racks: int) -> None:
    shops = living(20, nodes, racks=racks)
    heat, cost = Heat.of(shops), cost_of(shops, shops.current_slot)
    assert heat.total_tps == pytest.approx(cost.inter_node + cost.inter_rack)
    assert heat.tps.sum() == pytest.approx(cost.same_executor + cost.same_worker + cost.inter_worker + heat.total_tps)
    if heat.kind == "rack":
        assert heat.tps.sum() - np.trace(heat.tps) == pytest.approx(cost.inter_rack)


def test_component_flows_sum_to_load() -> None:
    shops = living(3, 4)
    load = shops.loads[1]
    assert sum(flow.tps for flow in component_flows(shops, 1)) == pytest.approx(
        load.pair_tps.sum() + load.flow_tps.sum()
    )


def test_figures_of_all_rows_are_computed_once_per_scene() -> None:
    scene = Scene.of(living(3, 4))
    assert scene.flows(1) is scene.flows(1)
    assert scene.flows(1) == component_flows(scene.problem, 1)


def test_nodes_are_as_full_as_their_executors_make_them() -> None:
    shops = living(6, 5)
    nodes = Scene.of(shops).nodes
    for node, supervisor in enumerate(shops.supervisors):
        own = shops.slot_node[shops.current_slot] == node
        assert nodes.use["cpu"][node] == pytest.approx(shops.executor_cpu_hz[own].sum() / supervisor.cpu_hz)
        assert nodes.executors[node] == own.sum()
        requested = sum(25.0 if "orders" in name else 15.0 for name in names(shops, own)) / 100 * shops.core_hz
        assert nodes.use["cpu-requested"][node] == pytest.approx(requested / supervisor.cpu_hz)


def names(shops: sw.Problem, own: np.ndarray) -> list[str]:
    found = []
    for executor in np.flatnonzero(own):
        topology = shops.topologies[int(shops.executor_topology[executor])]
        component = topology.executor_component[
            executor - int(shops.executor_offset[shops.executor_topology[executor]])
        ]
        found.append(topology.components[int(component)].id)
    return found


@pytest.mark.long
def test_topology_page_matches_prediction_and_marks_bottleneck(tmp_path: Path) -> None:
    shops = living(8, 10)
    with browsing(tmp_path, shops) as browser:
        for predicted in sw.predict(shops).topologies:
            page = browser.get(f"/topologies/{predicted.topology}")
            assert f"Limited by {predicted.bottleneck}" in page.visible_text
            assert f"measured throughput, trees/s {number(predicted.rate_tps)}" in page.visible_text
            assert f"reachable throughput, trees/s {number(predicted.reachable_tps.value)}" in page.visible_text
            marked = page.text.count('class="component bottleneck"')
            assert marked == (predicted.bottleneck.kind == "thread" and "component" in str(predicted.bottleneck))


def test_a_scene_is_not_made_again_of_the_same_problem() -> None:
    shops = living(3, 4)
    first = Scene.of(shops)
    assert Scene.of(shops, first).heat is first.heat
    assert Scene.of(living(3, 4, seed=8), first).number == first.number + 1


def test_previous_value_is_served_during_refresh() -> None:
    going, made = threading.Event(), []

    def make(last: int | None) -> int:
        if last is not None:
            going.wait(10)
        made.append(last)
        return (last or 0) + 1

    keeper = CachedValue(make, fresh_s=0.01)
    assert keeper.get(10) == 1
    time.sleep(0.2)
    assert keeper.get(10) == 1
    assert made == [None], "nobody waits for the next"
    going.set()
    until(lambda: (keeper.get() or 0) >= 2)


def test_failed_refresh_is_reported_and_previous_value_remains() -> None:
    def make(last: int | None) -> int:
        if last:
            raise ValueError("no")
        return 1

    keeper = CachedValue(make, fresh_s=0.01)
    assert keeper.get(10) == 1
    until(lambda: keeper.get() and keeper.error)
    assert keeper.error == "ValueError: no"
    assert keeper.get() == 1


@pytest.mark.parametrize(
    ("edges", "layers"),
    [
        ([(0, 1), (1, 2)], [[0], [1], [2]]),
        ([(0, 1), (1, 2), (0, 2)], [[0], [1], [2]]),
        ([(0, 1), (1, 2), (2, 1)], [[0], [1], [2]]),
        ([(1, 1)], [[0, 1, 2]]),
        ([(0, 1), (1, 2), (2, 0)], [[0], [1], [2]]),
        ([], [[0, 1, 2]]),
    ],
)
def test_graph_layers_follow_inputs_despite_cycles(edges: list[tuple[int, int]], layers: list[list[int]]) -> None:
    assert layered(3, edges) == layers
    boxes = [Box(str(number), 1, 0.5, bottleneck=False) for number in range(3)]
    assert graph(boxes, [Edge(*each, 10.0) for each in edges], "a graph").count("<path") == len(edges)


def test_an_edge_is_as_wide_as_its_flow() -> None:
    boxes = [Box(str(number), 1, 0.5, bottleneck=False) for number in range(3)]
    svg = graph(boxes, [Edge(0, 1, 900.0), Edge(1, 2, 100.0), Edge(0, 2, 0.0, known=False)], "a graph")
    widths = [float(part.split('"')[0]) for part in svg.split('stroke-width="')[1:]]
    assert widths[0] == max(widths)
    assert widths[1] == min(widths[:2])
    assert 'class="flow idle"' in svg


def test_chart_breaks_line_at_measurement_gaps() -> None:
    minute = 60_000
    points = [(n * minute, 5.0) for n in range(10)] + [(n * minute, 6.0) for n in range(40, 50)]
    svg = chart([Line("rate", points)], "trees/s", [Mark(45 * minute, "7", "entry 7", "/history#n7")])
    path = svg.split('class="line l0"')[1].split('d="')[1].split('"')[0]
    assert path.count("M") == 2
    assert 'href="/history#n7"' in svg


def test_colours_are_by_part_and_unknown_is_none() -> None:
    assert [use_class(part) for part in (0.0, 0.2, 0.5, 0.99, 1.0, 1.1, float("nan"))] == [
        *("u0", "u1", "u2", "u4", "u4", "over", "unknown")
    ]


def test_numbers_and_durations_are_formatted_for_readers() -> None:
    assert [number(value) for value in (None, float("inf"), 0.0, 12345.6, 3.14159)] == ["–", "–", "0", "12,346", "3.14"]
    assert [span(value) for value in (4.2, 240, 10_000, 400_000)] == ["4 s", "4 min", "3 h", "5 d"]
    assert without_domain(["a.x.y", "b.x.y"]) == ["a", "b"]
    assert without_domain(["a.x", "b.y"]) == ["a.x", "b.y"]
