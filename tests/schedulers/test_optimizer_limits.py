"""The optimizer under limits beside CPU and memory: generic resources, components apart, and requests."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from stormwright.model import Component, Problem, Supervisor, Topology, default_executor_runs, violations
from stormwright.model.arrays import FloatArray, IndexArray
from stormwright.schedulers import make_scheduler
from stormwright.testing import oracles
from tests.schedulers.builders import load, problem, running

GPU = "gpu.count"


def limited(seed: int) -> Problem:
    """One or two topologies, 3 to 8 executors in all, on two or three nodes, with GPUs and components to be apart."""
    rng = np.random.default_rng(seed)
    ports = tuple(range(6700, 6700 + int(rng.integers(2, 5))))
    nodes = []
    for number in range(int(rng.integers(2, 4))):
        gpus = {GPU: float(rng.integers(2, 6))} if rng.random() < 0.6 else {}
        cpu_hz = rng.uniform(3.0, 6.0) * 1e9
        nodes.append(Supervisor(f"s{number}", f"h{number}", ports, cpu_hz, resources={"memory.mb": 4096.0, **gpus}))
    executors = int(rng.integers(3, 9))
    second = int(rng.integers(2, 4)) if executors > 4 and rng.random() < 0.5 else 0
    placed = []
    for name, size in (("t", executors - second), ("u", second)):
        if size:
            pairs = [(i, j, int(rng.integers(1, 100))) for i in range(size) for j in range(i) if rng.random() < 0.6]
            measured = load(size, pairs, cpu_ghz=rng.uniform(0.2, 1.0, size), memory_mb=100.0)
            placed.append((_limited_topology(name, size, rng), measured))
    return problem(tuple(nodes), *placed)


def _limited_topology(name: str, size: int, rng: np.random.Generator) -> Topology:
    counts = [1 + size % 2, *[2] * (size // 2)] if size % 2 else [2] * (size // 2)
    counts = counts if sum(counts) == size else [*counts[:-1], counts[-1] - 1]
    components = tuple(
        Component(
            "abcdefgh"[n], "spout", count, resources={GPU: float(rng.integers(1, 3))} if rng.random() < 0.3 else {}
        )
        for n, count in enumerate(counts)
    )
    rules: dict[str, dict[str, object]] = {}
    for component in components:
        rule: dict[str, object] = {}
        if rng.random() < 0.35:
            rule["maxNodeCoLocationCnt"] = int(rng.integers(1, 3))
        if rng.random() < 0.35:
            rule["incompatibleComponents"] = [components[int(rng.integers(0, len(components)))].id]
        if rule:
            rules[component.id] = rule
    kind = rng.random()
    conf: dict[str, object] = {"topology.ras.constraints": rules} if rules else {}
    if kind < 0.1:
        conf["topology.ras.one.executor.per.worker" if kind < 0.05 else "topology.ras.one.component.per.worker"] = True
    return Topology(
        name, name, int(rng.integers(1, min(4, size) + 1)), components, default_executor_runs(components), conf=conf
    )


def _every_placement(of: Problem) -> Iterator[list[int]]:
    """All placements with the workers that are wanted; of a node's slots always the first."""
    first = np.searchsorted(of.slot_node, np.arange(len(of.supervisors) + 1)).tolist()
    workers = [min(each.num_workers, each.num_executors) for each in of.topologies]
    cuts = [list(_cuts(each.num_executors, count)) for each, count in zip(of.topologies, workers, strict=True)]
    for nodes in itertools.product(range(len(of.supervisors)), repeat=sum(workers)):
        slots = [first[node] + nodes[:number].count(node) for number, node in enumerate(nodes)]
        if any(slot >= first[node + 1] for slot, node in zip(slots, nodes, strict=True)):
            continue
        for cut in itertools.product(*cuts):
            begins = np.cumsum([0, *workers]).tolist()
            yield [slots[begin + worker] for begin, own in zip(begins, cut, strict=False) for worker in own]


def _cuts(executors: int, workers: int) -> Iterator[Sequence[int]]:
    """Every way to cut executors into that many workers, none of them empty; workers are numbered as they come."""
    for cut in itertools.product(range(workers), repeat=executors):
        if list(dict.fromkeys(cut)) == list(range(workers)):
            yield cut


def _best(of: Problem) -> float | None:
    """The least cost of a valid placement, by trying them all, the cheapest first."""
    every: IndexArray = np.array(list(_every_placement(of)), dtype=np.int64).reshape(-1, of.num_executors)
    node, cost = of.slot_node[every], np.zeros(len(every))
    for (a, b), tps in oracles.traffic(of, [-1] * of.num_executors).items():
        apart: FloatArray = np.where(
            node[:, a] == node[:, b], oracles.CLASS_WEIGHTS["node"], oracles.CLASS_WEIGHTS["rack"]
        )
        cost += tps * np.where(every[:, a] == every[:, b], 0.0, apart)
    cheapest = (every[row].tolist() for row in np.argsort(cost, kind="stable"))
    found = next((slots for slots in cheapest if oracles.is_valid(of, slots)), None)
    return None if found is None else oracles.cost(of, found)


def _part_optimal(seeds: range) -> float:
    reached = []
    for of in map(limited, seeds):
        answer = make_scheduler("optimizer", {"objective": "traffic", "iterations": 20_000}).schedule(of)
        slots, best = answer.slot_of_executor.tolist(), _best(of)
        if -1 not in slots:
            assert oracles.is_valid(of, slots)
        if best is None:
            assert answer.unplaced
        else:
            reached.append(-1 not in slots and oracles.cost(of, slots) <= best * (1 + 1e-9))
    assert len(reached) >= len(seeds) // 4
    return float(np.mean(reached))


def test_the_optimum_of_small_problems_with_such_limits():
    assert _part_optimal(range(16)) == 1.0


@pytest.mark.slow
def test_the_optimum_of_many_small_problems_with_such_limits():
    assert _part_optimal(range(100, 300)) >= 0.98


@pytest.mark.parametrize("settings", [{}, {"move_price": 1e-6}, {"restart_price": 1e-6}], ids=str)
def test_such_limits_hold_in_every_search(settings):
    """With a price random steps are tried, not tabu search; a topology is moved towards what it exchanges with."""
    components = tuple(
        Component(name, "spout", 12, resources={GPU: 1.0} if name == "a" else {}) for name in ("a", "b", "c")
    )
    rules = {"b": {"maxNodeCoLocationCnt": 3}, "c": {"incompatibleComponents": ["b"]}}
    conf = {"topology.ras.constraints": rules}
    of_many = Topology("t", "t", 12, components, default_executor_runs(components), conf=conf)
    rng = np.random.default_rng(1)
    pairs = [(i, j, float(rng.integers(1, 100))) for i in range(36) for j in range(i) if rng.random() < 0.2]
    nodes = tuple(
        Supervisor(f"s{n}", f"h{n}", tuple(range(4)), 9e9, resources={GPU: 4.0 if n % 2 else 2.0}) for n in range(5)
    )
    of = problem(nodes, (of_many, load(36, pairs)))
    begin = make_scheduler("round_robin").schedule(of).slot_of_executor
    assert violations(of, begin) == []
    of = running(of, begin.tolist())
    answer = make_scheduler("optimizer", {"objective": "traffic", "iterations": 50_000, **settings}).schedule(of)
    assert violations(of, answer.slot_of_executor) == []
    assert oracles.cost(of, answer.slot_of_executor.tolist()) < 0.9 * oracles.cost(of, begin.tolist())


def heap_problem(fallback: str, heap_mb: float, cpu: float = 400.0) -> Problem:
    """Two executors that ask for much heap, and four for little; measured to use hardly any CPU."""
    large, small = ({"cpu.pcore.percent": 50.0, "onheap.memory.mb": heap} for heap in (512.0, 128.0))
    components = Component("a", "spout", 2, resources=large), Component("b", "bolt", 4, resources=small)
    conf = {"topology.worker.max.heap.size.mb": heap_mb}
    topology = Topology("t", "t", 2, components, default_executor_runs(components), conf=conf)
    pairs = [(0, 2, 50.0), (0, 3, 50.0), (1, 4, 50.0), (1, 5, 50.0), (0, 1, 90.0)]
    resources = {"cpu.pcore.percent": cpu, "memory.mb": 4096.0}
    nodes = tuple(Supervisor(f"s{n}", f"h{n}", (1, 2), 4e9, resources=resources) for n in range(2))
    cluster = {"storm.scheduler": "stormwright.PlacementScheduler", "stormwright.fallback": fallback}
    return running(problem(nodes, (topology, load(6, pairs, cpu_ghz=0.01)), conf=cluster), [0, 2, 2, 2, 0, 0])


@pytest.mark.parametrize("settings", [{}, {"move_price": 1e-6}], ids=str)
def test_optimizer_respects_heap_limits_under_resource_aware_scheduler(settings):
    """Under EvenScheduler both large ones share a worker; of a heap of 768 MB either takes two small ones along."""
    for fallback, heap_mb, least in (("even", 768.0, 0.0), ("ResourceAwareScheduler", 768.0, 1.0)):
        of = heap_problem(fallback, heap_mb)
        answer = make_scheduler("optimizer", {"objective": "traffic", "iterations": 20_000, **settings}).schedule(of)
        slots = answer.slot_of_executor
        assert violations(of, slots) == []
        assert (slots[0] != slots[1]) == bool(least)
        assert oracles.cost(of, slots.tolist()) < oracles.cost(of, of.current_slot.tolist())


def test_optimizer_respects_requested_cpu_under_resource_aware_scheduler():
    """300 % are requested; measured is next to nothing."""
    settings = {"objective": "traffic", "iterations": 20_000}
    node_of = {}
    for cpu in (300.0, 299.0):
        of = heap_problem("ResourceAwareScheduler", 4096.0, cpu)
        slots = make_scheduler("optimizer", settings).schedule(of).slot_of_executor
        assert violations(of, slots) == []
        node_of[cpu] = set(of.slot_node[slots].tolist())
    assert len(node_of[300.0]) == 1
    assert len(node_of[299.0]) == 2
