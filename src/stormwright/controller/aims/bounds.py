"""Where topologies may not go though a scheduler wants it: without their tags, or beyond what the cluster's own
scheduler allows.

Nimbus's side refuses such placements as well, but then the topology has been paused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from stormwright.model import UNPLACED, Problem
from stormwright.model.arrays import BoolArray, FloatArray, IntArray
from stormwright.model.conf.fallback import DEFAULT, ISOLATING, RESOURCE_AWARE, fallback_class
from stormwright.model.conf.requests import CPU, MEMORY, OFF_HEAP, ON_HEAP
from stormwright.model.limits.extra import tags_of, tags_of_node
from stormwright.model.limits.isolation import isolated
from stormwright.model.limits.limit import RELATIVE_TOLERANCE
from stormwright.model.limits.workers import MAX_EXECUTORS_PER_WORKER
from stormwright.model.texts import amount_of

#: Storm's ResourceAwareScheduler makes no worker with more memory on its heap than this says, in MB.
MAX_HEAP = "topology.worker.max.heap.size.mb"
_DEFAULT_MAX_HEAP_MB = 768.0


def within_heaps(problem: Problem) -> Problem:
    """The problem with workers of no more executors than their heap holds, for schedulers to keep to.

    Only under Storm's ResourceAwareScheduler; by the executor that asks for most.
    """
    if fallback_class(problem.conf) != RESOURCE_AWARE:
        return problem
    topologies = []
    for topology, asked in zip(problem.topologies, problem.workload.requested, strict=True):
        largest = max((component.get(ON_HEAP, 0.0) for component in asked), default=0.0)
        held = int(_max_heap_mb(topology.conf) / largest) if largest else topology.num_executors
        most = min(max(held, 1), topology.conf.get(MAX_EXECUTORS_PER_WORKER) or topology.num_executors)
        topologies.append(replace(topology, conf={**topology.conf, MAX_EXECUTORS_PER_WORKER: most}))
    return replace(problem, topologies=tuple(topologies))


def out_of_bounds(problem: Problem, wanted: IntArray) -> dict[str, str]:
    """Topology id → why it does not go where it is wanted.

    1. A component goes only to nodes that have all its tags.
    2. Under Storm's ResourceAwareScheduler nodes and heaps hold what executors ask for, whatever they were measured to
       use; under its IsolationScheduler isolated topologies stay, as it deals out their executors itself; under
       DefaultScheduler there is no more. Of any other class no more is known than that it chose the nodes of each
       topology: it stays on these.

    Parameters
    ----------
    problem
        What runs now; its configuration names the cluster's own scheduler.
    wanted
        Slot of every executor, -1 for none, shape (E,).
    """
    arrives = (wanted != problem.current_slot) & (wanted != UNPLACED) & (problem.current_slot != UNPLACED)
    found = dict(_without_tags(problem, wanted, arrives))
    name = fallback_class(problem.conf)
    if name == RESOURCE_AWARE:
        found |= {**dict(_beyond_nodes(problem, wanted, arrives)), **dict(_beyond_heaps(problem, wanted, arrives))}
    elif name == ISOLATING:
        found |= {
            problem.topologies[index].id: f"isolated: {name} deals out its executors" for index in isolated(problem)
        }
    elif name not in ("", DEFAULT):
        found |= dict(_on_other_nodes(problem, wanted, arrives, name))
    return found


def _moved(problem: Problem, arrives: BoolArray) -> list[int]:
    indices: list[int] = np.unique(problem.executor_topology[arrives]).tolist()
    return indices


def _max_heap_mb(conf: Mapping[str, Any]) -> float:
    value = conf.get(MAX_HEAP)
    return float(value) if isinstance(value, int | float) and value > 0 else _DEFAULT_MAX_HEAP_MB


def _without_tags(problem: Problem, wanted: IntArray, arrives: BoolArray) -> Iterator[tuple[str, str]]:
    of_node = [tags_of_node(node) for node in problem.supervisors]
    for index in _moved(problem, arrives):
        topology, own = problem.topologies[index], problem.executors_of(index)
        for number, component in enumerate(topology.components):
            if not (tags := tags_of(component.tags)):
                continue
            there = wanted[own][(topology.executor_component == number) & arrives[own]]
            for node in np.unique(problem.slot_node[there]).tolist():
                if missing := tags - of_node[node]:
                    node_id = problem.supervisors[node].id
                    yield topology.id, f"{node_id} lacks tag {', '.join(sorted(missing))} of {component.id}"


def _asked(problem: Problem, *resources: str) -> FloatArray:
    """What every executor asks for of resources together, shape (E,)."""
    of_topology = (
        np.array([sum(component.get(name, 0.0) for name in resources) for component in asked])[
            topology.executor_component
        ]
        for topology, asked in zip(problem.topologies, problem.workload.requested, strict=True)
    )
    return np.concatenate([np.empty(0), *of_topology])


def _beyond_nodes(problem: Problem, wanted: IntArray, arrives: BoolArray) -> Iterator[tuple[str, str]]:
    placed = wanted != UNPLACED
    node = problem.slot_node[wanted[placed]]
    for resource, unit, names in ((CPU, "%", (CPU,)), (MEMORY, "MB", (ON_HEAP, OFF_HEAP))):
        sums = np.bincount(node, weights=_asked(problem, *names)[placed], minlength=len(problem.supervisors))
        has = np.array([supervisor.resources.get(resource, np.inf) for supervisor in problem.supervisors])
        for full in np.flatnonzero(sums > has * (1 + RELATIVE_TOLERANCE)).tolist():
            arriving = arrives & placed
            arriving[placed] &= node == full
            told = amount_of(float(sums[full]), float(has[full]), unit)
            for index in _moved(problem, arriving):
                yield problem.topologies[index].id, f"{problem.supervisors[full].id}: {resource} asked for {told}"


def _beyond_heaps(problem: Problem, wanted: IntArray, arrives: BoolArray) -> Iterator[tuple[str, str]]:
    heap = _asked(problem, ON_HEAP)
    for index in _moved(problem, arrives):
        topology, own = problem.topologies[index], problem.executors_of(index)
        there = wanted[own] != UNPLACED
        most = _max_heap_mb(topology.conf)
        slots, worker = np.unique(wanted[own][there], return_inverse=True)
        sums = np.bincount(worker, weights=heap[own][there])
        for full in np.flatnonzero(sums > most * (1 + RELATIVE_TOLERANCE)).tolist():
            slot = problem.slots[slots[full]]
            yield topology.id, f"heap of {slot} asked for {amount_of(float(sums[full]), most, 'MB')}"


def _on_other_nodes(problem: Problem, wanted: IntArray, arrives: BoolArray, name: str) -> Iterator[tuple[str, str]]:
    for index in _moved(problem, arrives):
        own = problem.executors_of(index)
        now, then = (problem.slot_node[slots[own][slots[own] != UNPLACED]] for slots in (problem.current_slot, wanted))
        other = sorted({problem.supervisors[node].id for node in set(then.tolist()) - set(now.tolist())})
        if other:
            yield problem.topologies[index].id, f"{name} did not choose {', '.join(other)} for it"
