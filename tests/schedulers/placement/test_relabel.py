"""Slots that are renamed: against all ways there are to exchange what is alike, tried one by one."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stormwright.model import UNPLACED, Supervisor, cost_of, diff
from stormwright.model.constraints.violations import violations
from stormwright.schedulers.placement.relabel import heaviest, node_kinds, renamed
from tests.schedulers.builders import load, nodes, problem, running, topology


def cluster(racks, kinds, ports):
    return tuple(
        Supervisor(f"s{n}", f"h{n}", tuple(range(6700, 6700 + ports)), kind * 1e9, rack=f"r{rack}")
        for n, (rack, kind) in enumerate(zip(racks, kinds, strict=True))
    )


def swaps(of):
    """Every node for a node of its kind, those of a rack for those of one rack."""
    racks, kinds = of.node_rack.tolist(), node_kinds(of).tolist()
    count = len(kinds)
    for to in permutations(range(count)):
        together = all((racks[a] == racks[b]) == (racks[to[a]] == racks[to[b]]) for a in range(count) for b in range(a))
        if together and all(kinds[node] == kinds[to[node]] for node in range(count)):
            yield to


def best_by_trying(of, slots):
    """Most executors that can stay, and of these placements most workers that run on."""
    now, node = of.current_slot, of.slot_node.tolist()
    ports = [[slot for slot in range(len(node)) if node[slot] == n] for n in range(len(of.supervisors))]

    def stays(a, b):
        """The best that node `a` of the placement can keep on node `b`."""
        ways = []
        for order in permutations(ports[b]):
            staying = whole = 0
            for new, old in zip(ports[a], order, strict=True):
                here, there = set(np.flatnonzero(slots == new)), set(np.flatnonzero(now == old))
                staying += len(here & there)
                whole += bool(here) and here == there
            ways.append((staying, whole))
        return max(ways)

    best = (0, 0)
    for to in swaps(of):
        found = [stays(a, b) for a, b in enumerate(to)]
        best = max(best, (sum(staying for staying, _ in found), sum(whole for _, whole in found)))
    return best


@st.composite
def placements(draw):
    """A cluster of few nodes, what runs on it, and another placement of the same."""
    count, ports = draw(st.integers(1, 4)), draw(st.integers(1, 2))
    racks = draw(st.lists(st.integers(0, 1), min_size=count, max_size=count))
    kinds = draw(st.lists(st.integers(1, 2), min_size=count, max_size=count))
    sizes = draw(st.lists(st.integers(1, 5), min_size=1, max_size=2))
    of = problem(cluster(racks, kinds, ports), *((topology(f"t{n}", e, e), load(e)) for n, e in enumerate(sizes)))
    owner = [[draw(st.integers(0, len(sizes) - 1)) for _ in of.slots] for _ in range(2)]
    found = []
    for owners in owner:
        slots = []
        for index in of.executor_topology.tolist():
            own = [slot for slot, owns in enumerate(owners) if owns == index]
            slots.append(draw(st.sampled_from([*own, UNPLACED])))
        found.append(slots)
    return running(of, found[0]), np.array(found[1], np.int32)


@pytest.mark.long
@given(placements())
def test_as_much_stays_as_can(case):
    of, slots = case
    after = renamed(of, slots)
    changes = diff(of, of.current_slot, after)
    staying = int(np.count_nonzero((after == of.current_slot) & (after != UNPLACED)))
    assert (staying, len(changes.unchanged_workers)) == best_by_trying(of, slots)


@pytest.mark.long
@given(placements())
def test_relabeling_preserves_the_placement_structure(case):
    of, slots = case
    after = renamed(of, slots)
    assert np.array_equal(after == UNPLACED, slots == UNPLACED)
    for name in (lambda s: s, lambda s: np.append(of.slot_node, UNPLACED)[s]):
        same_before = np.equal.outer(name(slots), name(slots))
        assert np.array_equal(same_before, np.equal.outer(name(after), name(after)))
    assert cost_of(of, after).total == pytest.approx(cost_of(of, slots).total)
    assert len(violations(of, after)) == len(violations(of, slots))


@pytest.mark.long
@given(st.dictionaries(st.tuples(st.integers(0, 4), st.integers(0, 4)), st.integers(1, 9).map(float), min_size=1))
def test_heaviest_matching_equals_dense_solver(worth):
    from scipy.optimize import linear_sum_assignment

    table = np.zeros((5, 5))
    for pair, value in worth.items():
        table[pair] = value
    found = heaviest(worth)
    assert len(set(found.values())) == len(found)
    assert sum(worth[pair] for pair in found.items()) == table[linear_sum_assignment(table, maximize=True)].sum()


def test_relabeling_leaves_non_running_topologies_unchanged():
    of = problem(nodes(1, 1), (topology("t", 2, 2), load(2)))
    slots = np.array([4, 0], np.int32)
    assert renamed(of, slots) is slots


def test_relabeled_topology_without_matching_slots_starts_in_unused_slots():
    """On the one node, as nothing else is like it: its other worker keeps its slot."""
    of = running(problem(nodes(1), (topology("a", 2, 2), load(2)), (topology("b", 1, 1), load(1))), [0, 1, UNPLACED])
    assert renamed(of, np.array([3, 2, 0], np.int32)).tolist() == [0, 1, 2]
    assert renamed(of, np.array([0, UNPLACED, 1], np.int32)).tolist() == [0, UNPLACED, 2]


@pytest.mark.parametrize(
    "other",
    [
        {"cpu_hz": 2e9},
        {"ports": (6700, 6701)},
        {"scheduler_meta": {"tags": "etl"}},
        {"resources": {"memory.mb": 8192.0, "gpu.count": 1.0}},
        {"link_bps": 1e9},
    ],
    ids=lambda other: next(iter(other)),
)
def test_unequal_nodes_are_not_exchanged(other):
    first, second = nodes(1, 1)
    of = problem((first, replace(second, **other)), (topology("t", 1, 1), load(1)))
    assert renamed(running(of, [4]), np.array([0], np.int32)).tolist() == [0]


def test_blacklisted_greylisted_or_favored_nodes_are_not_exchanged():
    of = problem(nodes(1, 1), (topology("t", 1, 1), load(1)))
    slots = np.array([0], np.int32)
    assert renamed(running(of, [4]), slots).tolist() == [4]
    assert renamed(running(replace(of, blacklisted_hosts=frozenset({"h1"})), [4]), slots).tolist() == [0]
    assert renamed(running(replace(of, greylisted_supervisors=("s1",)), [4]), slots).tolist() == [0]
    wishing = replace(of.topologies[0], conf={"topology.scheduler.favored.nodes": ["h0"]})
    assert renamed(running(replace(of, topologies=(wishing,)), [4]), slots).tolist() == [0]


def test_nodes_are_exchanged_only_within_the_same_host_group():
    """A host may be set apart for a topology as a whole."""
    first, second, third = nodes(1, 1, 1)
    of = problem((first, replace(second, host="h0"), third), (topology("t", 1, 1), load(1)))
    slots = np.array([0], np.int32)
    assert renamed(running(of, [4]), slots).tolist() == [4]
    assert renamed(running(of, [8]), slots).tolist() == [0]


def test_a_rack_as_a_whole_stands_in_for_another():
    of = problem(cluster([0, 0, 1, 1], [1, 1, 1, 1], 1), (topology("t", 4, 4), load(4)))
    assert renamed(running(of, [2, 2, 3, 3]), np.array([0, 0, 1, 1], np.int32)).tolist() == [2, 2, 3, 3]
    unlike = problem(cluster([0, 0, 1, 1], [1, 1, 1, 2], 1), (topology("t", 4, 4), load(4)))
    assert renamed(running(unlike, [2, 2, 3, 3]), np.array([0, 0, 1, 1], np.int32)).tolist() == [0, 0, 1, 1]
