"""Repair takes overload away by each of its four steps, and says what is left; what room is made for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stormwright.model import UNPLACED
from stormwright.schedulers.placement import repair
from stormwright.schedulers.placement.partial_placement import PartialPlacement
from stormwright.schedulers.placement.repair import PlacementRepair, make_room
from stormwright.schedulers.toolkit.limits import max_executors_per_worker
from tests.examples import examples
from tests.schedulers.builders import load, nodes, problem, topology


def repaired(of, workers, on_nodes, fixed=()):
    placement = PartialPlacement.empty(of, of.node_usable)
    for number, (executors, node) in enumerate(zip(workers, on_nodes, strict=True)):
        placement.add_worker(int(of.executor_topology[executors[0]]), executors, node, fixed=number in fixed)
    overloaded = PlacementRepair(placement).run()
    return placement, overloaded.tolist()


def test_worker_moves():
    of = problem(nodes(1, 1), (topology("t", 2, 2), load(2, cpu_ghz=0.6)))
    placement, overloaded = repaired(of, [[0], [1]], [0, 0])
    assert (placement.node, overloaded) == ([1, 0], [])


def test_workers_change_nodes():
    """Of different topologies, so their executors cannot change workers."""
    placed = [(topology(f"t{k}", 1, 1), load(1, cpu_ghz=ghz)) for k, ghz in enumerate((0.8, 0.4, 0.5, 0.2))]
    placement, overloaded = repaired(problem(nodes(1, 1, ports=2), *placed), [[0], [1], [2], [3]], [0, 0, 1, 1])
    assert overloaded == []
    assert placement.worker.tolist() == [0, 1, 2, 3]
    assert np.bincount(placement.node).tolist() == [2, 2]


def test_executor_moves():
    of = problem(nodes(1, 1, ports=1), (topology("t", 4, 2), load(4, cpu_ghz=0.45)))
    placement, overloaded = repaired(of, [[0, 1, 2], [3]], [0, 1])
    assert overloaded == []
    assert np.bincount(placement.worker).tolist() == [2, 2]


def test_executors_change_workers():
    """Both workers are full by number."""
    cpu_ghz = np.array([0.6, 0.6, 0.3, 0.3])
    limited = topology("t", 4, 2, **{"stormwright.max.executors.per.worker": 2})
    placement, overloaded = repaired(
        problem(nodes(1, 1, ports=1), (limited, load(4, cpu_ghz=cpu_ghz))), [[0, 1], [2, 3]], [0, 1]
    )
    assert overloaded == []
    assert np.bincount(placement.worker).tolist() == [2, 2]


def test_memory_counts_like_cpu():
    of = problem(nodes(9, 9, memory_mb=250.0), (topology("t", 4, 4), load(4)))
    placement, overloaded = repaired(of, [[0], [1], [2], [3]], [0, 0, 0, 1])
    assert overloaded == []
    assert np.bincount(placement.node).tolist() == [2, 2]


def test_fixed_workers_and_unusable_nodes_take_no_part():
    of = problem(nodes(1, 1, 1), (topology("t", 2, 2), load(2, cpu_ghz=0.6)))
    of = type(of)(of.supervisors, of.topologies, load=of.load, blacklisted_hosts=frozenset({"h1"}))
    placement, overloaded = repaired(of, [[0], [1]], [0, 0], fixed={0})
    assert (placement.node, overloaded) == ([0, 2], [])
    placement, overloaded = repaired(of, [[0], [1]], [0, 0], fixed={0, 1})
    assert (placement.node, overloaded) == ([0, 0], [0])


@pytest.mark.parametrize("seed", range(20))
def test_overload_never_grows_and_nothing_is_lost(seed):
    rng = np.random.default_rng(seed)
    placed = [(topology(f"t{k}", 6, 3), load(6, cpu_ghz=rng.uniform(0.1, 0.5, 6))) for k in range(3)]
    of = problem(nodes(1.5, 1.5, 1.5, 1.5), *placed)
    workers = [[6 * k + 2 * w, 6 * k + 2 * w + 1] for k in range(3) for w in range(3)]
    on_nodes = rng.integers(0, 2, 9).tolist()
    before = PartialPlacement.empty(of, of.node_usable)
    for number, (executors, node) in enumerate(zip(workers, on_nodes, strict=True)):
        before.add_worker(number // 3, executors, node)
    placement, _ = repaired(of, workers, on_nodes)
    over = [np.maximum(d.node_use()[0] - of.node_cpu_hz, 0).sum() for d in (before, placement)]
    assert over[1] <= over[0]
    assert np.array_equal(np.sort(np.unique(placement.worker)), np.arange(9))
    assert all(placement.topology[w] == k for w, k in zip(placement.worker, of.executor_topology, strict=True))


@st.composite
def tight_drafts(draw: st.DrawFn) -> PartialPlacement:
    """Workers of a few topologies anywhere on nodes that have about as much as these ask for; some are fixed."""
    placed = []
    for number in range(draw(st.integers(1, 4))):
        executors = draw(st.integers(1, 6))
        workers = draw(st.integers(1, min(executors, 3)))
        amounts = st.lists(st.integers(1, 9), min_size=executors, max_size=executors)
        demand = load(executors, cpu_ghz=np.array(draw(amounts)) / 10, memory_mb=100.0 * np.array(draw(amounts)))
        limit = draw(st.sampled_from([{}, {"stormwright.max.executors.per.worker": -(-executors // workers)}]))
        placed.append((topology(f"t{number}", executors, workers, **limit), demand))
    count = draw(st.integers(1, 4))
    part = draw(st.sampled_from([0.7, 1.0, 1.3])) / count
    cpu_ghz = part * sum(demand.cpu_hz.sum() for _, demand in placed) / 1e9
    memory_mb = 1.5 * part * sum(demand.memory_mb.sum() for _, demand in placed)
    of = problem(nodes(*[cpu_ghz] * count, ports=draw(st.integers(3, 5)), memory_mb=memory_mb), *placed)
    placement = PartialPlacement.empty(of, np.array([True] * max(count - 1, 1) + [draw(st.booleans())] * (count > 1)))
    for number, (each, _) in enumerate(placed):
        own = of.executors_of(number)
        executors = draw(st.permutations(range(own.start, own.stop)))
        for w in range(each.num_workers):
            room = np.flatnonzero(placement.usable & (placement.slots_used() < len(of.supervisors[0].ports))).tolist()
            if not room:  # the rest waits for no slot: there is none
                break
            node, fixed = draw(st.sampled_from(room)), draw(st.integers(0, 5)) == 0
            placement.add_worker(number, sorted(executors[w :: each.num_workers]), node, fixed=fixed)
    return placement


def overload(placement: PartialPlacement) -> float:
    """What is beyond CPU and memory of nodes, in parts of what all have."""
    of, total = placement.problem, 0.0
    for used, capacity in zip(placement.node_use()[:-1], of.node_capacity, strict=True):
        over = used - capacity * (1 + 1e-9)
        total += float(np.maximum(over, 0).sum() / capacity.sum())
    return total


def neighbours(placement: PartialPlacement):
    """Every draft that one step makes of this one."""

    def changed(worker=None, node=None) -> PartialPlacement:
        return replace(placement, worker=placement.worker if worker is None else worker, node=node or placement.node)

    ports = len(placement.problem.supervisors[0].ports)
    free = np.flatnonzero(placement.usable & (placement.slots_used() < ports)).tolist()
    movable = [w for w, fixed in enumerate(placement.fixed) if not fixed and placement.node[w] != UNPLACED]
    for a in movable:
        for to in free:
            yield changed(node=[to if w == a else at for w, at in enumerate(placement.node)])
        for b in movable:
            swapped = list(placement.node)
            swapped[a], swapped[b] = swapped[b], swapped[a]
            yield changed(node=swapped)
    for executor, own in enumerate(placement.worker.tolist()):
        for to in movable:
            if own not in movable or own == to or placement.topology[own] != placement.topology[to]:
                continue
            limit = max_executors_per_worker(placement.problem.topologies[placement.topology[to]])
            sizes = np.bincount(placement.worker[placement.worker != UNPLACED], minlength=len(placement.node))
            if sizes[own] > 1 and sizes[to] < limit:
                moved = placement.worker.copy()
                moved[executor] = to
                yield changed(worker=moved)
            for other in np.flatnonzero(placement.worker == to):
                moved = placement.worker.copy()
                moved[[executor, other]] = to, own
                yield changed(worker=moved)


def copy(placement: PartialPlacement) -> PartialPlacement:
    lists = {name: list(getattr(placement, name)) for name in ("topology", "node", "fixed")}
    return replace(placement, worker=placement.worker.copy(), reasons={}, **lists)


@pytest.mark.slow
@settings(max_examples=examples(150), deadline=None)
@given(placement=tight_drafts())
def test_repair_ends_without_an_improving_step(placement):
    """Steps go from overloaded nodes to any; one between two that are not would take nothing away."""
    before = overload(placement)
    PlacementRepair(placement).run()
    left = overload(placement)
    assert left <= before + 1e-12
    assert all(overload(each) >= left - 1e-12 for each in neighbours(placement))


@pytest.mark.long
@settings(max_examples=examples(50), deadline=None)
@given(placement=tight_drafts())
def test_frequency_of_clock_checks_does_not_affect_repair(placement):
    other = copy(placement)
    PlacementRepair(placement).run()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(repair, "_LOOKS", 1)
        PlacementRepair(other).run()
    assert (placement.node, placement.worker.tolist()) == (other.node, other.worker.tolist())


@pytest.mark.slow
@settings(max_examples=examples(150), deadline=None)
@given(placement=tight_drafts(), late=st.booleans())
def test_room_is_made_for_whole_topologies_or_reasons_are_given(placement, late):
    of, begun = placement.problem, copy(placement)
    make_room(placement, is_late=lambda: late)
    fixed = np.array([*placement.fixed, False])[placement.worker]
    on_node = placement.node_of_executor() != UNPLACED
    for number in range(len(of.topologies)):
        own = of.executors_of(number)
        if number in placement.reasons:
            assert placement.reasons[number]
            assert np.array_equal(on_node[own], fixed[own])
        else:
            assert np.array_equal(on_node[own], (begun.worker != UNPLACED)[own])
    over = placement.node_use() > placement.capacity
    for node in np.flatnonzero(over.any(axis=0)):  # what is fixed may overload a node by itself
        assert all(placement.fixed[worker] for worker, at in enumerate(placement.node) if at == node)


@pytest.mark.long
@settings(max_examples=examples(50), deadline=None)
@given(placement=tight_drafts())
def test_topology_removed_by_repair_does_not_fit_its_original_workers(placement):
    """With a clock that is over, so that workers are as before: not beside what was placed, worker by worker."""
    begun = copy(placement)
    make_room(placement, is_late=lambda: True)
    for number in placement.reasons:
        workers = [w for w, t in enumerate(begun.topology) if t == number and not begun.fixed[w]]
        room = placement.capacity - placement.node_use()
        demand = np.array([[*begun.worker_use()[:, w], 1.0] for w in workers])
        if len(workers) == 1:
            assert not np.any(np.all((room >= demand.T)[:, placement.usable], axis=0))


def test_repair_removes_the_last_topology_and_readmits_a_small_one():
    of = problem(
        nodes(1.0), *((topology(f"t{k}", 1, 1), load(1, cpu_ghz=ghz)) for k, ghz in enumerate((0.6, 0.6, 0.3)))
    )
    placement = PartialPlacement.empty(of, of.node_usable)
    for number in range(3):
        placement.add_worker(number, [number], 0)
    make_room(placement)
    assert placement.reasons == {1: ("1 of 1 nodes: CPU short by at least 0.5 GHz",)}
    assert placement.node_of_executor().tolist() == [0, UNPLACED, 0]


def test_a_hopeless_cluster_takes_few_steps(monkeypatch):
    """Two executors fit on no node, and there are 600 too many; those of 76 of 100 topologies have room.

    To look at every node beside each overloaded one once is 1.2 million looks. Each topology that is left out, of 24,
    changes 26 nodes, each of which is looked at beside those still overloaded, at most 600: 0.4 million.
    """
    placed = [(topology(f"t{k}", 26, 26), load(26, cpu_ghz=1.0, memory_mb=1.0)) for k in range(100)]
    of = problem(nodes(*[1.5] * 2000), *placed)
    placement = PartialPlacement.empty(of, of.node_usable)
    for executor in range(2600):
        placement.add_worker(executor // 26, [executor], executor % 2000)
    repairs = []

    class EngineCounts(PlacementRepair):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            repairs.append(self)

    monkeypatch.setattr(repair, "PlacementRepair", EngineCounts)
    make_room(placement)
    assert len(placement.reasons) == 24
    assert sum(each.steps for each in repairs) <= 1200
    assert sum(each.looks for each in repairs) <= 2_500_000
