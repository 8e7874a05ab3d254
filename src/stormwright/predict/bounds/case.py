"""Input of the bounds as numbers: units, their demands at the wanted rates, and the capacities of nodes."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from stormwright.model import UNPLACED, Problem
from stormwright.model.arrays import FloatArray, IndexArray
from stormwright.model.constraints.constraint import RELATIVE_TOLERANCE
from stormwright.model.topology_config import MAX_EXECUTORS_PER_WORKER
from stormwright.predict.answer import Assumptions
from stormwright.predict.bounds.units import Arcs, Units, units_of
from stormwright.predict.flow.profile import Factors, Profile
from stormwright.predict.workers import nodes_of

#: Rounding tolerance: nodes are slightly larger than the limits of a valid placement.
_LARGER = 1 + 2 * RELATIVE_TOLERANCE


@dataclass(frozen=True, eq=False)
class Case:
    """Input of the bounds; CPU in cores of the reference speed, at the wanted rates.

    Parameters
    ----------
    units, arcs
        Executors and the traffic between them.
    work
        CPU of each unit's own work, shape (U,).
    tuples
        Tuples/s of every arc, shape (A,).
    serialise, send, receive
        CPU of all of an arc's tuples if all of them left their node, shape (A,).
    volume
        Their bytes/s on the wire, shape (A,).
    cores, speed, link_bytes_per_s, ports, memory_mb
        Capacities of nodes, shape (N,); the speed is relative to the reference.
    least_workers, most_workers, most_executors
        Workers of a topology, and executors of one of them, shape (T,).
    worker_cores
        Base CPU of a worker.
    """

    units: Units
    arcs: Arcs
    work: FloatArray
    tuples: FloatArray
    serialise: FloatArray
    send: FloatArray
    receive: FloatArray
    volume: FloatArray
    cores: FloatArray
    speed: FloatArray
    link_bytes_per_s: FloatArray
    ports: IndexArray
    memory_mb: FloatArray
    least_workers: IndexArray
    most_workers: IndexArray
    most_executors: IndexArray
    worker_cores: float

    @classmethod
    def of(
        cls,
        problem: Problem,
        profile: Profile,
        assumptions: Assumptions,
        wanted_tps: FloatArray,
        workers: tuple[IndexArray, IndexArray],
    ) -> Case:
        """Return the case of a problem.

        Parameters
        ----------
        problem, profile
            The problem and its load.
        assumptions
            Costs of messages, and corrections of topologies.
        wanted_tps
            Trees/s of every topology, shape (T,).
        workers
            The least and the most workers that a topology may have, shape (T,) each.
        """
        units, arcs = units_of(problem, profile, assumptions)
        costs, on = assumptions.costs, _open(problem)
        tuples = wanted_tps[units.topology[arcs.source]] * arcs.tuples * units.handled[arcs.source]
        sent = tuples > 0
        arcs, tuples = arcs.only(sent), tuples[sent]
        factors = Factors.of(problem, assumptions.corrections)
        cores = 1e-6 * tuples * (factors.messages * factors.scale)[units.topology[arcs.source]]
        kilobytes = arcs.size / 1e3
        nodes, sizes = nodes_of(problem), np.diff(problem.executor_offset)
        requested = [t.conf.get(MAX_EXECUTORS_PER_WORKER) or t.num_executors for t in problem.topologies]
        return cls(
            units=units,
            arcs=arcs,
            work=wanted_tps[units.topology] * units.work_s * units.handled,
            tuples=tuples,
            serialise=cores * (costs.serialise_us + kilobytes * costs.serialise_us_per_kb),
            send=cores * (costs.send_us + kilobytes * costs.send_us_per_kb),
            receive=cores * (costs.receive_us + kilobytes * costs.receive_us_per_kb),
            volume=tuples * (arcs.size + costs.overhead_bytes),
            cores=nodes.cores[on],
            speed=nodes.core_hz[on] / problem.core_hz,
            link_bytes_per_s=nodes.link_bytes_per_s[on],
            ports=np.array([len(node.ports) for node in problem.supervisors], np.int64)[on],
            memory_mb=problem.node_capacity[1, on] * _LARGER,
            least_workers=np.minimum(workers[0], sizes),
            most_workers=np.minimum(workers[1], sizes),
            most_executors=np.maximum(np.minimum(requested, sizes), 1).astype(np.int64),
            worker_cores=costs.worker_cores,
        )

    @property
    def works(self) -> IndexArray:
        """Units that have any work, shape (…,)."""
        return np.flatnonzero(self.work > 0)

    def without_messages(self) -> Case:
        """Return a relaxation in which messages cost nothing: a smaller case whose bounds hold for this one too."""
        none = np.zeros(0)
        return replace(
            self,
            arcs=self.arcs.only(np.zeros(len(self.tuples), bool)),
            tuples=none,
            serialise=none,
            send=none,
            receive=none,
            volume=none,
        )


def _open(problem: Problem) -> IndexArray:
    """Return the nodes that may be used or are in use."""
    runs = np.zeros(len(problem.supervisors), bool)
    slots = problem.current_slot
    runs[problem.slot_node[slots[slots != UNPLACED]]] = True
    return np.flatnonzero(problem.node_usable | runs)
