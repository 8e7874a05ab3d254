"""The experiments of the TOP-Storm paper as problems, by name."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from stormwright.formats.document.faults import FaultList
from stormwright.formats.storm.conf import Layer, StormConf
from stormwright.formats.storm.submission import ACKERS, WORKERS, UserComponent, submitted
from stormwright.model import Grouping, Problem, Supervisor


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

#: The paper counts 28 and 18 executors whatever the slots asked for: three more than the components have.
_NUM_ACKERS = 3


def top_storm(topology: str, configuration: int) -> Problem:
    """An experiment of the TOP-Storm paper.

    A. Muhammad, M. Aleem, M. A. Islam, Cluster Computing 24, 2021, https://doi.org/10.1007/s10586-020-03117-y; section
    5 and table 5. The paper tells neither rates nor what an executor asks for: the load is the one assumed where none
    was measured, with Storm's defaults of CPU and memory.

    Parameters
    ----------
    topology
        ``word-count`` or ``exclamation``.
    configuration
        1 to 6.
    """
    workers, slots = TABLE_5[configuration]
    conf = StormConf([Layer({WORKERS: workers, ACKERS: _NUM_ACKERS}, FaultList())])
    return Problem(
        supervisors=tuple(_supervisor(machine, slots) for machine in _MACHINES),
        topologies=(submitted(topology, _TOPOLOGIES[topology], conf, _PLAIN, 1),),
        name=f"top-storm-{topology}-{configuration}",
    )


def _supervisor(machine: _Machine, slots: int) -> Supervisor:
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


#: Name → what makes the problem.
READY: dict[str, Callable[[], Problem]] = {
    f"top-storm-{topology}-{configuration}": partial(top_storm, topology, configuration)
    for topology in _TOPOLOGIES
    for configuration in TABLE_5
}
