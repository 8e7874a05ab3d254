"""From what was counted to the records that probes write."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from stormwright.model import Problem, Supervisor, Topology
from stormwright.model.arrays import IndexArray
from stormwright.model.conf.requests import ACKER
from stormwright.perflog.schema import VERSION
from stormwright.simulator.cluster.meters import Meters, tuple_bytes
from stormwright.simulator.cluster.supervisors import Worker

#: Streams of Storm's ackers.
_BEGUN, _ACKED = "__ack_init", "__ack_ack"

#: What a worker's heap is said to hold: nothing models it.
_HEAP_BYTES = 128 * 2**20


class Recording:
    """Writes the records of workers, from what was counted of their executors.

    Parameters
    ----------
    problem
        With all topologies.
    meters
        What was counted.
    """

    def __init__(self, problem: Problem, meters: Meters) -> None:
        self._problem, self._meters = problem, meters
        self._streams = [_streams(topology) for topology in problem.topologies]
        self._bytes = tuple_bytes(problem)

    def record(
        self, worker: Worker, slots: NDArray[np.int32], span_ms: tuple[float, float], *, last: bool = False
    ) -> dict[str, Any]:
        """The record of one worker; what is in it counts as told.

        Parameters
        ----------
        worker
            Whose it is.
        slots
            Where all executors run, shape (E,).
        span_ms
            When the interval began and when it ended, in ms since 1970.
        last
            Whether the worker has ended.
        """
        meters, number = self._meters, self._problem.topology_index[worker.topology]
        topology, first = self._problem.topologies[number], self._problem.executors_of(number).start
        streams = self._streams[number]
        # An executor that was started elsewhere counts there.
        own = worker.executors[slots[worker.executors] == worker.slot]
        executors = [_executor(topology, each - first, each, meters, own) for each in worker.executors.tolist()]
        messaging_ns = int(meters.messaging_ns[worker.slot])
        meters.messaging_ns[worker.slot] = 0.0
        pairs = [_pair(topology, first, each, streams, self._bytes[number]) for each in meters.pairs(own)]
        counts = meters.latency[number].copy() if np.any(meters.spout[own]) else np.zeros(0, np.int64)
        if len(counts):
            meters.latency[number] = 0
        meters.tell(own)
        begin_ms, end_ms = span_ms
        other_ns = round((end_ms - begin_ms) * 1e6 * meters.worker_cores)
        worker.seq += 1
        return {
            "version": VERSION,
            "worker": _identity(worker, self._node(worker).host, last=last),
            "seq": worker.seq - 1,
            "start_ms": round(begin_ms),
            "length_ns": max(round((end_ms - begin_ms) * 1e6), 1),
            "written_ms": round(end_ms),
            "process_cpu_ns": sum(each["cpu_ns"] for each in executors) + messaging_ns + other_ns,
            "heap_bytes": _HEAP_BYTES,
            "executors": executors,
            "streams": [list(stream) for stream in streams.values()],
            "pairs": pairs,
            "complete_latency": {"counts": np.trim_zeros(counts, "b").tolist()},
            "threads": {"messaging_ns": messaging_ns, "gc_ns": 0, "compiler_ns": 0, "other_ns": other_ns},
            "gc": {"collections": 0, "ms": 0},
            "node": self._of_node(worker),
        }

    def _node(self, worker: Worker) -> Supervisor:
        return self._problem.supervisors[self._problem.node_index[worker.supervisor]]

    def _of_node(self, worker: Worker) -> dict[str, int]:
        core_hz = self._problem.core_hz
        sent, received = self._meters.link_bytes[:, self._problem.node_index[worker.supervisor]].tolist()
        return {
            "received_bytes": round(received),
            "sent_bytes": round(sent),
            "millicores": round(self._node(worker).cpu_hz / core_hz * 1000),
            "core_hz": round(core_hz),
        }


def _identity(worker: Worker, host: str, *, last: bool) -> dict[str, Any]:
    return {
        "topology": worker.topology,
        "supervisor": worker.supervisor,
        "host": host,
        "port": worker.port,
        "pid": worker.pid,
        "start_ms": worker.start_ms,
        "last": int(last),
    }


def _executor(topology: Topology, executor: int, at: int, meters: Meters, own: IndexArray) -> dict[str, Any]:
    component = topology.components[topology.executor_component[executor]]
    here = at in own
    return {
        "component": component.id,
        "type": "system" if component.id.startswith("__") else component.type,
        "first_task": int(topology.executor_start_task[executor]),
        "last_task": int(topology.executor_end_task[executor]),
        **{name: int(count[at]) if here else 0 for name, count in meters.counts.items()},
        "queue": float(meters.queue[at]) if here else 0.0,
        "pending": max(int(meters.pending[at]), 0) if here else 0,
    }


def _streams(topology: Topology) -> dict[tuple[str, str], tuple[str, str, str, str]]:
    """Component that sends and component that receives → their stream as records have it; of several the first."""
    found: dict[tuple[str, str], tuple[str, str, str, str]] = {}
    spouts = [component.id for component in topology.components if component.type == "spout"]
    if ACKER in topology.component_index:
        for component in topology.components:
            if component.id != ACKER:
                stream = _BEGUN if component.id in spouts else _ACKED
                found[component.id, ACKER] = component.id, stream, ACKER, "fields"
        found |= {(ACKER, spout): (ACKER, _ACKED, spout, "direct") for spout in spouts}
    for component in topology.components:
        for grouping in component.inputs:
            ends = grouping.source, component.id
            found.setdefault(ends, (grouping.source, grouping.stream, component.id, grouping.kind))
    return found


def _pair(
    topology: Topology,
    first: int,
    pair: tuple[int, int, int],
    streams: dict[tuple[str, str], tuple[str, str, str, str]],
    size: float,
) -> list[int]:
    source, target, tuples = pair[0] - first, pair[1] - first, pair[2]
    ends = tuple(topology.components[topology.executor_component[each]].id for each in (source, target))
    stream = list(streams).index(ends)
    tasks = (int(topology.executor_start_task[each]) for each in (source, target))
    return [*tasks, stream, tuples, round(tuples * size)]
