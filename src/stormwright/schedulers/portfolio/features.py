"""Features of placements for learning, independent of size, speed and load of a cluster.

Each is a fraction, or the logarithm of a ratio, so a model of one problem applies to others. They need one pass over
the traffic, but not the steady state of `stormwright.predict`, except for the executors' work per tuple, once per
problem.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from stormwright.model import UNPLACED, Problem
from stormwright.model.arrays import FloatArray, IntArray
from stormwright.model.traffic_matrix import scopes_of, traffic_under
from stormwright.predict.calibration.document import costs_of
from stormwright.predict.flow.profile import Profile

#: Features of a placement, then of its problem alone. "Ideal" is all work spread over all CPU without messages.
FEATURES: Final = (
    "fullest CPU / ideal, log",
    "fullest CPU without messages / ideal, log",
    "second fullest CPU / fullest",
    "spread of CPU over nodes with any",
    "CPU of work and messages / work, log",
    "messages / work on the fullest node",
    "busiest thread / fullest CPU, log",
    "fullest link out / fullest CPU, log",
    "fullest link in / fullest CPU, log",
    "fullest of all / ideal, log",
    "second fullest node of all / fullest",
    "traffic in a worker",
    "traffic between workers",
    "traffic between nodes",
    "traffic between racks",
    "nodes with any",
    "workers / nodes with any, log",
    "largest worker / mean",
    "messages if all traffic were some / work, log",
    "link if all traffic crossed it / ideal, log",
    "executors for each core, log",
    "spread of CPU over executors",
    "spread of CPU over nodes",
    "traffic that follows the placement",
    "nodes for each topology, log",
)

#: Logarithms are clipped here.
_MAX_LOG: Final = 5.0

#: Digits of a feature: sums in another order differ in further ones.
_DIGITS: Final = 6

#: Default bytes of a tuple.
_USUAL_BYTES: Final = 100.0


class FeatureExtractor:
    """Computes features of placements of one problem.

    Parameters
    ----------
    problem
        Problem with its load; missing measurements have assumed values.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        costs, corrections = costs_of(problem)
        profile = Profile.of(problem)
        self._cycles, self._handled_tps = profile.work_cycles(costs, corrections), profile.handled_tps
        self._begins = profile.begins > 0
        size = np.array([_tuple_bytes(problem, index) for index in range(len(problem.topologies))])
        size = np.append(size, _USUAL_BYTES)[problem.executor_topology]
        self._bits = 8 * (size + costs.overhead_bytes)
        us = problem.core_hz * 1e-6
        self._thread_hz = us * (costs.serialise_us + costs.serialise_us_per_kb * size / 1e3)
        self._send_hz = self._thread_hz + us * (costs.send_us + costs.send_us_per_kb * size / 1e3)
        self._receive_hz = us * (costs.receive_us + costs.receive_us_per_kb * size / 1e3)
        self._worker_hz = costs.worker_cores * problem.core_hz
        self._work_hz = self._cycles * self._handled_tps
        self._all_hz = float(self._work_hz.sum())
        self._link_bps = np.array([node.link_bps or np.inf for node in problem.supervisors], dtype=np.float64)
        self._ideal = _part(self._all_hz, float(problem.node_cpu_hz.sum()))
        self._of_problem = self._described_alone()

    def features(self, slots: IntArray) -> FloatArray:
        """Return the features of a placement, in the order of `FEATURES`, shape (F,).

        Parameters
        ----------
        slots
            Slot of every executor, -1 for none, shape (E,).
        """
        problem, nodes = self.problem, len(self.problem.supervisors)
        scopes, traffic = scopes_of(problem, slots), traffic_under(problem, slots)
        source, target, tps = traffic.source, traffic.target, traffic.tps
        # Executors near to senders get more of shuffled traffic.
        received = np.bincount(target, tps, len(slots))
        own_hz = self._cycles * np.where(self._begins, self._handled_tps, received)
        there = (scopes.slot[source] != UNPLACED) & (scopes.slot[target] != UNPLACED)
        source, target, tps = source[there], target[there], tps[there]
        leaves = scopes.slot[source] != scopes.slot[target]
        crosses = scopes.node[source] != scopes.node[target]
        placed = slots != UNPLACED
        node = scopes.node[placed]
        work: FloatArray = np.bincount(node, own_hz[placed], nodes).astype(np.float64)
        used, counts = np.unique(slots[placed], return_counts=True)
        messages = np.bincount(problem.slot_node[used], minlength=nodes) * self._worker_hz
        messages += np.bincount(scopes.node[source[leaves]], (tps * self._send_hz[source])[leaves], nodes)
        messages += np.bincount(scopes.node[target[leaves]], (tps * self._receive_hz[source])[leaves], nodes)
        thread = np.bincount(source[leaves], (tps * self._thread_hz[source])[leaves], len(slots)) + own_hz
        cpu = _parts(work + messages, problem.node_cpu_hz)
        out = np.bincount(scopes.node[source[crosses]], (tps * self._bits[source])[crosses], nodes) / self._link_bps
        into = np.bincount(scopes.node[target[crosses]], (tps * self._bits[source])[crosses], nodes) / self._link_bps
        busiest = float(thread[placed].max(initial=0.0)) / problem.core_hz
        full = np.sort(np.maximum(np.maximum(cpu, out), into))[::-1]
        fullest, full = float(cpu.max(initial=0.0)), np.append(full, [0.0, 0.0])
        by_cpu = np.append(np.sort(cpu)[::-1], [0.0, 0.0])
        some = cpu[np.bincount(node, minlength=nodes) > 0]
        at = int(np.argmax(cpu)) if nodes else 0
        inner = ~leaves, leaves & ~crosses, crosses & (scopes.rack[source] == scopes.rack[target])
        shares = [float(tps[kind].sum()) for kind in (*inner, scopes.rack[source] != scopes.rack[target])]
        total = float(tps.sum())
        found = [
            _log(fullest, self._ideal),
            _log(float(_parts(work, problem.node_cpu_hz).max(initial=0.0)), self._ideal),
            _part(by_cpu[1], by_cpu[0]),
            _spread(some),
            _log(float(work.sum() + messages.sum()), self._all_hz),
            min(_part(messages[at], work[at]), _MAX_LOG) if nodes else 0.0,
            _log(busiest, fullest),
            _log(float(out.max(initial=0.0)), fullest),
            _log(float(into.max(initial=0.0)), fullest),
            _log(max(float(full[0]), busiest), self._ideal),
            _part(full[1], full[0]),
            *(_part(share, total) for share in shares),
            _part(len(some), nodes),
            _log(len(used), len(some)),
            _part(float(counts.max(initial=0)), float(counts.mean()) if len(counts) else 0.0),
            *self._of_problem,
        ]
        return np.asarray(np.round(found, _DIGITS), dtype=np.float64)

    def _described_alone(self) -> list[float]:
        """Features that are equal for all placements."""
        problem = self.problem
        spread = traffic_under(problem, np.full(problem.num_executors, UNPLACED, dtype=np.int32))
        per_message = self._send_hz + self._receive_hz
        known = np.isfinite(self._link_bps)
        bits = float((spread.tps * self._bits[spread.source]).sum()) if known.any() else 0.0
        links = float(self._link_bps[known].sum()) if known.any() else np.inf
        flows = sum(float(load.flow_tps.sum()) for load in problem.loads)
        cores = float(problem.node_cpu_hz.sum()) / problem.core_hz
        return [
            _log(float((spread.tps * per_message[spread.source]).sum()), self._all_hz),
            _log(bits / links, self._ideal),
            _log(problem.num_executors, cores),
            _spread(self._work_hz),
            _spread(problem.node_cpu_hz),
            _part(flows, float(spread.tps.sum())),
            _log(len(problem.supervisors), len(problem.topologies)),
        ]


def _tuple_bytes(problem: Problem, topology: int) -> float:
    """Return the mean size of a topology's tuples."""
    load = problem.loads[topology]
    volume = sum(float(each.sum()) for each in (load.pair_bytes_per_s, load.flow_bytes_per_s) if each is not None)
    tuples = float(load.pair_tps.sum() + load.flow_tps.sum())
    return volume / tuples if volume and tuples else load.bytes_per_tuple or _USUAL_BYTES


def _parts(used: FloatArray, there: FloatArray) -> FloatArray:
    parts: FloatArray = np.divide(used, there, out=np.zeros(len(used)), where=there > 0)
    return parts


def _part(some: float, whole: float) -> float:
    return float(some / whole) if whole > 0 else 0.0


def _log(some: float, whole: float) -> float:
    """Return the logarithm of a ratio, 0 if both are 0."""
    if some <= 0 or whole <= 0:
        return 0.0 if some <= 0 and whole <= 0 else -_MAX_LOG if some <= 0 else _MAX_LOG
    return float(np.clip(np.log(some / whole), -_MAX_LOG, _MAX_LOG))


def _spread(values: FloatArray) -> float:
    """Return the coefficient of variation."""
    mean = float(values.mean()) if len(values) else 0.0
    return min(float(values.std()) / mean, _MAX_LOG) if mean > 0 else 0.0
