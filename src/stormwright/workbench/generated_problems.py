"""Problems generated on demand: clusters in operation of any size, and those of the TOP-Storm paper."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np

from stormwright.defaults import BASELINE
from stormwright.formats.document.faults import FaultList
from stormwright.formats.storm.conf import Layer, StormConf
from stormwright.formats.storm.submission import ACKERS, WORKERS, UserComponent, submitted
from stormwright.model import Grouping, LoadProfile, Problem, Supervisor, TopologyAssignment, TopologyLoad
from stormwright.model.cluster import DEFAULT_CORE_HZ
from stormwright.schedulers import make_scheduler
from stormwright.workbench.demo.settings import TOPOLOGIES, Submission
from stormwright.workbench.simulated.topologies import RATE_TPS, TopologyModel, simulated_topologies

# Generated clusters -------------------------------------------------------------------------------
# Clusters in operation of any size, to explore the behaviour at that size.

#: Executors on a node on average, nodes in a rack, and worker slots, cores and link of a node.
EXECUTORS_A_NODE, NODES_A_RACK, SLOTS, CORES, LINK_BPS, MEMORY_MB = 20, 40, 8, 4, 1e9, 65_536.0

#: Median of a topology's rate in trees/s, and σ of its log-normal distribution.
_MEDIAN_TPS, _SPREAD = 12_000.0, 0.7

#: Names of topologies by kind; sizes are random.
_NAMES = {"clicks": "word-count", "search": "word-count", "fraud": "exclamation", "orders": "word-count"}


def cluster_in_operation(nodes: int, seed: int = 1) -> Problem:
    """Return a cluster with topologies of several sizes and rates, placed by Storm's own scheduler.

    They are the word counts and exclamations of the demonstration; there are 20 executors a node.

    Parameters
    ----------
    nodes
        Number of nodes, each with 20 executors on average.
    seed
        Seed of sizes and rates.
    """
    rng, made = np.random.default_rng(seed), list[TopologyModel]()
    executors = 0
    while executors < EXECUTORS_A_NODE * nodes:
        (one,) = simulated_topologies([_submission(len(made), rng)])
        made.append(one)
        executors += one.topology.num_executors
    loads = {one.topology.id: _at_rate(one.load, one.offered_tps / RATE_TPS) for one in made}
    topologies = tuple(one.topology for one in made)
    supervisors = tuple(_supervisor(number) for number in range(nodes))
    problem = Problem(supervisors, topologies, name=f"cluster-{nodes}", load=LoadProfile(loads))
    # A load of what is in one worker has no messages in it.
    alone = {
        topology.id: TopologyAssignment(problem.slots[:1], (0,) * topology.num_executors) for topology in topologies
    }
    placed = make_scheduler(BASELINE).schedule(problem).by_topology(problem)
    return replace(problem, current=placed, measured=alone)


def _submission(number: int, rng: np.random.Generator) -> Submission:
    name, kind = list(_NAMES.items())[int(rng.integers(len(_NAMES)))]
    size, rate = int(rng.integers(1, 5)), round(_MEDIAN_TPS * float(np.exp(_SPREAD * rng.standard_normal())))
    sizes = {"spouts": 2 * size, "split": 4 * size, "count": 5 * size}
    if kind == "exclamation":
        sizes = {"spouts": 3 * size, "exclaim1": 4 * size, "exclaim2": 3 * size}
    arguments = {**sizes, "workers": 1 + 2 * size, "ackers": 1 + size, "rate": rate, "pending": 500 * size}
    return Submission(f"{name}-{number + 1}", TOPOLOGIES[kind], {key: str(value) for key, value in arguments.items()})


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


#: Generators of problems by name.
CLUSTERS: dict[str, Callable[[], Problem]] = {
    f"cluster-{nodes}": partial(cluster_in_operation, nodes) for nodes in (20, 200, 1_000, 5_000)
}


# TOP-Storm ----------------------------------------------------------------------------------------
# The experiments of the TOP-Storm paper as problems, by name.


class _Machine(NamedTuple):
    name: str
    ghz: float
    cores: int
    flop_per_cycle: int
    ram_gb: float


#: The supervisor nodes of the TOP-Storm paper; its table 4.
_MACHINES = (
    _Machine("Node-A", 3.40, 4, 6816, 3.7),
    _Machine("Node-B", 3.20, 4, 6385, 7.7),
    _Machine("Node-C", 3.40, 8, 6816, 3.7),
    _Machine("Node-D", 2.53, 4, 5054, 3.7),
    _Machine("Node-E", 3.40, 2, 6816, 3.7),
)

#: Configuration → slots that the topology asks for, slots of every supervisor node; table 5 of the paper.
TABLE_5 = {1: (5, 5), 2: (5, 4), 3: (5, 3), 4: (4, 4), 5: (4, 3), 6: (3, 3)}

_PLAIN = StormConf([])

#: The paper's two topologies, as Storm's examples (storm-starter) have them.
_TOPOLOGIES = {
    "word-count": (
        UserComponent("spout", "spout", 5, _PLAIN),
        UserComponent("split", "bolt", 8, _PLAIN, (Grouping("spout"),)),
        UserComponent("count", "bolt", 12, _PLAIN, (Grouping("split", kind="fields", fields=("word",)),)),
    ),
    "exclamation": (
        UserComponent("word", "spout", 10, _PLAIN),
        UserComponent("exclaim1", "bolt", 3, _PLAIN, (Grouping("word"),)),
        UserComponent("exclaim2", "bolt", 2, _PLAIN, (Grouping("exclaim1"),)),
    ),
}

#: The paper counts 28 and 18 executors for any number of requested slots: three more than the components have.
_NUM_ACKERS = 3


def top_storm(topology: str, configuration: int) -> Problem:
    """Return an experiment of the TOP-Storm paper.

    A. Muhammad, M. Aleem, M. A. Islam, Cluster Computing 24, 2021, https://doi.org/10.1007/s10586-020-03117-y; section
    5 and table 5. The paper states neither rates nor requests of executors: the load is the default for unmeasured
    topologies, with Storm's defaults of CPU and memory.

    Parameters
    ----------
    topology
        Topology of the paper, ``word-count`` or ``exclamation``.
    configuration
        Row of table 5, from 1 to 6: number of workers and slots.
    """
    workers, slots = TABLE_5[configuration]
    conf = StormConf([Layer({WORKERS: workers, ACKERS: _NUM_ACKERS}, FaultList())])
    return Problem(
        supervisors=tuple(_paper_supervisor(machine, slots) for machine in _MACHINES),
        topologies=(submitted(topology, _TOPOLOGIES[topology], conf, _PLAIN, 1),),
        name=f"top-storm-{topology}-{configuration}",
    )


def _paper_supervisor(machine: _Machine, slots: int) -> Supervisor:
    from stormwright.schedulers.top_storm import CORES, FLOP_PER_CYCLE, GHZ  # brings Numba, which no file needs

    return Supervisor(
        id=machine.name,
        host=machine.name,
        ports=tuple(range(6700, 6700 + slots)),
        cpu_hz=machine.cores * machine.ghz * 1e9,
        scheduler_meta={
            GHZ: str(machine.ghz),
            CORES: str(machine.cores),
            FLOP_PER_CYCLE: str(machine.flop_per_cycle),
        },
        resources={"cpu.pcore.percent": machine.cores * 100.0, "memory.mb": machine.ram_gb * 1024},
        link_bps=1e9,
    )


#: Generators of problems by name.
PAPERS: dict[str, Callable[[], Problem]] = {
    f"top-storm-{topology}-{configuration}": partial(top_storm, topology, configuration)
    for topology in _TOPOLOGIES
    for configuration in TABLE_5
}


#: All ready problems by name.
READY = {**PAPERS, **CLUSTERS}
