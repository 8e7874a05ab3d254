"""From what was counted to the records that probes write."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from stormwright.model import Problem, Supervisor, Topology
from stormwright.model.arrays import IndexArray
from stormwright.perflog.schema import VERSION
from stormwright.simulator.cluster.meters import Meters, tuple_bytes
from stormwright.simulator.cluster.streams import Streams
from stormwright.simulator.cluster.supervisors import Worker

#: What a worker's heap is said to hold: nothing models it.
HEAP_BYTES = 128 * 2**20


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
        self._streams = Streams(problem)
        self._listed = [[list(stream) for stream in streams] for streams in self._streams.of_topology]
        self._bytes = tuple_bytes(problem)
        self._kinds = [kind for topology in problem.topologies for kind in _kinds(topology)]
        starts = [topology.executor_start_task for topology in problem.topologies]
        self._task = np.concatenate(starts).astype(np.int64) if starts else np.empty(0, np.int64)

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
        # An executor that was started elsewhere counts there.
        here = slots[worker.executors] == worker.slot
        own = worker.executors[here]
        executors = self._executors(worker.executors, here)
        messaging_ns = int(meters.messaging_ns[worker.slot])
        meters.messaging_ns[worker.slot] = 0.0
        pairs = self._pairs(own, self._bytes[number])
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
            "heap_bytes": HEAP_BYTES,
            "executors": executors,
            "streams": self._listed[number],
            "pairs": pairs,
            "complete_latency": {"counts": np.trim_zeros(counts, "b").tolist()},
            "threads": {"messaging_ns": messaging_ns, "gc_ns": 0, "compiler_ns": 0, "other_ns": other_ns},
            "gc": {"collections": 0, "ms": 0},
            "node": self._of_node(worker),
        }

    def _executors(self, executors: IndexArray, here: NDArray[np.bool_]) -> list[dict[str, Any]]:
        meters = self._meters
        counts = np.stack([*(count[executors] for count in meters.counts.values()), meters.pending[executors]])
        names, queues = (*meters.counts, "pending"), (meters.queue[executors] * here).tolist()
        told = np.maximum(counts * here, 0).T.tolist()
        return [
            {**self._kinds[each], **dict(zip(names, own, strict=True)), "queue": queue}
            for each, own, queue in zip(executors.tolist(), told, queues, strict=True)
        ]

    def _pairs(self, own: IndexArray, size: float) -> list[list[int]]:
        source, target, tuples = self._meters.sent.take(own)
        ends = self._task[source], self._task[target], self._streams.between(source, target)
        rows: list[list[int]] = np.stack([*ends, tuples, np.rint(tuples * size).astype(np.int64)]).T.tolist()
        return rows

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


def _kinds(topology: Topology) -> list[dict[str, Any]]:
    """What is always said of its executors."""
    of = [topology.components[component] for component in topology.executor_component.tolist()]
    runs = zip(topology.executor_start_task.tolist(), topology.executor_end_task.tolist(), strict=True)
    return [
        {
            "component": component.id,
            "type": "system" if component.id.startswith("__") else component.type,
            "first_task": first,
            "last_task": last,
        }
        for component, (first, last) in zip(of, runs, strict=True)
    ]
