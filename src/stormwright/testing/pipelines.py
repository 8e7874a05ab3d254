"""Clusters of pipelines with shuffling stages, whose traffic between nodes depends on the placement."""

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
from stormwright.model.cluster import DEFAULT_CORE_HZ

_CORES, _PORTS, _NODES_IN_RACK = 4, 4, 16

#: Fraction of the cluster's CPU used by all topologies.
_FILLED = 0.6


def shuffled_pipelines(topologies: int, seed: int = 0) -> Problem:
    """Return topologies of three to five shuffling stages, the last one by fields to a sink, on a cluster.

    Each takes the CPU of one to three nodes of four cores. A stage's tuples take equally long, and an executor of it
    can handle the rate that saturates its thread (`TopologyLoad.flow_limit_tps`).
    """
    random = np.random.default_rng(seed)
    made = [_pipeline(number, random) for number in range(topologies)]
    used_hz = sum(float(load.cpu_hz.sum()) for _, load in made)
    nodes = max(int(np.ceil(used_hz / _FILLED / (_CORES * DEFAULT_CORE_HZ))), 3)
    supervisors = tuple(
        Supervisor(
            id=f"s{number}",
            host=f"h{number}",
            ports=tuple(range(6700, 6700 + _PORTS)),
            cpu_hz=_CORES * DEFAULT_CORE_HZ,
            rack=f"r{number // _NODES_IN_RACK}",
            resources={"memory.mb": 65536.0},
        )
        for number in range(nodes)
    )
    load = LoadProfile({topology.id: each for topology, each in made})
    return Problem(supervisors, tuple(topology for topology, _ in made), name=f"{topologies} pipelines", load=load)


def _pipeline(number: int, random: np.random.Generator) -> tuple[Topology, TopologyLoad]:
    stages = int(random.integers(3, 6))
    parallelism = [int(n) for n in random.integers(4, 13, stages)]
    components = [Component("stage-0", "spout", parallelism[0])]
    for stage in range(1, stages):
        grouping = Grouping(f"stage-{stage - 1}", "default", "shuffle")
        components.append(Component(f"stage-{stage}", "bolt", parallelism[stage], (grouping,)))
    last = Grouping(f"stage-{stages - 1}", "default", "fields", ("key",))
    components.append(Component("total", "bolt", 2, (last,)))
    runs = default_executor_runs(components)
    nodes = float(random.uniform(1.0, 3.0))
    workers = int(np.ceil(nodes)) + int(random.integers(0, 3))
    topology = Topology(f"pipe-{number}", f"pipe-{number}", workers, tuple(components), runs)
    return topology, _load(topology, nodes * _CORES * DEFAULT_CORE_HZ, random)


def _load(topology: Topology, cpu_hz: float, random: np.random.Generator) -> TopologyLoad:
    component = topology.executor_component
    count = len(topology.components)
    sizes = np.bincount(component, minlength=count)
    tps = float(random.uniform(2_000, 20_000)) * np.cumprod([1.0, *random.uniform(0.5, 1.5, count - 2), 0.05])
    share = np.minimum(
        random.dirichlet(np.full(count, 3.0)) * cpu_hz / DEFAULT_CORE_HZ, 0.8 * sizes
    )  # no stage is saturated
    flow_source, flow_component, flow_tps = [], [], []
    for stage in range(count - 2):
        executors = np.flatnonzero(component == stage)
        flow_source.append(executors)
        flow_component.append(np.full(len(executors), stage + 1))
        flow_tps.append(np.full(len(executors), tps[stage] / len(executors)))
    senders, receivers = np.flatnonzero(component == count - 2), np.flatnonzero(component == count - 1)
    flows = np.concatenate(flow_tps)
    return TopologyLoad(
        cpu_hz=(share * DEFAULT_CORE_HZ / sizes)[component],
        memory_mb=np.full(len(component), 128.0),
        pair_source=np.repeat(senders, len(receivers)).astype(np.int32),
        pair_target=np.tile(receivers, len(senders)).astype(np.int32),
        pair_tps=np.full(len(senders) * len(receivers), tps[-1] / len(senders) / len(receivers)),
        flow_source=np.concatenate(flow_source).astype(np.int32),
        flow_component=np.concatenate(flow_component).astype(np.int32),
        flow_tps=flows,
        flow_grouping=("shuffle",) * len(flows),
        flow_limit_tps=np.append(np.inf, np.append(tps[:-2], tps[-1]) / share[1:]),
    )
