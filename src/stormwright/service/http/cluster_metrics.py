"""The cluster as metrics, labelled as Storm names things: topology, component, task, host, port.

By default there are some for each topology and each node, which a cluster has few thousands of. Finer ones are
requested with ``/metrics?detail=``, and left out where there would be more than `MAX_SAMPLES`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

import numpy as np
from prometheus_client.core import Metric

from stormwright.model import UNPLACED, Problem
from stormwright.predict.prediction import TopologyPrediction
from stormwright.service.http.metric_families import gauge

#: How finely the cluster is told: the first is what everybody is told, each other one comes on top of it.
DETAILS = ("topology", "component", "worker", "executor")

#: Things of one detail, each with two figures, at most: an answer stays at a few megabytes.
MAX_SAMPLES = 10_000

#: What tells things of a detail apart.
_LABELS = {
    "component": ("topology", "component"),
    "worker": ("topology", "host", "port"),
    "executor": ("topology", "component", "task", "host", "port"),
}


def of_cluster(
    problem: Problem, predicted: Mapping[str, TopologyPrediction], detail: str = DETAILS[0]
) -> Iterator[Metric]:
    """Yield metrics of topologies and nodes, and of the requested detail; CPU only if it was measured.

    Parameters
    ----------
    problem
        The cluster, under the load that was measured last.
    predicted
        Topology (id) → what is predicted of it.
    detail
        Finest level with metrics, one of `DETAILS`; the coarsest by default.
    """
    yield from _of_topologies(problem, predicted)
    yield from _of_nodes_cluster(problem)
    if detail in _LABELS:
        yield from _in_detail(problem, detail)


def _of_topologies(problem: Problem, predicted: Mapping[str, TopologyPrediction]) -> Iterator[Metric]:
    ids, by = [topology.id for topology in problem.topologies], ("topology",)
    lost = np.bincount(problem.executor_topology[problem.current_slot == UNPLACED], minlength=len(ids))
    workers = Counter(name for slot, name in problem.running.owner.items() if slot in problem.slot_index)
    cores = {
        (name,): float(load.cpu_hz.sum()) / problem.core_hz
        for name, load in zip(ids, problem.demand.measured, strict=True)
        if load is not None
    }
    known = {name: each for name, each in predicted.items() if not each.assumed}
    rates = {(name,): each.measured_tps for name, each in known.items()}
    rooms = {(name,): each.headroom for name, each in known.items()}
    executors = {(topology.id,): topology.num_executors for topology in problem.topologies}
    yield gauge("topology_executors", "Executors of a topology.", by, executors)
    unplaced = {(name,): int(count) for name, count in zip(ids, lost, strict=True)}
    yield gauge("topology_unplaced_executors", "Those that have no slot.", by, unplaced)
    yield gauge("topology_workers", "Slots that a topology has.", by, {(name,): workers[name] for name in ids})
    yield gauge("topology_cpu_cores", "Cores that a topology's executors use.", by, cores)
    yield gauge("topology_trees_per_second", "Tuple trees that a topology was measured to complete.", by, rates)
    yield gauge("topology_headroom_ratio", "The rate that a topology can sustain, by what it does.", by, rooms)


def _of_nodes_cluster(problem: Problem) -> Iterator[Metric]:
    by, nodes = ("supervisor", "host"), problem.supervisors
    held = problem.current_slot[problem.current_slot != UNPLACED]
    slot_node = problem.slot_node
    for name, text, counted in (
        ("slots", "Slots that a node has.", slot_node),
        ("workers", "Slots of a node that hold executors.", slot_node[np.unique(held)]),
        ("executors", "Executors on a node.", slot_node[held]),
    ):
        counts = np.bincount(counted, minlength=len(nodes))
        samples = {(node.id, node.host): int(count) for node, count in zip(nodes, counts, strict=True)}
        yield gauge(f"node_{name}", text, by, samples)


def _in_detail(problem: Problem, detail: str) -> Iterator[Metric]:
    many = _number(problem, detail)
    left_out = many if many > MAX_SAMPLES else 0
    yield gauge("detail_left_out", "Series omitted over the limit.", ("detail",), {(detail,): left_out})
    if left_out:
        return
    executors: Counter[tuple[str, ...]] = Counter()
    cores: dict[tuple[str, ...], float] = {}
    for labels, used in _executors(problem, detail):
        executors[labels] += 1
        if used is not None:
            cores[labels] = cores.get(labels, 0.0) + used
    yield gauge(f"{detail}_executors", f"Executors, by {detail}.", _LABELS[detail], executors)
    yield gauge(f"{detail}_cpu_cores", f"Cores that are used, by {detail}.", _LABELS[detail], cores)


def _number(problem: Problem, detail: str) -> int:
    """Return the number of items of a detail."""
    if detail == "executor":
        return problem.num_executors
    if detail == "component":
        return sum(len(topology.components) for topology in problem.topologies)
    return len(np.unique(problem.current_slot[problem.current_slot != UNPLACED]))


def _executors(problem: Problem, detail: str) -> Iterator[tuple[tuple[str, ...], float | None]]:
    """Yield the labels of each executor and its cores; a worker's only if it has a slot."""
    hosts = [node.host for node in problem.supervisors]
    slots = [(hosts[node], str(slot.port)) for slot, node in zip(problem.slots, problem.slot_node, strict=True)]
    for index, (topology, load) in enumerate(zip(problem.topologies, problem.demand.measured, strict=True)):
        placed = problem.current_slot[problem.executors_of(index)].tolist()
        used = [None] * len(placed) if load is None else (load.cpu_hz / problem.core_hz).tolist()
        tasks, components = topology.executor_start_task.tolist(), topology.executor_component.tolist()
        for slot, cores, task, component in zip(placed, used, tasks, components, strict=True):
            name = topology.components[component].id
            where = ("", "") if slot == UNPLACED else slots[slot]
            if detail == "component":
                yield (topology.id, name), cores
            elif detail == "executor":
                yield (topology.id, name, str(task), *where), cores
            elif slot != UNPLACED:
                yield (topology.id, *where), cores
