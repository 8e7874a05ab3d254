"""What messages, workers and idle threads cost, and what a quota comes to, as the source of a prediction tells it.

Nothing that is predicted is looked at.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.optimize import nnls
from stormwright_lab.evaluations.lab.steady import idle_ns

from benchmarks.cells.chosen import TOPOLOGIES
from benchmarks.cells.measured import Measured, Record, Stretch
from stormwright.predict.costs import Costs

#: What is likely before anything is known of a cluster.
BEFORE = Costs(
    serialise_us=0.5,
    serialise_us_per_kb=3.0,
    send_us=1.0,
    receive_us=1.9,
    worker_cores=0.02,
    overhead_bytes=32.9,
)
_SPIN = 0.015

#: How far that may be wrong, in parts; and what is noise in the CPU of an executor, in cores and in parts.
_UNSURE, _NOISE = 0.5, (0.003, 0.05)

#: A node that had to wait in so many of its periods has used all that it can have.
_ALL_PERIODS = 0.9

#: Costs that are higher where messages come one by one and CPU is left over.
_ELASTIC = ("send_us", "send_us_per_kb", "receive_us", "receive_us_per_kb", "worker_cores", "overhead_bytes")

_ACKER, _SYSTEM = "__acker", "__"


@dataclass(frozen=True)
class Fitted:
    """Costs; CPU of idle threads in parts of the time for which they want none, and cores of it in `worker_cores`."""

    costs: Costs
    spin: float
    polled: float = 0.0


def fitting(starts: Sequence[Measured]) -> Callable[[Measured, Stretch], Fitted]:
    """What fits costs: to the source, and where that has CPU to spare everywhere, to the topology for calibration."""
    calibration = [start for start in starts if start.start.topology not in TOPOLOGIES]

    def fit(source: Measured, at: Stretch) -> Fitted:
        own = fitted(source, at)
        if is_full(at) or not calibration:
            return own
        of = [fitted(start, start.at(at.limit)) for start in calibration]
        means = {name: float(np.mean([getattr(each.costs, name) for each in of])) for name in _ELASTIC}
        polled = float(np.mean([each.polled for each in of]))
        return replace(own, costs=replace(own.costs, **means), polled=polled)

    return fit


def fitted(source: Measured, at: Stretch) -> Fitted:
    """Costs of messages and workers as under the limit of one stretch; of serialising and idling, under all limits."""
    at_most = [stretch for stretch in source.stretches if not stretch.asked_tps]
    serialise_us, spin = _of_executors(at_most)
    factor, polled = _messaging(at), polled_cores(at, spin)
    costs = replace(
        BEFORE,
        serialise_us=serialise_us,
        serialise_us_per_kb=0.0,
        worker_cores=_of_workers(at) + polled,
        overhead_bytes=_on_wire(at),
        quota_period_ms=at.quota_period_ms,
        machine_cores=at.machine_cores,
        polling_share=spin,
        **{name: getattr(BEFORE, name) * factor for name in _ELASTIC[:4]},
    )
    return Fitted(costs, spin, polled)


def at_speed(known: Fitted, slower: float) -> Fitted:
    """The same on a machine that takes so many times as long over everything."""
    names = (
        "serialise_us",
        "send_us",
        "send_us_per_kb",
        "receive_us",
        "receive_us_per_kb",
        "worker_cores",
    )
    costs = replace(known.costs, **{n: getattr(known.costs, n) * slower for n in names})
    return Fitted(costs, known.spin * slower, known.polled * slower)


def is_full(stretch: Stretch) -> bool:
    """Whether a node had no CPU to spare."""
    return any(node["throttled_share"] >= _ALL_PERIODS for node in stretch.nodes.values())


def usable_cores(stretch: Stretch) -> float:
    """What nodes that used up their quota came to: less than it says, for the kernel deals it out in pieces."""
    full = [node["cores"] for node in stretch.nodes.values() if node["throttled_share"] >= _ALL_PERIODS]
    return max(full, default=stretch.limit.cores)


class _Work(NamedTuple):
    """Of an executor, in a second: CPU (s), what it handled, what it sent to other workers, and idle time (s)."""

    component: str
    cpu: float
    handled: float
    left: float
    idle: float


def _of_executors(stretches: Sequence[Stretch]) -> tuple[float, float]:
    """µs to serialise a tuple that leaves its worker, and the CPU of idle time; the rest follows what is handled."""
    work = [each for stretch in stretches for each in _work(stretch.records)]
    size_kb = _size(record for stretch in stretches for record in stretch.records) / 1e3
    likely = BEFORE.serialise_us + BEFORE.serialise_us_per_kb * size_kb
    components = sorted({each.component for each in work})
    rows = np.zeros((len(work) + 2, len(components) + 2))
    cpu = np.zeros(len(rows))
    for row, each in enumerate(work):
        noise = _NOISE[0] + _NOISE[1] * each.cpu
        rows[row, components.index(each.component)] = 1e-6 * each.handled / noise
        rows[row, -2:] = 1e-6 * each.left / noise, each.idle / noise
        cpu[row] = each.cpu / noise
    for column, value in ((-2, likely), (-1, _SPIN)):
        rows[len(work) - 1 - column, column], cpu[len(work) - 1 - column] = 1 / (_UNSURE * value), 1 / _UNSURE
    found, _ = nnls(rows, cpu)
    return float(found[-2]), float(found[-1])


def polled_cores(stretch: Stretch, spin: float) -> float:
    """What idle executors of a worker take, on nodes without CPU to spare where there are such, in cores.

    However many executors there are, they look for tuples only while their node may run.
    """
    records = _where_full(stretch)
    idle = sum(
        idle_ns(each, record["length_ns"])
        for record in records
        for each in record["executors"]
        if each["component"] == _ACKER or not each["component"].startswith(_SYSTEM)
    )
    return spin * idle / sum(record["length_ns"] for record in records)


def _work(records: Iterable[Record]) -> list[_Work]:
    covered: dict[tuple[str, int], Counter[str]] = defaultdict(Counter)
    for record in records:
        left = _left(record)
        for each in record["executors"]:
            name = each["component"]
            if name.startswith(_SYSTEM) and name != _ACKER:
                continue
            sums, length = covered[name, each["first_task"]], record["length_ns"]
            sums["length"] += length
            sums["cpu"] += each["cpu_ns"]
            sums["handled"] += each["trees"] if each["type"] == "spout" else each["received"]
            sums["left"] += sum(left[task] for task in range(each["first_task"], each["last_task"] + 1))
            sums["idle"] += idle_ns(each, length)
    return [
        _Work(
            name,
            *(
                sums[of] / sums["length"] * per
                for of, per in (("cpu", 1), ("handled", 1e9), ("left", 1e9), ("idle", 1))
            ),
        )
        for (name, _), sums in covered.items()
    ]


def _left(record: Record) -> Counter[int]:
    """Tuples that left the worker, by the task that sent them."""
    own = {t for each in record["executors"] for t in range(each["first_task"], each["last_task"] + 1)}
    left: Counter[int] = Counter()
    for source, target, _, tuples, _ in record["pairs"]:
        if target > 0 and target not in own:
            left[source] += tuples
    return left


def _size(records: Iterable[Record]) -> float:
    """Mean bytes of a tuple that leaves its worker."""
    size, sampled = 0.0, 0.0
    for record in records:
        own = {t for each in record["executors"] for t in range(each["first_task"], each["last_task"] + 1)}
        for _, target, _, tuples, payload in record["pairs"]:
            if payload and target > 0 and target not in own:
                size, sampled = size + payload, sampled + tuples
    return size / sampled if sampled else 0.0


def _on_wire(stretch: Stretch) -> float:
    """Bytes that a message between nodes adds to its tuple: more where messages come one by one."""
    sent = stretch.sent_tps()
    messages = sum(sent.values())
    if not messages:
        return BEFORE.overhead_bytes
    node_of = _nodes_of_tasks(stretch)
    size, sampled = 0.0, 0.0
    for record in stretch.records:
        for _, target, _, tuples, payload in record["pairs"]:
            if payload and node_of.get(target) not in (None, record["worker"]["supervisor"]):
                size, sampled = size + payload, sampled + tuples
    bytes_per_s = sum(node["sent_bytes_per_s"] for node in stretch.nodes.values())
    return max(bytes_per_s / messages - size / sampled, 0.0)


def _nodes_of_tasks(stretch: Stretch) -> dict[int, str]:
    return {
        task: record["worker"]["supervisor"]
        for record in stretch.records
        for each in record["executors"]
        for task in range(each["first_task"], each["last_task"] + 1)
    }


def _messaging(stretch: Stretch) -> float:
    """CPU of messaging threads in parts of what is likely, on nodes without CPU to spare where there are such.

    Elsewhere messages come one by one and cost more, but only CPU that nobody else wants.
    """
    likely, used = _likely_us(stretch), Counter[str]()
    for record in _where_full(stretch):
        used[record["worker"]["supervisor"]] += record["threads"]["messaging_ns"] / 1e3
    by_costs = sum(likely[node] for node in used)
    return sum(used.values()) / by_costs if by_costs else 1.0


def _likely_us(stretch: Stretch) -> Counter[str]:
    """CPU of messaging threads by the likely costs, by supervisor."""
    node_of = _nodes_of_tasks(stretch)
    kb, likely = _size(stretch.records) / 1e3, Counter[str]()
    for record in stretch.records:
        own = {t for each in record["executors"] for t in range(each["first_task"], each["last_task"] + 1)}
        for _, target, _, tuples, _ in record["pairs"]:
            if target in node_of and target not in own:
                likely[record["worker"]["supervisor"]] += tuples * (BEFORE.send_us + kb * BEFORE.send_us_per_kb)
                likely[node_of[target]] += tuples * (BEFORE.receive_us + kb * BEFORE.receive_us_per_kb)
    return likely


def _of_workers(stretch: Stretch) -> float:
    """Cores that a worker takes by being there, with its part of what its node's supervisor takes."""
    records = _where_full(stretch)
    covered_s = sum(record["length_ns"] for record in records) / 1e9
    there_s = sum(r["threads"][name] for r in records for name in ("gc_ns", "compiler_ns", "other_ns")) / 1e9
    length_s = sum(record["length_ns"] for record in stretch.records) / 1e9
    workers = {(r["worker"]["supervisor"], r["worker"]["port"]) for r in stretch.records}
    in_workers = sum(record["process_cpu_ns"] for record in stretch.records) / 1e9 / length_s * len(workers)
    used = sum(node["cores"] for node in stretch.nodes.values())
    return there_s / covered_s + max(used - in_workers, 0.0) / len(stretch.nodes)


def _where_full(stretch: Stretch) -> list[Record]:
    """Records of workers on nodes without CPU to spare; all where there are none."""
    full = [r for r in stretch.records if stretch.nodes[r["worker"]["host"]]["throttled_share"] >= _ALL_PERIODS]
    return full or list(stretch.records)
