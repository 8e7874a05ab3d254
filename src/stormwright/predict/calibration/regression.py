"""Windows as rows of linear models: CPU of threads, by their activity.

CPU is in µs/s of a core of the reference speed, so coefficients are in µs. With rates in tuples/s and sizes in kB:

- messaging threads of a worker: tuples and kB sent and received, and a base cost if it sent or received anything;
- its other threads (garbage collection, compiler, timers, heartbeats): the CPU of its executors, whose garbage they
  collect, and a base cost;
- executors of a component in a worker: the tuples that they handled, their messages to other workers, which they
  serialise themselves, and how often they were given a core, as each poll for tuples takes one; of older probes, which
  did not count that, the time for which a core was available;
- links of a node, in bytes/s: payload, messages, and a base traffic.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from stormwright.perflog.records import WorkerId
from stormwright.predict.calibration.least_squares import Moments, Prior
from stormwright.predict.calibration.stream_costs import COMMON, InputObservations, by_input, row_of
from stormwright.predict.calibration.windows import CpuQuota, Window, WorkerSums
from stormwright.predict.costs import CostRange

#: Assumed noise of a row: a constant part, and a relative one.
_MESSAGING_NOISE, _OTHERS_NOISE, _EXECUTORS_NOISE, _WIRE_NOISE = (1e3, 0.15), (3e3, 0.1), (2e3, 0.03), (3e3, 0.03)

#: Relative noise of rows without contention: messages then come few at a time, each costs a wake-up of a thread, and
#: such rows are less informative about full nodes.
_NOISE_WHEN_FREE = 0.1

#: Prior deviation of the work of a tuple.
_ANY_US = 1e6

#: Microseconds in a second.
_US = 1e6

#: System components whose executors do work like others.
_ACKER = "__acker"


class Priors(NamedTuple):
    """Priors of the coefficients of each model; components' own work has none."""

    messaging: Prior
    others: Prior
    executors: Prior
    wire: Prior


@dataclass(frozen=True)
class TopologyRows:
    """Rows of a topology under one placement, from one stretch of time.

    Parameters
    ----------
    placement
        Key of the placement: equal keys mean each executor in the same slot.
    components
        Components in the order of the coefficients of `executors`.
    messaging
        Coefficients of tuples sent, kB sent, tuples received, kB received, and the base CPU.
    others
        Coefficients of the executors' CPU, and of the base CPU.
    executors
        Coefficients of a tuple of each component, then of a message, a kB of it, the time that threads could run, and
        how often they were given a core; of the last two only one is not 0.
    rate_tps
        Trees/s, of all windows.
    message_bytes, messages
        Sampled bytes, and the tuples that have them.
    by_input
        Coefficients of tuples by input stream, by component.
    """

    placement: str
    components: tuple[str, ...]
    messaging: Moments
    others: Moments
    executors: Moments
    rate_tps: CostRange
    message_bytes: float
    messages: float
    by_input: Mapping[str, InputObservations]


@dataclass(frozen=True)
class StretchRows:
    """Rows of one stretch of time.

    Parameters
    ----------
    topologies
        Rows of each topology, by id.
    wire
        Coefficients of a message and of the base traffic.
    utilisation
        CPU in use of nodes, as a fraction of their capacity; None without any report.
    core_hz, held
        Speed of a core, and the CPU quota of the node, by supervisor, where reported.
    workers
        Usable windows, added up over workers.
    """

    topologies: Mapping[str, TopologyRows]
    wire: Moments
    utilisation: CostRange | None
    core_hz: Mapping[str, float]
    held: Mapping[str, CpuQuota]
    workers: int


def rows_of(windows: Sequence[Window], reference_hz: float, priors: Priors) -> StretchRows:
    """Return the rows of windows.

    Parameters
    ----------
    windows
        Windows of about a minute.
    reference_hz
        Speed of the core in whose time costs are given; assumed for a worker that reports no speed.
    priors
        Priors of the coefficients, for the residuals that determine the effective number of rows.
    """
    usable = [window.usable() for window in windows]
    by_topology: dict[str, list[dict[WorkerId, WorkerSums]]] = defaultdict(list)
    for workers in usable:
        of_window: dict[str, dict[WorkerId, WorkerSums]] = defaultdict(dict)
        for life, sums in workers.items():
            of_window[life.topology][life] = sums
        for topology, own in of_window.items():
            by_topology[topology].append(own)
    each = [sums for workers in usable for sums in workers.items()]
    return StretchRows(
        topologies={name: _of_topology(workers, reference_hz, priors) for name, workers in sorted(by_topology.items())},
        wire=_of_links(windows, usable, priors.wire),
        utilisation=_utilisation(windows),
        core_hz={life.supervisor: sums.core_hz for life, sums in each if sums.core_hz},
        held={life.supervisor: sums.held for life, sums in each if sums.held},
        workers=len(each),
    )


def _of_topology(windows: list[dict[WorkerId, WorkerSums]], reference_hz: float, priors: Priors) -> TopologyRows:
    everyone = [sums for workers in windows for sums in workers.values()]
    size = _size(everyone)
    components = sorted({name for workers in windows for sums in workers.values() for name in _working(sums)})
    column = {name: number for number, name in enumerate(components)}
    messaging, others, executors = _ModelRows(5), _ModelRows(2), _ModelRows(len(components) + COMMON)
    rates, by_stream = [], []
    for workers in windows:
        rates.append(sum(sums.trees / sums.length_s for sums in workers.values()))
        for life, sums in workers.items():
            speed = (sums.core_hz or reference_hz) / reference_hz
            in_us = _US * speed / sums.length_s
            carried = _messages(sums, size) / sums.length_s
            there = _US * speed if carried.any() else 0.0
            messaging.add(life, np.array([*carried, there]), sums.messaging_s * in_us, _free(sums))
            rest_s = sums.gc_s + sums.compiler_s + sums.other_s
            others.add(life, np.array([sums.executors_s * in_us, _US * speed]), rest_s * in_us)
            for name in _working(sums):
                part, row = sums.parts[name], np.zeros(len(components) + COMMON)
                row[column[name]] = part.handled / sums.length_s
                messages = part.left / sums.length_s, part.left_bytes / 1e3 / sums.length_s
                row[-COMMON:] = *messages, part.uncounted_s * in_us, part.runs / sums.length_s
                executors.add((life, name), row, part.cpu_s * in_us)
                by_stream.append(row_of(life, name, part, sums.length_s, row[-COMMON:], part.cpu_s * in_us))
    flat = Prior(np.zeros(len(components)), np.full(len(components), _ANY_US))
    of_executors = executors.moments(_EXECUTORS_NOISE, _joined(flat, priors.executors))
    each = of_executors.rows / max(len(by_stream), 1)
    return TopologyRows(
        placement=_placement(windows[-1]),
        components=tuple(components),
        messaging=messaging.moments(_MESSAGING_NOISE, priors.messaging),
        others=others.moments(_OTHERS_NOISE, priors.others),
        executors=of_executors,
        rate_tps=CostRange(min(rates), max(rates)),
        message_bytes=sum(sum(sums.sent_bytes.values()) for sums in everyone),
        messages=sum(sum(sums.sent.values()) for sums in everyone),
        by_input=by_input(by_stream, _EXECUTORS_NOISE, priors.executors, each),
    )


class _ModelRows:
    """Rows of one model."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._x: list[np.ndarray] = []
        self._y: list[float] = []
        self._cluster: list[str] = []
        self._free: list[float] = []

    def add(self, cluster: object, x: np.ndarray, y: float, free: float = 0.0) -> None:
        self._x.append(x)
        self._y.append(y)
        self._cluster.append(str(cluster))
        self._free.append(free)

    def moments(self, noise: tuple[float, float], prior: Prior, level: Sequence[float] | None = None) -> Moments:
        if not self._y:
            return Moments.none(self._size)
        y = np.array(self._y)
        share = noise[1] + _NOISE_WHEN_FREE * np.array(self._free) ** 2
        assumed = noise[0] + share * np.abs(y if level is None else np.array(level))
        return Moments.of(np.array(self._x), y, assumed, np.array(self._cluster), prior)


def _messages(sums: WorkerSums, size: Mapping[str, float]) -> np.ndarray:
    """Return tuples and kB that a worker sent, then that it received."""
    received = {name: max(part.received - part.local, 0.0) for name, part in sums.parts.items() if name in size}
    kilobytes = sum(tuples * size[name] for name, tuples in received.items()) / 1e3
    return np.array([sum(sums.sent.values()), sum(sums.sent_bytes.values()) / 1e3, sum(received.values()), kilobytes])


def _free(sums: WorkerSums) -> float:
    """Return the fraction of time in which a worker's executors did not wait for a core."""
    covered_s = sum(part.covered_s for part in sums.parts.values())
    waited_s = sum(part.waited_s for part in sums.parts.values())
    return max(1.0 - waited_s / covered_s, 0.0) if covered_s > 0 else 1.0


def _working(sums: WorkerSums) -> list[str]:
    """Return the components whose executors do work in a worker; Storm's system components do next to none."""
    return [
        name
        for name, part in sums.parts.items()
        if part.covered_s > 0 and (not name.startswith("__") or name.startswith(_ACKER))
    ]


def _added_up(workers: Iterable[WorkerSums], name: str) -> dict[str, float]:
    """Return the sum over workers, by component."""
    found: dict[str, float] = defaultdict(float)
    for sums in workers:
        for component, amount in getattr(sums, name).items():
            found[component] += amount
    return found


def _joined(one: Prior, other: Prior) -> Prior:
    return Prior(np.concatenate([one.mean, other.mean]), np.concatenate([one.deviation, other.deviation]))


def _placement(workers: Mapping[WorkerId, WorkerSums]) -> str:
    slots = sorted((life.supervisor, life.port, *run) for life, sums in workers.items() for run in sums.slots)
    return hashlib.sha256(repr(slots).encode()).hexdigest()[:16]


def _of_links(windows: Sequence[Window], usable: Sequence[Mapping[WorkerId, WorkerSums]], prior: Prior) -> Moments:
    """Return the moments of link traffic, of nodes where it is complete: one worker per topology, all usable."""
    found, level = _ModelRows(2), []
    for window, right in zip(windows, usable, strict=True):
        sizes = _sizes(window)
        of_node: dict[str, list[WorkerId]] = defaultdict(list)
        for life in window.workers:
            of_node[life.supervisor].append(life)
        for node, lives in of_node.items():
            if len({life.topology for life in lives}) < len(lives) or not all(life in right for life in lives):
                continue
            each = [_messages(right[life], sizes[life.topology]) / right[life].length_s for life in lives]
            over = np.sum(each, axis=0)
            for counter, (tuples, kilobytes) in (("node_sent_bytes", over[:2]), ("node_received_bytes", over[2:])):
                measured = [(getattr(right[life], counter), right[life].length_s) for life in lives]
                rates = [amount / length_s for amount, length_s in measured if amount is not None]
                if rates:
                    level.append(float(np.mean(rates)))
                    found.add((node, counter), np.array([tuples, 1.0]), level[-1] - 1e3 * kilobytes)
    return found.moments(_WIRE_NOISE, prior, level)


def _sizes(window: Window) -> dict[str, dict[str, float]]:
    """Return the bytes of a message by topology and target component."""
    by_topology: dict[str, list[WorkerSums]] = defaultdict(list)
    for life, sums in window.workers.items():
        by_topology[life.topology].append(sums)
    return {topology: _size(workers) for topology, workers in by_topology.items()}


def _size(workers: Sequence[WorkerSums]) -> dict[str, float]:
    tuples, amounts = (_added_up(workers, name) for name in ("sent", "sent_bytes"))
    return {name: amounts[name] / count for name, count in tuples.items() if count > 0}


def _utilisation(windows: Sequence[Window]) -> CostRange | None:
    used: dict[tuple[int, str], float] = defaultdict(float)
    cores: dict[tuple[int, str], float] = {}
    for window in windows:
        for life, sums in window.workers.items():
            used[window.start_ms, life.supervisor] += sums.process_s / sums.length_s
            if sums.cores:
                cores[window.start_ms, life.supervisor] = sums.cores
    parts = [used[key] / cores[key] for key in cores]
    return CostRange(min(parts), max(parts)) if parts else None
