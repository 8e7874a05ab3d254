"""Conversion of counts to the records that probes write."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stormwright.model import Problem, Topology
from stormwright.model.arrays import IndexArray
from stormwright.model.requests import ACKER
from stormwright.perflog.schema import VERSION
from stormwright.simulator.cluster.meters import Meters
from stormwright.simulator.cluster.supervisors import Worker

#: A stream in records: sending component, name, receiving component, grouping.
Stream = tuple[str, str, str, str]

#: Streams of Storm's ackers.
_BEGUN, _ACKED = "__ack_init", "__ack_ack"

#: Stream of traffic that the topology does not declare.
_UNDECLARED = "default", "fields"

#: Constant heap usage of a worker, as it is not modelled.
HEAP_BYTES = 128 * 2**20


class Streams:
    """Streams of all topologies of a problem.

    Parameters
    ----------
    problem
        Problem whose loads may contain traffic on undeclared streams.

    Attributes
    ----------
    of_topology
        Streams of every topology; the first of several between the same components.
    """

    def __init__(self, problem: Problem) -> None:
        self._topology, components = problem.executor_topology, [len(t.components) for t in problem.topologies]
        own = [topology.executor_component for topology in problem.topologies]
        self._component = np.concatenate(own).astype(np.int64) if own else np.empty(0, np.int64)
        self._size = np.array(components, np.int64)
        self._first = np.cumsum(self._size**2) - self._size**2
        self._number = np.full(int(np.sum(self._size**2)), -1)
        self.of_topology: list[list[Stream]] = []
        for number, topology in enumerate(problem.topologies):
            ends, streams = _streams(problem, number), list[Stream]()
            for (source, target), stream in ends.items():
                cell = topology.component_index[source], topology.component_index[target]
                self._number[self._first[number] + cell[0] * len(topology.components) + cell[1]] = len(streams)
                streams.append(stream)
            self.of_topology.append(streams)

    def between(self, source: IndexArray, target: IndexArray) -> IndexArray:
        """Return the stream of each pair of executors, by number in its topology, shape (P,)."""
        component = self._topology[source]
        cell = self._component[source] * self._size[component] + self._component[target]
        found: IndexArray = self._number[self._first[component] + cell]
        return found


def _streams(problem: Problem, number: int) -> dict[tuple[str, str], Stream]:
    """Return the stream of each pair of sending and receiving component."""
    topology, load = problem.topologies[number], problem.loads[number]
    found = _declared(topology)
    executor_component, names = topology.executor_component, [component.id for component in topology.components]
    pairs = np.stack([executor_component[load.pair_source], executor_component[load.pair_target]])
    flows = np.stack([executor_component[load.flow_source], load.flow_component])
    for source, target in np.unique(np.concatenate([pairs, flows], axis=1), axis=1).T.tolist():
        ends = names[source], names[target]
        stream, grouping = _UNDECLARED
        found.setdefault(ends, (ends[0], stream, ends[1], grouping))
    return found


def _declared(topology: Topology) -> dict[tuple[str, str], Stream]:
    found: dict[tuple[str, str], Stream] = {}
    spouts = [component.id for component in topology.components if component.type == "spout"]
    if ACKER in topology.component_index:
        for component in topology.components:
            if component.id != ACKER:
                stream = _BEGUN if component.id in spouts else _ACKED
                found[component.id, ACKER] = component.id, stream, ACKER, "fields"
        found |= {(ACKER, spout): (ACKER, _ACKED, spout, "direct") for spout in spouts}
    for component in topology.components:
        for grouping in component.inputs:
            if grouping.source in topology.component_index:
                ends = grouping.source, component.id
                found.setdefault(ends, (grouping.source, grouping.stream, component.id, grouping.kind))
    return found


class RecordWriter:
    """Writes records of workers from the counts of their executors.

    Parameters
    ----------
    problem
        Problem with all topologies.
    meters
        Counts of executors, nodes and links since their last records.
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
        """Return the records of some workers, and mark their counts as reported.

        Parameters
        ----------
        workers
            At least one worker, each on a slot of its own.
        slots
            Slots of all executors, shape (E,).
        spans_ms
            Start and end of each interval, in ms since 1970.
        last
            Whether the workers have ended.
        """
        meters, sizes = self._meters, [len(worker.executors) for worker in workers]
        executors = np.concatenate([worker.executors for worker in workers])
        worker, slot = np.repeat(np.arange(len(workers)), sizes), np.array([worker.slot for worker in workers])
        # An executor that was started elsewhere is reported there.
        here = slots[executors] == slot[worker]
        records_of_executors, ends = self._executors(executors, here), np.cumsum(sizes).tolist()
        own, worker = executors[here], worker[here]
        messaging_ns = meters.messaging_ns[slot].astype(np.int64).tolist()
        meters.messaging_ns[slot] = 0.0
        pairs = self._pairs(own, worker, len(workers))
        spouts = np.bincount(worker, meters.spout[own], len(workers)).tolist()
        meters.reset_counts(own)
        parts = zip(
            workers,
            spans_ms,
            (records_of_executors[end - size : end] for end, size in zip(ends, sizes, strict=True)),
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
            **({} if worker.connections is None else {"connections": worker.connections}),
            "configuration": str(worker.version),
        }

    def _executors(self, executors: IndexArray, here: NDArray[np.bool_]) -> list[dict[str, Any]]:
        meters = self._meters
        counts = np.stack([*(count[executors] for count in meters.counts.values()), meters.pending[executors]])
        names, queues = (*meters.counts, "pending"), (meters.queue[executors] * here).tolist()
        values = np.maximum(counts * here, 0).T.tolist()
        return [
            {**self._kinds[each], **dict(zip(names, own, strict=True)), "queue": queue}
            for each, own, queue in zip(executors.tolist(), values, queues, strict=True)
        ]

    def _pairs(self, executors: IndexArray, worker: IndexArray, workers: int) -> list[list[list[int]]]:
        """Return the tuples sent by executors, by worker, source, and target."""
        self._worker[executors] = worker
        source, target, tuples = self._meters.sent.take(executors[np.lexsort((executors, worker))])
        ends = self._task[source], self._task[target], self._streams.between(source, target)
        size = np.rint(tuples * self._meters.tuple_bytes[source]).astype(np.int64)
        rows = np.stack([*ends, tuples, size]).T.tolist()
        bounds = np.searchsorted(self._worker[source], np.arange(workers + 1)).tolist()
        return [rows[first:end] for first, end in pairwise(bounds)]

    def _latency(self, worker: Worker, spouts: float) -> list[int]:
        """Return trees by bucket, reported by the first worker with a spout."""
        if not spouts:
            return []
        counts = self._meters.latency[self._problem.topology_index[worker.topology]]
        some = np.flatnonzero(counts)
        buckets: list[int] = counts[: some[-1] + 1].tolist() if len(some) else []
        counts[:] = 0
        return buckets

    def _nodes(self, slots: IndexArray) -> list[dict[str, int]]:
        """Return the node statistics of workers in these slots, and mark its CPU time as reported.

        A node's limit is a quota of all of its processes, which are its workers.
        """
        nodes, core_hz = self._problem.slot_node[slots], round(self._problem.core_hz)
        used_s = self._meters.used.cpu_s[nodes]
        used_ns = np.rint((used_s - self._meters.reported_s[slots]) * 1e9).astype(np.int64).tolist()
        self._meters.reported_s[slots] = used_s
        sent, received = np.rint(self._meters.link_bytes[:, nodes]).astype(np.int64).tolist()
        return [
            {
                "received_bytes": each,
                "sent_bytes": other,
                "millicores": self._cores[node],
                "core_hz": core_hz,
                "used_ns": used,
            }
            for each, other, node, used in zip(received, sent, nodes.tolist(), used_ns, strict=True)
        ]


def _kinds(topology: Topology) -> list[dict[str, Any]]:
    """Return the constant fields of a topology's executors."""
    components = [topology.components[number] for number in topology.executor_component.tolist()]
    runs = zip(topology.executor_start_task.tolist(), topology.executor_end_task.tolist(), strict=True)
    return [
        {
            "component": component.id,
            "type": "system" if component.id.startswith("__") else component.type,
            "first_task": first,
            "last_task": last,
        }
        for component, (first, last) in zip(components, runs, strict=True)
    ]
