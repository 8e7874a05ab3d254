"""Clusters on which something runs, of any size, with loads that count as measured."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from stormwright.model import (
    Component,
    Grouping,
    LoadProfile,
    Problem,
    Supervisor,
    Topology,
    TopologyAssignment,
    WorkerSlot,
    default_executor_runs,
)
from stormwright.model.load import assumed_load

GHZ = 1e9

#: What components are called, as in shops and their events; each takes from the one before, some from two.
_NAMES = ("orders", "parse", "enrich", "split", "count", "join", "store", "notify")


def flow(name: str, sizes: tuple[int, ...], workers: int = 2) -> Topology:
    """A spout and bolts after each other; the third takes from the first, too."""
    components = [Component(_NAMES[0], "spout", sizes[0], resources={"cpu.pcore.percent": 25.0})]
    for number, size in enumerate(sizes[1:], start=1):
        inputs = [Grouping(_NAMES[number - 1], kind="fields" if number == 3 else "shuffle", fields=("key",))]
        if number == 2:
            inputs.append(Grouping(_NAMES[0], stream="late", kind="fields", fields=("key",)))
        components.append(Component(_NAMES[number], "bolt", size, tuple(inputs), {"cpu.pcore.percent": 15.0}))
    return Topology(f"{name}-1-1795219140", name, workers, tuple(components), default_executor_runs(components))


def living(
    topologies: int, nodes: int, *, racks: int = 2, sizes: tuple[int, ...] = (2, 4, 4, 6, 4), seed: int = 7, **more: Any
) -> Problem:
    """Every topology in two workers on neighbouring nodes; some nodes are fuller than others."""
    rng = np.random.default_rng(seed)
    slots_each = -(-2 * topologies // nodes) + 2
    supervisors = tuple(
        Supervisor(
            f"sup-{number:04d}",
            f"node-{number:04d}.example",
            tuple(range(6700, 6700 + slots_each)),
            cpu_hz=16 * GHZ,
            rack=f"rack-{number * racks // nodes + 1:02d}",
            resources={"cpu.pcore.percent": 800.0, "memory.mb": 32_768.0},
            link_bps=1e9,
        )
        for number in range(nodes)
    )
    kinds = [flow(f"{('shop', 'clicks', 'fraud', 'search')[n % 4]}-{n + 1}", sizes) for n in range(topologies)]
    used = [0] * nodes
    current, loads = {}, {}
    for number, topology in enumerate(kinds):
        first = int((number * 2) % nodes)
        chosen = []
        for node in (first, (first + 1) % nodes):
            chosen.append(WorkerSlot(supervisors[node].id, 6700 + used[node]))
            used[node] += 1
        count = topology.num_executors
        current[topology.id] = TopologyAssignment(tuple(chosen), tuple(executor % 2 for executor in range(count)))
        assumed = assumed_load(topology, 2 * GHZ)
        rate = float(rng.uniform(40, 900))
        loads[topology.id] = replace(
            assumed,
            cpu_hz=rng.gamma(2.0, 0.12 * GHZ, count) * (3 if number % 5 == 0 else 1),
            pair_tps=assumed.pair_tps * rate,
            flow_tps=assumed.flow_tps * rate,
            bytes_per_tuple=180.0,
        )
    load = LoadProfile(loads, start_ms=1_795_219_140_000, end_ms=1_795_219_155_000)
    given: dict[str, Any] = {"name": "shops", "current": current, "load": load, "core_hz": 2 * GHZ}
    return Problem(supervisors, tuple(kinds), **(given | more))
