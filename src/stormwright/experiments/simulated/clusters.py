"""Ready problems of clusters in operation, as large as one likes: to look at what a cluster of that size is like."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from stormwright.defaults import STORMS_OWN
from stormwright.experiments.demo.topologies import TOPOLOGIES, Submission
from stormwright.experiments.simulated.topologies import RATE_TPS, SimulatedTopology, simulated
from stormwright.model import LoadProfile, Problem, Supervisor, TopologyAssignment, TopologyLoad
from stormwright.model.cluster import DEFAULT_CORE_HZ
from stormwright.schedulers import make_scheduler

#: Executors on a node on average, nodes in a rack, and worker slots, cores and link of a node.
EXECUTORS_A_NODE, NODES_A_RACK, SLOTS, CORES, LINK_BPS, MEMORY_MB = 20, 40, 8, 4, 1e9, 65_536.0

#: Of a topology's rate: its median in trees/s, and σ of its log-normal distribution.
_MEDIAN_TPS, _SPREAD = 12_000.0, 0.7

#: What topologies are for, with their kinds; sizes are drawn.
_NAMES = {"clicks": "word-count", "search": "word-count", "fraud": "exclamation", "orders": "word-count"}


def cluster_in_operation(nodes: int, seed: int = 1) -> Problem:
    """A cluster on which topologies of several sizes and rates run where Storm's own scheduler has put them.

    They are the word counts and exclamations of the demonstration; there are 20 executors a node.

    Parameters
    ----------
    nodes
        How many there are.
    seed
        Of sizes and rates.
    """
    rng, made = np.random.default_rng(seed), list[SimulatedTopology]()
    executors = 0
    while executors < EXECUTORS_A_NODE * nodes:
        (one,) = simulated([_submission(len(made), rng)])
        made.append(one)
        executors += one.topology.num_executors
    loads = {one.topology.id: _at_rate(one.load, one.offered_tps / RATE_TPS) for one in made}
    topologies = tuple(one.topology for one in made)
    supervisors = tuple(_supervisor(number) for number in range(nodes))
    problem = Problem(supervisors, topologies, name=f"cluster-{nodes}", load=LoadProfile(loads))
    # A load of what is in one worker has no messages in it.
    alone = {of.id: TopologyAssignment(problem.slots[:1], (0,) * of.num_executors) for of in topologies}
    placed = make_scheduler(STORMS_OWN).schedule(problem).by_topology(problem)
    return replace(problem, current=placed, measured=alone)


def _submission(number: int, rng: np.random.Generator) -> Submission:
    name, kind = list(_NAMES.items())[int(rng.integers(len(_NAMES)))]
    size, rate = int(rng.integers(1, 5)), round(_MEDIAN_TPS * float(np.exp(_SPREAD * rng.standard_normal())))
    sizes = {"spouts": 2 * size, "split": 4 * size, "count": 5 * size}
    if kind == "exclamation":
        sizes = {"spouts": 3 * size, "exclaim1": 4 * size, "exclaim2": 3 * size}
    told = {**sizes, "workers": 1 + 2 * size, "ackers": 1 + size, "rate": rate, "pending": 500 * size}
    return Submission(f"{name}-{number + 1}", TOPOLOGIES[kind], {key: str(value) for key, value in told.items()})


def _at_rate(load: TopologyLoad, times: float) -> TopologyLoad:
    return replace(load, cpu_hz=load.cpu_hz * times, pair_tps=load.pair_tps * times, flow_tps=load.flow_tps * times)


def _supervisor(number: int) -> Supervisor:
    return Supervisor(
        f"node-{number + 1:04d}",
        f"node-{number + 1:04d}.example",
        tuple(range(6700, 6700 + SLOTS)),
        CORES * DEFAULT_CORE_HZ,
        rack=f"rack-{number // NODES_A_RACK + 1:03d}",
        resources={"cpu.pcore.percent": 100.0 * CORES, "memory.mb": MEMORY_MB},
        link_bps=LINK_BPS,
    )


#: Name → what makes the problem.
READY: dict[str, Callable[[], Problem]] = {
    f"cluster-{nodes}": partial(cluster_in_operation, nodes) for nodes in (20, 200, 1_000, 5_000)
}
