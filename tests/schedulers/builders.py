"""Small problems by hand."""

from __future__ import annotations

from typing import Any

import numpy as np

from stormwright.model import (
    UNPLACED,
    Component,
    LoadProfile,
    Problem,
    Supervisor,
    Topology,
    TopologyAssignment,
    TopologyLoad,
    default_executor_runs,
)

GHZ = 1e9


def nodes(*cpu_ghz: float, ports: int = 4, memory_mb: float = 8192.0) -> tuple[Supervisor, ...]:
    """Supervisors ``s0``, ``s1``, … on hosts ``h0``, …, with ports from 6700."""
    return tuple(
        Supervisor(f"s{n}", f"h{n}", tuple(range(6700, 6700 + ports)), ghz * GHZ, resources={"memory.mb": memory_mb})
        for n, ghz in enumerate(cpu_ghz)
    )


def topology(name: str, executors: int, workers: int, **conf: int) -> Topology:
    """A topology of one component."""
    components = (Component("c", "spout", executors),)
    return Topology(name, name, workers, components, default_executor_runs(components), conf=conf)


def load(executors: int, pairs=(), cpu_ghz=0.1, memory_mb=100.0) -> TopologyLoad:
    """A load with ``(source, target, tuples/s)`` pairs; CPU and memory for all executors or for each."""
    table = np.array(pairs, dtype=float).reshape(-1, 3)
    return TopologyLoad(
        cpu_hz=np.broadcast_to(np.array(cpu_ghz) * GHZ, executors).astype(float),
        memory_mb=np.broadcast_to(np.array(memory_mb), executors).astype(float),
        pair_source=table[:, 0].astype(np.int32),
        pair_target=table[:, 1].astype(np.int32),
        pair_tps=table[:, 2],
        flow_source=np.empty(0, np.int32),
        flow_component=np.empty(0, np.int32),
        flow_tps=np.empty(0),
        flow_grouping=(),
    )


def problem(supervisors: tuple[Supervisor, ...], *placed: tuple[Topology, TopologyLoad], **more: Any) -> Problem:
    """Topologies with their loads on `supervisors`."""
    loads = LoadProfile({t.id: measured for t, measured in placed})
    return Problem(supervisors, tuple(t for t, _ in placed), load=loads, **more)


def running(of: Problem, slots: list[int]) -> Problem:
    """`of` with its executors running in `slots`."""
    now = np.array(slots, np.int32)
    current = {}
    for index, t in enumerate(of.topologies):
        own = now[of.executors_of(index)].tolist()
        used = sorted(set(own) - {UNPLACED})
        positions = tuple(used.index(s) if s != UNPLACED else UNPLACED for s in own)
        current[t.id] = TopologyAssignment(tuple(of.slots[s] for s in used), positions)
    return of.with_current(current)
