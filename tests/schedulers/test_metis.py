"""Scheduling with METIS, and its partitions against the best ones by hand."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
from scipy.sparse import csr_array

from stormwright.errors import MissingDependencyError
from stormwright.formats import write_problem
from stormwright.model import Problem, TopologyAssignment, WorkerSlot, measured_traffic, violations
from stormwright.model.arrays import IntArray
from stormwright.model.constraints.constraint import RELATIVE_TOLERANCE
from stormwright.schedulers import make_scheduler
from stormwright.schedulers.toolkit.partition import partition
from tests.case_files import case_files, case_name, case_problem
from tests.schedulers.builders import load, nodes, problem, topology


def cliques(count: int, size: int, inside: float = 10.0, between: float = 1.0) -> list[tuple[int, int, float]]:
    """Pairs of `count` groups in which all exchange much, in a ring of groups that exchange little."""
    pairs = []
    for group in range(count):
        members = range(group * size, (group + 1) * size)
        pairs += [(a, b, inside) for a in members for b in members if a < b]
        pairs.append((group * size, (group + 1) % count * size, between))
    return pairs


def graph(count: int, pairs: list[tuple[int, int, float]]) -> csr_array:
    table = np.array(pairs).reshape(-1, 3)
    one_way = csr_array((table[:, 2], (table[:, 0].astype(int), table[:, 1].astype(int))), shape=(count, count))
    return (one_way + one_way.T).tocsr()


@pytest.mark.parametrize("volume", [False, True])
def test_partitioning_finds_groups_with_heavy_traffic(volume):
    parts = partition(graph(20, cliques(4, 5)), np.ones(20), [20] * 4, volume=volume)
    assert sorted(parts) == [list(range(5 * i, 5 * i + 5)) for i in range(4)]


def test_cut_objective_weighs_traffic_and_volume_objective_ignores_it():
    """Two triangles joined by one edge, over which nearly everything goes."""
    triangles = [(0, 1, 1.0), (1, 2, 1.0), (0, 2, 1.0), (3, 4, 1.0), (4, 5, 1.0), (3, 5, 1.0)]
    joined = graph(6, [*triangles, (2, 3, 1000.0)])
    assert sorted(partition(joined, np.ones(6), [6, 6], volume=True)) == [[0, 1, 2], [3, 4, 5]]
    by_cut = partition(joined, np.ones(6), [6, 6])
    assert any({2, 3} <= set(part) for part in by_cut)


def test_imbalance_is_the_percent_by_which_a_part_may_exceed_the_mean():
    """Two triangles joined by one light edge; the vertices of one weigh more."""
    triangles = [(0, 1, 9.0), (1, 2, 9.0), (0, 2, 9.0), (3, 4, 9.0), (4, 5, 9.0), (3, 5, 9.0)]
    joined, weight = graph(6, [*triangles, (2, 3, 1.0)]), np.array([4.0, 4, 4, 2, 2, 2])
    assert sorted(partition(joined, weight, [6, 6], imbalances=[40])) == [[0, 1, 2], [3, 4, 5]]
    assert [weight[part].sum() for part in partition(joined, weight, [6, 6], imbalances=[30])] != [12, 6]


def inter_node_tps(of: Problem, slots: IntArray) -> float:
    traffic, node = measured_traffic(of), of.slot_node[slots]
    return float(traffic.tps[node[traffic.source] != node[traffic.target]].sum())


@pytest.mark.parametrize("path", case_files("peer") + case_files("placement"), ids=case_name)
def test_no_more_traffic_between_nodes_than_with_even(path):
    """For all problems with measured loads, and of the others those in which `even` breaks no limit."""
    of = case_problem(path).with_nothing_running()
    if of.num_executors > 5000:
        pytest.skip("large")
    even, answer = (make_scheduler(name).schedule(of) for name in ("even", "metis"))
    if even.unplaced or answer.unplaced:
        pytest.skip("not placed as a whole by both")
    if path.parent.name == "peer" and violations(of, even.slot_of_executor):
        pytest.skip("even breaks a limit that metis keeps")
    most = inter_node_tps(of, even.slot_of_executor)
    assert inter_node_tps(of, answer.slot_of_executor) <= most * (1 + RELATIVE_TOLERANCE)


def test_parameters_of_the_published_code_give_its_communication_volume():
    """The triangles again: nearly everything goes over the edge between them, and volume counts it as one target."""
    pairs = [(0, 1, 1.0), (1, 2, 1.0), (0, 2, 1.0), (3, 4, 1.0), (4, 5, 1.0), (3, 5, 1.0), (2, 3, 1000.0)]
    of = problem(nodes(9.0, 9.0), (topology("t", 6, 2), load(6, pairs)))
    by_volume = make_scheduler("metis", {"objective": "volume"}).schedule(of).slot_of_executor
    assert by_volume[0] == by_volume[1] == by_volume[2] != by_volume[3]
    by_cut = make_scheduler("metis").schedule(of).slot_of_executor
    assert by_cut[2] == by_cut[3]


def test_weight_of_tuples_balances_these_instead_of_cpu():
    """A star: the hub exchanges as many tuples as all others together."""
    of = problem(nodes(9.0, 9.0), (topology("t", 8, 2), load(8, [(0, i, 10.0) for i in range(1, 8)])))
    sizes = {}
    for weight in ("cpu", "tuples"):
        slots = make_scheduler("metis", {"weight": weight, "imbalance": 3.0}).schedule(of).slot_of_executor
        sizes[weight] = sorted(np.unique(slots, return_counts=True)[1].tolist())
    assert sizes == {"cpu": [4, 4], "tuples": [1, 7]}


def test_parts_have_equal_weight():
    """A chain; one executor weighs as much as all others."""
    weight = np.array([1.0, 1, 1, 1, 1, 1, 1, 1, 8])
    parts = partition(graph(9, [(i, i + 1, 1.0) for i in range(8)]), weight, [9, 9])
    assert sorted(parts) == [list(range(8)), [8]]


def test_parts_keep_their_limits():
    heavy_tail = graph(8, [(0, i, 1.0) for i in range(1, 8)])
    parts = partition(heavy_tail, np.array([100.0] + [1.0] * 7), [4, 4])
    assert sorted(len(part) for part in parts) == [4, 4]
    parts = partition(heavy_tail, np.array([100.0] + [1.0] * 7), [6, 6], least=[3, 3])
    assert min(len(part) for part in parts) >= 3


@pytest.mark.parametrize("parts", [1, 3, 7])
def test_no_part_is_empty_without_any_traffic(parts):
    nothing = csr_array((7, 7))
    found = partition(nothing, np.zeros(7), [7] * parts)
    assert sorted(e for part in found for e in part) == list(range(7))
    assert all(found)


def test_workers_are_the_groups_and_go_round_robin_to_nodes_with_most_slots():
    t = topology("t", 12, 3)
    fewest, *others = nodes(9.0, 9.0, 9.0, ports=3)
    of = problem((replace(fewest, ports=fewest.ports[:2]), *others), (t, load(12, cliques(3, 4))))
    slots = make_scheduler("metis").schedule(of).slot_of_executor
    assert [len(set(slots[4 * i : 4 * i + 4].tolist())) for i in range(3)] == [1, 1, 1]
    assert sorted(of.slot_node[slots].tolist()) == [0] * 4 + [1] * 4 + [2] * 4


def test_metis_partition_can_correspond_to_a_supervisor():
    """Six workers on three supervisors: each gets a group, split to two workers; by workers a group is cut anyhow."""
    of = problem(nodes(9.0, 9.0, 9.0, ports=2), (topology("t", 12, 6), load(12, cliques(3, 4))))
    slots = make_scheduler("metis", {"part": "supervisor"}).schedule(of).slot_of_executor
    assert [set(of.slot_node[slots[4 * i : 4 * i + 4]].tolist()) for i in range(3)] in [
        list(p) for p in permutations([{0}, {1}, {2}])
    ]
    assert sorted(np.unique(slots, return_counts=True)[1].tolist()) == [2] * 6
    assert [slots[4 * i] == slots[4 * i + 2] != slots[4 * i + 1] == slots[4 * i + 3] for i in range(3)] == [True] * 3


def test_supervisors_without_workers_receive_partitions_first():
    """The first has most free slots, and runs something."""
    first, *others = nodes(9.0, 9.0, 9.0, ports=2)
    first = replace(first, ports=tuple(range(6700, 6708)))
    placed = [(topology("old", 1, 1), load(1)), (topology("new", 8, 2), load(8, cliques(2, 4)))]
    of = problem((first, *others), *placed).with_current({"old": TopologyAssignment((WorkerSlot("s0", 6700),), (0,))})
    slots = make_scheduler("metis", {"part": "supervisor"}).schedule(of).slot_of_executor
    assert sorted(set(of.slot_node[slots[1:]].tolist())) == [1, 2]


def test_partition_too_large_for_a_supervisor_is_placed_worker_by_worker():
    """Each node takes three executors of 0.3 GHz; parts of four go where there is room."""
    of = problem(nodes(1.0, 1.0, 1.0, ports=4), (topology("t", 8, 4), load(8, cliques(2, 4), cpu_ghz=0.3)))
    answer = make_scheduler("metis", {"part": "supervisor"}).schedule(of)
    assert not answer.unplaced
    assert violations(of, answer.slot_of_executor) == []


@pytest.mark.parametrize("name", ["metis", "p_scheduler"])
def test_missing_metis_error_includes_the_install_command(name, monkeypatch):
    monkeypatch.setitem(sys.modules, "pymetis", None)
    of = problem(nodes(9.0), (topology("t", 4, 2), load(4, cliques(2, 2))))
    with pytest.raises(MissingDependencyError, match=r'pip install "stormwright\[metis\]"'):
        make_scheduler(name).schedule(of)


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        ("schedule", "--scheduler", "metis"),
        ("schedule", "--scheduler", "n_version"),
        ("compare", "--schedulers", "metis,even"),
    ],
    ids=["metis", "n_version", "compare"],
)
def test_messages_of_metis_are_not_mixed_into_json(command, tmp_path):
    """One executor weighs as much as all others, so METIS has to halve a part of none, of which it prints a message."""
    exchange = [(0, 1, 6.0), (0, 2, 1.0), (0, 3, 2.0), (0, 4, 6.0), (0, 5, 5.0), (1, 3, 5.0), (1, 5, 5.0), (2, 3, 4.0)]
    exchange += [(2, 5, 2.0), (3, 5, 2.0), (4, 5, 3.0)]
    cpu_ghz = [0.001, 0.001, 1.0, 0.001, 0.001, 0.001]
    of = problem(nodes(9.0, 9.0), (topology("t", 6, 4), load(6, exchange, cpu_ghz=cpu_ghz)))
    write_problem(tmp_path / "problem.json", of)
    verb, *options = command
    program = [sys.executable, "-m", "stormwright", verb, str(tmp_path / "problem.json"), *options, "--json"]
    done = subprocess.run(program, capture_output=True, text=True, check=True)
    assert "Cannot bisect" in done.stderr, "METIS was called with such a graph"
    assert json.loads(done.stdout)
