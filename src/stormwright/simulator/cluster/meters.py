"""Meters: counts of the engine that no probe has reported yet."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stormwright.model import Problem
from stormwright.model.arrays import IndexArray
from stormwright.model.requests import ACKER
from stormwright.perflog.schema import LATENCY_EDGES_MS
from stormwright.predict.costs import Costs
from stormwright.simulator.engine import NOWHERE, EngineCounts

Whole = NDArray[np.int64]

#: Default bytes of a tuple.
_TUPLE_BYTES = 40.0


class PairMeter(NamedTuple):
    """Sending executors, receiving executors, and numbers of tuples, shape (P,)."""

    source: Whole
    target: Whole
    tuples: Whole


class Transfers:
    """Sums of tuples by pair of executors; cheap for recurring pairs.

    Parameters
    ----------
    executors
        Number of executors of the problem, by which pairs are numbered.
    """

    def __init__(self, executors: int) -> None:
        self._executors = max(executors, 1)
        self._keys, self._tuples = np.empty(0, np.int64), np.empty(0, np.int64)
        self._last: tuple[Whole, Whole] | None = None
        self._at: IndexArray = np.empty(0, np.int64)

    def add(self, source: Whole, target: Whole, tuples: Whole) -> None:
        """Add tuples, shape (P,) each."""
        if self._last is None or self._last[0] is not source or self._last[1] is not target:
            self._meet(source * self._executors + target)
            self._last = source, target
        np.add.at(self._tuples, self._at, tuples)

    def take(self, executors: IndexArray) -> PairMeter:
        """Return and reset the tuples sent by some executors; by source as given, then by target."""
        own = executors.astype(np.int64) * self._executors
        first, last = np.searchsorted(self._keys, own), np.searchsorted(self._keys, own + self._executors)
        times = last - first
        at = np.arange(times.sum()) + np.repeat(first - np.cumsum(times) + times, times)
        at = at[self._tuples[at] > 0]
        tuples = self._tuples[at]
        self._tuples[at] = 0
        source, target = np.divmod(self._keys[at], self._executors)
        return PairMeter(source, target, tuples)

    def _meet(self, keys: Whole) -> None:
        """Allocate counters for these keys and all pending ones."""
        left = self._tuples > 0
        known, counts = self._keys[left], self._tuples[left]
        found = np.sort(np.concatenate([known, keys]))  # faster than a set for large arrays
        self._keys = found[np.diff(found, prepend=-1) > 0]
        self._tuples = np.zeros(len(self._keys), np.int64)
        self._tuples[np.searchsorted(self._keys, known)] = counts
        self._at = np.searchsorted(self._keys, keys)


class NodeUsage(NamedTuple):
    """Usage of nodes: CPU time, shape (N,), and bytes over their links, out and in, shape (2, N)."""

    cpu_s: NDArray[np.float64]
    link_bytes: NDArray[np.float64]


class Meters:
    """Unreported counts, and pending trees of spouts since their workers started.

    Parameters
    ----------
    problem
        Problem with the numbering of executors, slots and nodes, and tuple sizes.
    costs
        Costs of messages, whose threads belong to no executor.

    Attributes
    ----------
    counts
        Name of a counter → its values by executor, shape (E,).
    sent
        Tuples between executors.
    pending, queue
        Pending trees, and fill levels of queues, shape (E,).
    latency
        Trees by topology and latency bucket, shape (T, 66).
    messaging_ns
        CPU time of the threads that carry messages, by slot, shape (S,).
    reported_s
        CPU time of the slot's node up to the last record of its worker, shape (S,).
    link_bytes
        Bytes over every node's link, out and in, shape (2, N).
    spout
        Whether an executor belongs to a spout, shape (E,).
    used
        Usage of nodes since the start.
    worker_cores
        Cores that an idle worker uses.
    """

    def __init__(self, problem: Problem, costs: Costs) -> None:
        self._costs, self._node, self.worker_cores = costs, problem.slot_node, costs.worker_cores
        executors = problem.num_executors
        names = ("received", "emitted", "acked", "failed", "cpu_ns", "execute_ns", "trees")
        self.counts = {name: np.zeros(executors, np.int64) for name in names}
        self.pending, self.queue = np.zeros(executors, np.int64), np.zeros(executors)
        self.latency = np.zeros((len(problem.topologies), len(LATENCY_EDGES_MS) + 1), np.int64)
        self.messaging_ns = np.zeros(len(problem.slots))
        self.reported_s = np.zeros(len(problem.slots))
        self.link_bytes = np.zeros((2, len(problem.supervisors)))
        self.used = NodeUsage(np.zeros(len(problem.supervisors)), np.zeros((2, len(problem.supervisors))))
        components = [t.components[component] for t in problem.topologies for component in t.executor_component]
        self.spout = np.array([component.type == "spout" for component in components], dtype=bool)
        self._acker = np.array([component.id == ACKER for component in components], dtype=bool)
        self.tuple_bytes = np.array(tuple_bytes(problem))[problem.executor_topology]
        self.sent = Transfers(executors)

    def add(self, counted: EngineCounts, slots: NDArray[np.int32]) -> None:
        """Add counts of the engine while executors ran in `slots`, shape (E,)."""
        source, target, tuples = counted.source, counted.target, counted.tuples
        begins = self.spout[source] & self._acker[target]
        begun = np.bincount(source[begins], tuples[begins], len(slots)).astype(np.int64)
        for name, count in self.counts.items():
            count += begun if name == "trees" else getattr(counted, name)
        self.pending += np.where(self.spout, begun - counted.acked - counted.failed, 0)
        self.queue = counted.queue.copy()
        self._spend(slots, counted.cpu_ns)
        self.latency += counted.latency
        self._carry(slots[source], slots[target], tuples, self.tuple_bytes[source])
        self.sent.add(source, target, tuples)

    def reset_counts(self, executors: IndexArray) -> None:
        """Reset the counts of executors after they were reported, or lost with their worker."""
        for count in self.counts.values():
            count[executors] = 0

    def begin_slot(self, slot: int) -> None:
        """Start the first interval of a worker in a slot."""
        self.reported_s[slot] = self.used.cpu_s[self._node[slot]]

    def begin(self, executors: IndexArray) -> None:
        """Reset executors that start in a new worker."""
        self.sent.take(executors)
        self.reset_counts(executors)
        self.pending[executors] = 0
        self.queue[executors] = 0.0

    def drop_pending(self, executors: IndexArray) -> None:
        """Reset pending trees: those of the previous worker, which ran while the new one started, ended with it."""
        self.pending[executors] = 0

    def next_interval(self, slots: list[int]) -> None:
        """Start a new interval for the nodes of these slots."""
        self.link_bytes[:, self._node[slots]] = 0.0

    def _carry(
        self,
        source: NDArray[np.int32],
        target: NDArray[np.int32],
        tuples: NDArray[np.int64],
        size: NDArray[np.float64],
    ) -> None:
        """Add the cost of carrying tuples between slots."""
        out = (source != target) & (source != NOWHERE) & (target != NOWHERE)
        source, target, tuples, size, costs = source[out], target[out], tuples[out], size[out], self._costs
        kilobytes = size / 1e3
        for slot, each_us in (
            (source, costs.send_us + costs.send_us_per_kb * kilobytes),
            (target, costs.receive_us + costs.receive_us_per_kb * kilobytes),
        ):
            self.messaging_ns += np.bincount(slot, tuples * each_us * 1e3, len(self.messaging_ns))
            self._spend(slot, tuples * each_us * 1e3)
        ends = self._node[source], self._node[target]
        far = ends[0] != ends[1]
        for number, node in enumerate(ends):
            amounts = (tuples * (size + costs.overhead_bytes))[far]
            carried = np.bincount(node[far], amounts, self.link_bytes.shape[1])
            self.link_bytes[number] += carried
            self.used.link_bytes[number] += carried

    def stand(self, slots: list[int], seconds: float) -> None:
        """Add the idle cost of workers for some seconds."""
        np.add.at(self.used.cpu_s, self._node[slots], self.worker_cores * seconds)

    def _spend(self, slots: NDArray[np.int32], cpu_ns: NDArray[np.float64] | NDArray[np.int64]) -> None:
        on = slots != NOWHERE
        spent_ns = np.bincount(self._node[slots[on]], cpu_ns[on], len(self.used.cpu_s))
        self.used.cpu_s[:] += spent_ns / 1e9


def tuple_bytes(problem: Problem) -> list[float]:
    """Return the bytes of a tuple of every topology."""
    loads = problem.load.topologies if problem.load else {}
    sizes = [loads[t.id].bytes_per_tuple if t.id in loads else None for t in problem.topologies]
    return [_TUPLE_BYTES if size is None else size for size in sizes]
