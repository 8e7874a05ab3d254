"""Problems drawn by chance, each with a load as if it had been measured under Storm's own placement."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from stormwright.defaults import STORMS_OWN
from stormwright.formats.sketch import sketch
from stormwright.model import LoadProfile, Problem, Supervisor, Topology, TopologyLoad
from stormwright.model.arrays import FloatArray
from stormwright.model.cluster import DEFAULT_CORE_HZ
from stormwright.schedulers import make_scheduler

#: How long each load says to have been measured: only that it was counts.
_MEASURED_MS: Final = 60_000

_GROUPINGS: Final = ("shuffle", "shuffle", "fields", "fields", "local_or_shuffle", "global")

#: Of all CPU, the part that a load takes without its messages: what is measured fits under most placements.
_LEAST_USED, _MOST_USED = 0.15, 0.6

_CORES: Final = (0.25, 0.5, 1.0, 2.0, 4.0)

_GBIT: Final = 1e9


def drawn_problem(rng: np.random.Generator, name: str) -> Problem:
    """One to four topologies of any shape on three to twelve nodes, alike or not, with links that are fast or slow.

    Parameters
    ----------
    rng
        What draws it.
    name
        Of the problem.
    """
    chains = {f"t{number}": _chains(rng) for number in range(int(rng.choice([1, 1, 1, 2, 3, 4])))}
    of = sketch(chains, nodes=_nodes(rng), rate_tps=float(rng.uniform(100, 2_000)))
    return replace(measured(of, rng), name=name)


def measured(problem: Problem, rng: np.random.Generator) -> Problem:
    """The same with work and sizes of tuples drawn for every component, measured where Storm's own would have it.

    Parameters
    ----------
    problem
        As `stormwright.sketch` makes it: with rates, and nothing that runs.
    rng
        What draws the rest.
    """
    worked = [_worked(topology, load, rng) for topology, load in zip(problem.topologies, problem.loads, strict=True)]
    there = float(problem.node_cpu_hz.sum())
    asked = sum(float(load.cpu_hz.sum()) for load in worked)
    factor = there * rng.uniform(_LEAST_USED, _MOST_USED) / asked
    most = max(float(load.cpu_hz.max()) for load in worked)
    factor = min(factor, 0.9 * problem.core_hz / most)  # a thread has no more than its core
    loads = {of.id: _times(load, factor) for of, load in zip(problem.topologies, worked, strict=True)}
    loaded = problem.with_load(LoadProfile(loads, end_ms=_MEASURED_MS))
    return loaded.with_current(make_scheduler(STORMS_OWN).schedule(loaded).by_topology(loaded))


def _chains(rng: np.random.Generator) -> list[str]:
    """A chain, and maybe a branch that leaves it and comes back."""
    length = int(rng.integers(2, 7))
    steps = [f"c{n} {int(rng.integers(1, 9))}" for n in range(length)]
    kinds = rng.choice(_GROUPINGS, length)
    chain = [steps[0], *(f"{step} {kind}" for step, kind in zip(steps[1:], kinds[1:], strict=True))]
    found = [" -> ".join(chain)]
    if length >= 3 and rng.random() < 0.5:
        begin = int(rng.integers(0, length - 2))
        end = int(rng.integers(begin + 2, length))
        found.append(f"c{begin} -> side {int(rng.integers(1, 9))} {rng.choice(_GROUPINGS)} -> c{end}")
    return found


def _nodes(rng: np.random.Generator) -> tuple[Supervisor, ...]:
    count, racks = int(rng.integers(3, 13)), int(rng.choice([1, 1, 1, 2, 3]))
    cores = rng.choice(_CORES, count) if rng.random() < 0.4 else np.full(count, rng.choice(_CORES))
    link = float(rng.choice([0.025, 0.1, 1, 10])) * _GBIT if rng.random() < 0.8 else None
    ports = tuple(range(6700, 6700 + int(rng.integers(4, 9))))
    return tuple(
        Supervisor(
            f"node-{n}",
            f"node-{n}",
            ports,
            float(cores[n]) * DEFAULT_CORE_HZ,
            rack=f"rack-{n % racks}",
            resources={"cpu.pcore.percent": 100 * float(cores[n]), "memory.mb": 262_144.0},
            link_bps=link,
        )
        for n in range(count)
    )


def _worked(topology: Topology, load: TopologyLoad, rng: np.random.Generator) -> TopologyLoad:
    """A load with CPU by the tuples that executors handle, and bytes by the components that send them."""
    component, count = topology.executor_component, len(topology.components)
    received: FloatArray = np.bincount(load.pair_target, load.pair_tps, len(component)).astype(np.float64)
    size = np.bincount(component, minlength=count)
    of_flows = np.bincount(load.flow_component, load.flow_tps, count) / np.maximum(size, 1)
    received = received + of_flows[component]
    sent = np.bincount(load.pair_source, load.pair_tps, len(component))
    sent = sent + np.bincount(load.flow_source, load.flow_tps, len(component))
    handled = np.where(received > 0, received, np.maximum(sent, 1.0))
    work_us = rng.lognormal(np.log(20), 1.0, count)
    bytes_each = np.exp(rng.uniform(np.log(30), np.log(3_000), count))
    return replace(
        load,
        cpu_hz=handled * work_us[component] * 1e-6 * DEFAULT_CORE_HZ,
        pair_bytes_per_s=load.pair_tps * bytes_each[component[load.pair_source]],
        flow_bytes_per_s=load.flow_tps * bytes_each[component[load.flow_source]],
    )


def _times(load: TopologyLoad, factor: float) -> TopologyLoad:
    """The same load at another rate."""
    amounts = ("cpu_hz", "pair_tps", "flow_tps", "pair_bytes_per_s", "flow_bytes_per_s")
    return replace(load, **{name: getattr(load, name) * factor for name in amounts})
