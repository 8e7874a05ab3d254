"""One topology of thousands of executors, in which groups of executors exchange most with each other."""

from __future__ import annotations

import numpy as np

from stormwright.model import (
    Component,
    Grouping,
    LoadProfile,
    Problem,
    Supervisor,
    Topology,
    TopologyLoad,
    default_executor_runs,
)
from stormwright.model.topology_config import MAX_EXECUTORS_PER_WORKER

#: Executors of a node, a worker and a hidden group, on average; nodes of a rack.
ON_NODE, IN_WORKER, IN_GROUP, NODES_A_RACK = 20, 9, 60, 25

#: Components of the pipeline, targets that an executor sends to, and the part of the CPU that is used.
COMPONENTS, TARGETS, LOAD = 5, 15, 0.8


def make_single_topology(executors: int, within: float, seed: int) -> Problem:
    """A pipeline with keyed streams; of what an executor sends, the part `within` goes to executors of its group."""
    rng = np.random.default_rng(seed)
    sizes = [len(part) for part in np.array_split(np.arange(executors), COMPONENTS)]
    components = tuple(
        Component(f"c{i}", "bolt" if i else "spout", size, (Grouping(f"c{i - 1}", kind="fields"),) if i else ())
        for i, size in enumerate(sizes)
    )
    workers = executors // IN_WORKER
    topology = Topology(
        "single-1-1600000000",
        "single",
        workers,
        components,
        default_executor_runs(components),
        conf={MAX_EXECUTORS_PER_WORKER: round(1.3 * IN_WORKER)},
    )
    component, group = topology.executor_component, rng.integers(executors // IN_GROUP, size=executors)
    sources, targets = [], []
    for source in np.flatnonzero(component < COMPONENTS - 1):
        following = np.flatnonzero(component == component[source] + 1)
        own = following[group[following] == group[source]]
        count = rng.binomial(TARGETS, within) if len(own) else 0
        chosen = np.unique(np.concatenate([rng.choice(own, count), rng.choice(following, TARGETS - count)]))
        sources.append(np.full(len(chosen), source))
        targets.append(chosen)
    pairs = sum(map(len, targets))
    cpu_hz = rng.uniform(0.2e9, 1.8e9, executors)
    nodes = executors // ON_NODE
    cores = rng.choice((4, 8, 12, 16), nodes)
    node_hz = cores * (cpu_hz.sum() / LOAD / cores.sum())
    load = TopologyLoad(
        cpu_hz=cpu_hz,
        memory_mb=np.full(executors, 128.0),
        pair_source=np.concatenate(sources).astype(np.int32),
        pair_target=np.concatenate(targets).astype(np.int32),
        pair_tps=rng.lognormal(3.0, 1.0, pairs),
        flow_source=np.empty(0, np.int32),
        flow_component=np.empty(0, np.int32),
        flow_grouping=(),
        flow_tps=np.empty(0),
    )
    supervisors = tuple(
        Supervisor(
            id=f"node-{k}",
            host=f"host-{k}",
            ports=tuple(range(6700, 6700 + int(cores[k]))),
            cpu_hz=float(node_hz[k]),
            rack=f"rack-{k // NODES_A_RACK}",
            resources={"cpu.pcore.percent": 100.0 * float(cores[k]), "memory.mb": 32768.0},
        )
        for k in range(nodes)
    )
    name = f"single-{executors}-{within:g}"
    return Problem(supervisors, (topology,), name=name, load=LoadProfile({topology.id: load}))
