"""Bounds of placements: tags, measured heaps and serialization, and limits of the cluster's own scheduler.

The bridge to Nimbus refuses such placements as well, but for heaps, and only after the topology was paused.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from stormwright.controller.planning.order import Forbidden
from stormwright.controller.serialization import split_workers
from stormwright.model import UNPLACED, Problem
from stormwright.model.arrays import BoolArray, IntArray
from stormwright.model.constraints.constraint import PlacedExecutors
from stormwright.model.constraints.heaps import executors_per_heap, new_overuse
from stormwright.model.constraints.isolation import isolated
from stormwright.model.constraints.optional import tags_of, tags_of_node
from stormwright.model.constraints.requests import Requests, max_heap_mb
from stormwright.model.fallback import DEFAULT, ISOLATING, fallback_class, is_resource_aware
from stormwright.model.requests import ON_HEAP
from stormwright.model.topology_config import MAX_EXECUTORS_PER_WORKER


def within_heaps(problem: Problem) -> Problem:
    """Return the problem with executors per worker limited by heap, for schedulers that ignore heaps.

    Only under Storm's ResourceAwareScheduler; the largest request of an executor counts.
    """
    if not is_resource_aware(problem.conf):
        return problem
    topologies = []
    for topology, requested in zip(problem.topologies, problem.workload.requested, strict=True):
        largest = max((component.get(ON_HEAP, 0.0) for component in requested), default=0.0)
        held = int(max_heap_mb(topology.conf) / largest) if largest else topology.num_executors
        most = min(max(held, 1), topology.conf.get(MAX_EXECUTORS_PER_WORKER) or topology.num_executors)
        topologies.append(replace(topology, conf={**topology.conf, MAX_EXECUTORS_PER_WORKER: most}))
    return replace(problem, topologies=tuple(topologies))


def within_live_heaps(problem: Problem) -> Problem:
    """Return the problem with executors per worker limited by the measured use of heaps of a fixed size.

    A topology keeps as many as a worker has now, and as many as an even spread over its workers needs. The same problem
    is returned if all heaps are large enough for any of its placements, follow requests, or were not measured.
    """
    limited: dict[int, int] = {}
    for index, topology in enumerate(problem.topologies):
        held = executors_per_heap(problem, index)
        if held is not None:
            slots = problem.current_slot[problem.executors_of(index)]
            now = np.unique(slots[slots != UNPLACED], return_counts=True)[1].max(initial=0)
            most = max(held, int(now), -(-topology.num_executors // topology.num_workers))
            limited[index] = min(most, topology.conf.get(MAX_EXECUTORS_PER_WORKER) or most)
    if not limited:
        return problem
    topologies = (
        replace(each, conf={**each.conf, MAX_EXECUTORS_PER_WORKER: limited[index]}) if index in limited else each
        for index, each in enumerate(problem.topologies)
    )
    return replace(problem, topologies=tuple(topologies))


def beyond_measured(problem: Problem, wanted: IntArray) -> dict[str, Forbidden]:
    """Return why topologies (ids) may not move to their wanted slots, as measured.

    Heaps are too small for their use (`new_overuse`), or tuples cannot leave their worker (`split_workers`).
    """
    found = {topology: Forbidden(str(broken)) for topology, broken in new_overuse(problem, wanted).items()}
    return found | {topology: Forbidden(why) for topology, why in split_workers(problem, wanted).items()}


def out_of_bounds(problem: Problem, wanted: IntArray) -> dict[str, str | Forbidden]:
    """Return the reason per topology id why it may not move to its wanted slots.

    1. A component goes only to nodes that have all its tags.
    2. Under Storm's ResourceAwareScheduler nodes and heaps hold what executors ask for, whatever they were measured to
       use; under its IsolationScheduler isolated topologies stay, as it deals out their executors itself; under
       DefaultScheduler there is no more. Of any other class no more is known than that it chose the nodes of each
       topology: it stays on these.
    3. Heaps are large enough for their use as measured, and no tuple leaves its worker that cannot (`beyond_measured`).

    Parameters
    ----------
    problem
        Problem with its current placement; its configuration names the cluster's own scheduler.
    wanted
        Slot of every executor, -1 for none, shape (E,).
    """
    arrives = (wanted != problem.current_slot) & (wanted != UNPLACED) & (problem.current_slot != UNPLACED)
    found: dict[str, str | Forbidden] = {**beyond_measured(problem, wanted)}
    found |= dict(_without_tags(problem, wanted, arrives))
    name = fallback_class(problem.conf)
    if is_resource_aware(problem.conf):
        found |= dict(_beyond_requests(problem, wanted, arrives))
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
                    name = problem.cluster.node_names[node]
                    yield topology.id, f"{name} lacks tag {', '.join(sorted(missing))} of {component.id}"


def _beyond_requests(problem: Problem, wanted: IntArray, arrives: BoolArray) -> Iterator[tuple[str, str]]:
    """Yield topologies that enter a node, or change, where requests exceed the node or the heaps."""
    for broken in Requests().violations(PlacedExecutors(problem, wanted)):
        if broken.topology is None:
            there = arrives & (problem.slot_node[wanted] == problem.node_index[broken.supervisor or ""])
            for index in _moved(problem, there):
                yield problem.topologies[index].id, str(broken)
        elif problem.topology_index[broken.topology] in _moved(problem, arrives):
            yield broken.topology, str(broken)


def _on_other_nodes(problem: Problem, wanted: IntArray, arrives: BoolArray, name: str) -> Iterator[tuple[str, str]]:
    for index in _moved(problem, arrives):
        own = problem.executors_of(index)
        now, then = (problem.slot_node[slots[own][slots[own] != UNPLACED]] for slots in (problem.current_slot, wanted))
        other = sorted({problem.cluster.node_names[node] for node in set(then.tolist()) - set(now.tolist())})
        if other:
            yield problem.topologies[index].id, f"{name} did not choose {', '.join(other)} for it"
