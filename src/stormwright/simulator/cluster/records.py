"""From what was counted to the records that probes write."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stormwright.model import Problem, Topology
from stormwright.model.arrays import IndexArray
from stormwright.perflog.schema import VERSION
from stormwright.simulator.cluster.meters import Meters
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
        self._kinds = [kind for topology in problem.topologies for kind in _kinds(topology)]
        starts = [topology.executor_start_task for topology in problem.topologies]
        self._task = np.concatenate(starts).astype(np.int64) if starts else np.empty(0, np.int64)
        self._cores = [round(node.cpu_hz / problem.core_hz * 1000) for node in problem.supervisors]
        self._worker = np.zeros(problem.num_executors, np.int64)

    def records(
        self,
        workers: Sequence[Worker],
        slots: NDArray[np.int32],
        spans_ms: Sequence[tuple[float, float]],
        *,
        last: bool = False,
    ) -> list[dict[str, Any]]:
        """The records of some workers, all at once; what is in them counts as told.

        Parameters
        ----------
        workers
            Whose they are, one at least, each on a slot of its own.
        slots
            Where all executors run, shape (E,).
        spans_ms
            When the interval of each began and when it ended, in ms since 1970.
        last
            Whether the workers have ended.
        """
        meters, sizes = self._meters, [len(worker.executors) for worker in workers]
        executors = np.concatenate([worker.executors for worker in workers])
        worker, slot = np.repeat(np.arange(len(workers)), sizes), np.array([worker.slot for worker in workers])
        # An executor that was started elsewhere counts there.
        here = slots[executors] == slot[worker]
        told, ends = self._executors(executors, here), np.cumsum(sizes).tolist()
        own, worker = executors[here], worker[here]
        messaging_ns = meters.messaging_ns[slot].astype(np.int64).tolist()
        meters.messaging_ns[slot] = 0.0
        pairs = self._pairs(own, worker, len(workers))
        spouts = np.bincount(worker, meters.spout[own], len(workers)).tolist()
        meters.tell(own)
        parts = zip(
            workers,
            spans_ms,
            (told[end - size : end] for end, size in zip(ends, sizes, strict=True)),
            pairs,
            map(self._latency, workers, spouts),
            messaging_ns,
            self._nodes(slot),
            strict=True,
        )
        return [self._record(*part, last=last) for part in parts]

    def _record(
        self,
        worker: Worker,
        span_ms: tuple[float, float],
        executors: list[dict[str, Any]],
        pairs: list[list[int]],
        latency: list[int],
        messaging_ns: int,
        node: dict[str, int],
        *,
        last: bool,
    ) -> dict[str, Any]:
        begin_ms, end_ms = span_ms
        other_ns = round((end_ms - begin_ms) * 1e6 * self._meters.worker_cores)
        worker.seq += 1
        return {
            "version": VERSION,
            "worker": self._identity(worker, last=last),
            "seq": worker.seq - 1,
            "start_ms": round(begin_ms),
            "length_ns": max(round((end_ms - begin_ms) * 1e6), 1),
            "written_ms": round(end_ms),
            "process_cpu_ns": sum(each["cpu_ns"] for each in executors) + messaging_ns + other_ns,
            "heap_bytes": HEAP_BYTES,
            "executors": executors,
            "streams": self._listed[self._problem.topology_index[worker.topology]],
            "pairs": pairs,
            "complete_latency": {"counts": latency},
            "threads": {"messaging_ns": messaging_ns, "gc_ns": 0, "compiler_ns": 0, "other_ns": other_ns},
            "gc": {"collections": 0, "ms": 0},
            "node": node,
        }

    def _identity(self, worker: Worker, *, last: bool) -> dict[str, Any]:
        problem = self._problem
        return {
            "topology": worker.topology,
            "supervisor": worker.supervisor,
            "host": problem.supervisors[problem.node_index[worker.supervisor]].host,
            "port": worker.port,
            "pid": worker.pid,
            "start_ms": worker.start_ms,
            "last": int(last),
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

    def _pairs(self, executors: IndexArray, worker: IndexArray, workers: int) -> list[list[list[int]]]:
        """What executors have sent, by their worker; in it by source, then target."""
        self._worker[executors] = worker
        source, target, tuples = self._meters.sent.take(executors[np.lexsort((executors, worker))])
        ends = self._task[source], self._task[target], self._streams.between(source, target)
        size = np.rint(tuples * self._meters.tuple_bytes[source]).astype(np.int64)
        rows = np.stack([*ends, tuples, size]).T.tolist()
        bounds = np.searchsorted(self._worker[source], np.arange(workers + 1)).tolist()
        return [rows[first:end] for first, end in pairwise(bounds)]

    def _latency(self, worker: Worker, spouts: float) -> list[int]:
        """Trees by bucket, which the first worker tells that has a spout."""
        if not spouts:
            return []
        counts = self._meters.latency[self._problem.topology_index[worker.topology]]
        some = np.flatnonzero(counts)
        told: list[int] = counts[: some[-1] + 1].tolist() if len(some) else []
        counts[:] = 0
        return told

    def _nodes(self, slots: IndexArray) -> list[dict[str, int]]:
        """What workers in these slots tell of their nodes."""
        nodes, core_hz = self._problem.slot_node[slots], round(self._problem.core_hz)
        sent, received = np.rint(self._meters.link_bytes[:, nodes]).astype(np.int64).tolist()
        return [
            {"received_bytes": each, "sent_bytes": other, "millicores": self._cores[node], "core_hz": core_hz}
            for each, other, node in zip(received, sent, nodes.tolist(), strict=True)
        ]


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
