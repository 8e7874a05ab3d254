"""A small cluster with known loads and traffic, and the performance log that it writes.

Counts follow from rates by whole numbers (what has come up to the end of an interval, minus what had come up to its
start), so any stretch of records gives a rate back to within one tuple or nanosecond.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from stormwright.model import Component, ExecutorRun, Grouping, Problem, Supervisor, Topology, TopologyAssignment
from stormwright.model.cluster import WorkerSlot
from stormwright.perflog import Landing
from stormwright.perflog.columns import RecordLanding, landed_table
from stormwright.perflog.records import (
    CLOCK_AHEAD,
    CPU_IMPOSSIBLE,
    NOT_A_RECORD,
    STREAM_UNKNOWN,
    TASKS_REVERSED,
    missing,
)
from stormwright.perflog.schema import LATENCY_EDGES_MS, sample_record
from tests.perflog.samples import edited
from tests.pipeline.oracle import Expected, ExpectedWork, Line

Record = dict[str, Any]

CORE_HZ = 2e9
STREAMS = [
    ["sentences", "default", "split", "shuffle"],
    ["split", "default", "count", "fields"],
    ["split", "__ack_ack", "__acker", "fields"],
    ["count", "default", "report", "local_or_shuffle"],
]
#: Size of a tuple of each of them.
TUPLE_BYTES = (120, 40, 24, 56)


@dataclass
class World:
    """What the generator put in: rates by task, CPU in cores by first task of an executor."""

    problem: Problem
    cpu_cores: dict[tuple[str, int], float] = field(default_factory=dict)
    pair_tps: dict[tuple[str, int, int, int], float] = field(default_factory=dict)
    service_s: dict[tuple[str, int], float] = field(default_factory=dict)
    overhead_cores: float = 0.3
    #: Cores that others than workers use on a node whose control group is reported, and those that it allows.
    node_overhead_cores: dict[str, float] = field(default_factory=lambda: {"sup-1": 0.25})
    quota_cores: dict[str, float] = field(default_factory=lambda: {"sup-1": 4.5})


def dice(seed: int) -> random.Random:
    """The chance in a test, the same every time."""
    return random.Random(seed)  # noqa: S311 - nothing to keep secret


def make_world(seed: int) -> World:
    """Two topologies on three nodes, with skewed fields groupings and executors of one and of two tasks."""
    rng = dice(seed)
    # One node always over its capacity, one about at it, one never.
    supervisors = tuple(
        Supervisor(f"sup-{n}", f"10.0.0.{n}", (6700, 6701, 6702), cpu_hz=cores * CORE_HZ)
        for n, cores in enumerate((1, 5, 100))
    )
    topologies = tuple(_topology(f"words-{number}", rng) for number in (1, 2))
    current = {}
    for number, topology in enumerate(topologies):
        port = 6700 + number
        slots = tuple(WorkerSlot(node.id, port) for node in supervisors)
        slot_of_executor = [executor % len(slots) for executor in range(topology.num_executors)]
        rng.shuffle(slot_of_executor)
        current[topology.id] = TopologyAssignment(slots, tuple(slot_of_executor))
    world = World(Problem(supervisors, topologies, current=current, core_hz=CORE_HZ))
    for topology in topologies:
        _fill(world, topology, rng)
    return world


def _topology(name: str, rng: random.Random) -> Topology:
    components = (
        Component("__acker", "system", 2, (Grouping("split", "__ack_ack", "fields"),)),
        Component("count", "bolt", rng.randint(2, 4), (Grouping("split", "default", "fields", ("word",)),)),
        Component("report", "bolt", 2, (Grouping("count", "default", "local_or_shuffle"),)),
        Component("sentences", "spout", 2),
        Component("split", "bolt", 3, (Grouping("sentences", "default", "shuffle"),)),
    )
    runs, next_task = [], 1
    for index, component in enumerate(components):
        tasks = 2 if component.id == "split" else 1
        runs.append(ExecutorRun(index, next_task, component.parallelism, tasks))
        next_task += component.parallelism * tasks
    return Topology(name, name, 3, components, tuple(runs))


def tasks_of(topology: Topology, component: str) -> list[int]:
    """Task ids of a component."""
    index = topology.component_index[component]
    return [
        task
        for run in topology.executor_runs
        if run.component == index
        for task in range(run.start_task, run.start_task + run.count * run.tasks_per_executor)
    ]


def _fill(world: World, topology: Topology, rng: random.Random) -> None:
    for first in topology.executor_start_task.tolist():
        world.cpu_cores[topology.id, first] = rng.uniform(0.05, 0.9)
    for index, (source, _, target, _) in enumerate(STREAMS):
        targets = tasks_of(topology, target)
        for task in tasks_of(topology, source):
            rate = rng.uniform(500, 3000)
            # As words are: the target of rank r gets a share of about 1/r.
            weights = [1 / rank for rank in range(1, len(targets) + 1)]
            for receiver, weight in zip(targets, weights, strict=True):
                world.pair_tps[topology.id, task, receiver, index] = rate * weight / sum(weights)
    for first in topology.executor_start_task.tolist():
        world.service_s[topology.id, first] = rng.uniform(1e-5, 1e-3)


def world_cores(world: World) -> dict[str, float]:
    """Cores that the workers of each node use."""
    cores = dict.fromkeys((node.id for node in world.problem.supervisors), 0.0)
    for topology in world.problem.topologies:
        placement = world.problem.current[topology.id]
        for executor, slot in enumerate(placement.slot_of_executor):
            first = int(topology.executor_start_task[executor])
            cores[placement.slots[slot].supervisor] += world.cpu_cores[topology.id, first]
        for slot in placement.slots:
            cores[slot.supervisor] += world.overhead_cores
    return cores


def known_profile(world: World) -> Expected:
    """What was put in, in the shape in which profiles are compared."""
    known = Expected()
    cores = world_cores(world)
    for topology in world.problem.topologies:
        starts = topology.executor_start_task.tolist()
        own_cores = [world.cpu_cores[topology.id, first] for first in starts]
        known.cpu_hz[topology.id] = {executor: used * CORE_HZ for executor, used in enumerate(own_cores)}
        pairs: dict[tuple[int, int], float] = defaultdict(float)
        flows: dict[tuple[int, str, str], float] = defaultdict(float)
        pair_bytes: dict[tuple[int, int], float] = defaultdict(float)
        flow_bytes: dict[tuple[int, str, str], float] = defaultdict(float)
        for (name, source, target, stream), tps in world.pair_tps.items():
            _, _, component, grouping = STREAMS[stream]
            if name == topology.id and grouping == "fields":
                pairs[_executor(topology, source), _executor(topology, target)] += tps
                pair_bytes[_executor(topology, source), _executor(topology, target)] += tps * TUPLE_BYTES[stream]
            elif name == topology.id:
                flows[_executor(topology, source), component, grouping] += tps
                flow_bytes[_executor(topology, source), component, grouping] += tps * TUPLE_BYTES[stream]
        known.pairs[topology.id], known.flows[topology.id] = dict(pairs), dict(flows)
        known.pair_bytes[topology.id], known.flow_bytes[topology.id] = dict(pair_bytes), dict(flow_bytes)
    overhead = world.node_overhead_cores
    known.node_cpu_hz = {node: (used + overhead.get(node, 0.0)) * CORE_HZ for node, used in cores.items()}
    known.node_overhead_hz = {node: used * CORE_HZ for node, used in overhead.items()}
    known.node_quota_hz = {node: cores * CORE_HZ for node, cores in world.quota_cores.items()}
    return known


def known_work(world: World, topology: Topology) -> ExpectedWork:
    """What was put in of how executors work and where they send."""
    received: dict[int, float] = defaultdict(float)
    sent: dict[tuple[str, str, str, str], dict[int, float]] = defaultdict(lambda: defaultdict(float))
    for (name, _, target, stream), tps in world.pair_tps.items():
        if name == topology.id:
            received[target] += tps
            sent[tuple(STREAMS[stream])][target] += tps
    known = ExpectedWork()
    for executor, first in enumerate(topology.executor_start_task.tolist()):
        tasks = range(first, int(topology.executor_end_task[executor]) + 1)
        if any(received[task] for task in tasks):
            known.service_s[first] = world.service_s[topology.id, first]
    for key, by_task in sent.items():
        total = sum(by_task.values())
        source_received = sum(received[task] for task in tasks_of(topology, key[0]))
        known.sent_tps[key] = total
        known.bytes_per_s[key] = total * TUPLE_BYTES[STREAMS.index(list(key))]
        if source_received:
            known.selectivity[key] = total / source_received
        if key[3] == "fields":
            known.shares[key] = {task: tps / total for task, tps in by_task.items()}
    return known


def _executor(topology: Topology, task: int) -> int:
    return int(np.flatnonzero((topology.executor_start_task <= task) & (task <= topology.executor_end_task))[0])


def records(world: World, start_ms: int, seconds: float, rng: random.Random) -> list[Record]:
    """All records of all workers over a time, in the order in which they were written."""
    written = []
    for topology in world.problem.topologies:
        placement = world.problem.current[topology.id]
        for number, slot in enumerate(placement.slots):
            members = [e for e, s in enumerate(placement.slot_of_executor) if s == number]
            written += _worker_records(world, topology, slot, members, start_ms, seconds, rng)
    return sorted(written, key=lambda record: record["written_ms"])


def _worker_records(
    world: World,
    topology: Topology,
    slot: WorkerSlot,
    members: list[int],
    start_ms: int,
    seconds: float,
    rng: random.Random,
) -> list[Record]:
    written: list[Record] = []
    clock_ns = rng.randrange(1_000_000_000)
    worker = {
        "topology": topology.id, "supervisor": slot.supervisor, "host": f"host-of-{slot.supervisor}",
        "port": slot.port, "pid": rng.randrange(1000, 30000), "start_ms": start_ms - 60_000, "last": 0,
        "connections": dice(slot.port).randrange(10),
        "configuration": f"{dice(slot.port).getrandbits(64):016x}",
    }  # fmt: skip
    while clock_ns < seconds * 1e9:
        # Whole milliseconds: the start of an interval is told no finer.
        length_ns = rng.randrange(900, 1101) * 1_000_000
        start = clock_ns // 1_000_000 * 1_000_000
        written.append(_record(world, topology, members, worker, len(written), start_ms, start, start + length_ns, rng))
        clock_ns = start + length_ns
    return written


def _record(
    world: World,
    topology: Topology,
    members: list[int],
    worker: dict[str, Any],
    seq: int,
    origin_ms: int,
    start_ns: int,
    end_ns: int,
    rng: random.Random,
) -> Record:
    def during(per_second: float) -> int:
        return int(per_second * end_ns / 1e9) - int(per_second * start_ns / 1e9)

    executors, pairs = [], []
    # Apart from the other's, so that these stay as they were.
    chance = dice(seq)
    for member in members:
        first, last = int(topology.executor_start_task[member]), int(topology.executor_end_task[member])
        component = topology.components[topology.executor_component[member]]
        sent = [
            [task, target, stream, during(tps), during(tps) * TUPLE_BYTES[stream] * (rng.random() < 0.5)]
            for (name, task, target, stream), tps in world.pair_tps.items()
            if name == topology.id and first <= task <= last
        ]
        pairs += sent
        received_tps = sum(
            tps
            for (name, _, target, _), tps in world.pair_tps.items()
            if name == topology.id and first <= target <= last
        )
        trees = sum(pair[3] for pair in sent) if component.type == "spout" else 0
        executors.append(
            {
                "component": component.id, "type": component.type, "first_task": first, "last_task": last,
                "cpu_ns": during(world.cpu_cores[topology.id, first] * 1e9), "received": during(received_tps),
                "emitted": sum(pair[3] for pair in sent), "trees": trees, "acked": trees * 9 // 10,
                "failed": trees // 10, "queue": rng.choice([None, rng.random()]),
                "execute_ns": during(received_tps * world.service_s[topology.id, first] * 1e9),
                "pending": rng.choice([None, rng.randrange(9)]),
                **_sometimes(chance, {"waited_ns": chance.randrange(10**9)}),
                **_sometimes(chance, {"runs": chance.randrange(10**5)}),
                **_sometimes(chance, {"inputs": [[0, chance.randrange(10**3), chance.randrange(10**9)]]}),
            }
        )  # fmt: skip
    counts = [0] * 20 + [rng.randrange(50) for _ in range(10)]
    return sample_record() | {
        "worker": worker,
        "seq": seq,
        "start_ms": origin_ms + start_ns // 1_000_000,
        "length_ns": end_ns - start_ns,
        "written_ms": origin_ms + end_ns // 1_000_000 + rng.randrange(5),
        "process_cpu_ns": sum(e["cpu_ns"] for e in executors) + during(world.overhead_cores * 1e9),
        "heap_bytes": rng.randrange(10**9),
        "heap_limit_bytes": chance.randrange(10**9),
        "executors": executors,
        "streams": STREAMS,
        "pairs": pairs,
        "complete_latency": {"edges_ms": list(LATENCY_EDGES_MS), "counts": counts},
        **_with_group(_sometimes(chance, _machine(chance)), world, worker["supervisor"], during),
        **_sometimes(dice(seq), {"backlog": seq}),
    }


def _sometimes(rng: random.Random, fields: Record) -> Record:
    """As where a system does not report it; or as where it does."""
    return rng.choice([dict.fromkeys(fields), fields])


def _with_group(machine: Record, world: World, supervisor: str, during: Callable[[float], int]) -> Record:
    """As where a node has a control group, which counts all of its processes."""
    if supervisor not in world.quota_cores:
        return machine
    used = world_cores(world)[supervisor] + world.node_overhead_cores[supervisor]
    group = {"millicores": round(world.quota_cores[supervisor] * 1000), "used_ns": during(used * 1e9)}
    return machine | {"node": {**(machine["node"] or _machine(dice(0))["node"]), **group}}


def _machine(rng: random.Random) -> Record:
    names = {
        "threads": ("messaging_ns", "gc_ns", "compiler_ns", "other_ns"),
        "gc": ("collections", "ms"),
        "node": (
            *("received_bytes", "sent_bytes", "millicores", "throttled_ns"),
            *("core_hz", "quota_period_us", "processors"),
            *("standbys", "standby_bytes", "standby_millicores"),
        ),
    }
    found: Record = {part: {name: rng.randrange(10**9) for name in of} for part, of in names.items()}
    found["node"][rng.choice(names["node"])] = None
    found["node"]["used_ns"] = None
    return found


@dataclass
class Delivery:
    """Lines as they arrive, and what must become of them where none is late."""

    arriving: list[Line] = field(default_factory=list)
    used: list[Record] = field(default_factory=list)
    duplicate: int = 0
    reasons: list[str] = field(default_factory=list)

    @property
    def lines(self) -> list[bytes]:
        """The lines themselves."""
        return [line.body for line in self.arriving]

    def in_files(self, per_file: int) -> list[list[Line]]:
        """The lines as files that land one after the other."""
        return [self.arriving[begin : begin + per_file] for begin in range(0, len(self.arriving), per_file)]


def deliver(
    written: Iterable[Record], rng: random.Random, spoil: float = 0.05, shuffle_over: int = 12, held: float = 0
) -> Delivery:
    """Of all records let a share arrive spoilt and a share twice, and all of them somewhat out of order.

    A share is held back until some hundreds of others have arrived.
    """
    delivery = Delivery()
    moved: list[tuple[float, int, Line]] = []

    def send(place: float, line: Line) -> None:
        moved.append((place, len(moved), line))

    for place, record in enumerate(written):
        at = place + rng.uniform(0, shuffle_over)
        if rng.random() < held:
            at += rng.uniform(200, 300)
        if rng.random() < spoil:
            body, reason = rng.choice(SPOILERS)(record)
            delivery.reasons.append(reason)
            send(at, Line(body, record["written_ms"], reason=reason))
            continue
        delivery.used.append(record)
        line = Line(encoded(record), record["written_ms"], record)
        send(at, line)
        if rng.random() < spoil:
            delivery.duplicate += 1
            send(at + rng.uniform(0, 3 * shuffle_over) + (rng.uniform(200, 300) if rng.random() < held else 0), line)
    now_ms = 0
    for _, _, line in sorted(moved, key=lambda sent: sent[:2]):
        now_ms = max(now_ms, line.arrived_ms)
        delivery.arriving.append(replace(line, arrived_ms=now_ms))
    return delivery


def land(
    directory: Path, bodies: Iterable[bytes], landed_ms: int | None = None, *, columns_late_s: float | None = None
) -> Path:
    """Let a file appear in a directory as if it had landed at a moment; with a limit of lateness one of columns."""
    aside = directory.with_name(f"{directory.name}-aside")
    if columns_late_s is None:
        path = Landing(aside).write(bodies)
    else:
        now_ms = time.time_ns() // 10**6 if landed_ms is None else landed_ms
        path = RecordLanding(aside).write(landed_table(bodies, now_ms, columns_late_s))
    assert path is not None
    if landed_ms is not None:
        os.utime(path, ns=(landed_ms * 10**6, landed_ms * 10**6))
    directory.mkdir(exist_ok=True)
    return path.rename(directory / path.name)


def land_files(directory: Path, files: list[list[Line]]) -> dict[str, tuple[int, list[Line]]]:
    """Let files land one after the other, each with its last line; by name what landed when."""
    landed = {}
    for file in files:
        landed_ms = file[-1].arrived_ms
        landed[land(directory, (line.body for line in file), landed_ms).name] = (landed_ms, file)
    return landed


def encoded(record: Record) -> bytes:
    """A record as one line, by another JSON writer than the package's."""
    return json.dumps(record).encode()


def _edited(path: str, value: object, reason: str) -> Any:
    """A spoiler that sets one part of a record; ``...`` removes it."""

    def spoil(record: Record) -> tuple[bytes, str]:
        return encoded(edited(record, path, value)), reason

    return spoil


SPOILERS = [
    lambda record: (encoded(record)[:-7], NOT_A_RECORD),
    lambda record: (b"GET / HTTP/1.1", NOT_A_RECORD),
    lambda record: (b"42", NOT_A_RECORD),
    lambda record: (b'"text"', NOT_A_RECORD),
    lambda record: (b"{}", missing("version")),
    _edited("version", 2, missing("version")),
    _edited("version", "1", NOT_A_RECORD),
    _edited("worker", None, missing("worker")),
    _edited("worker.port", 70000, missing("worker")),
    _edited("worker.supervisor", ..., missing("worker")),
    _edited("seq", -1, missing("seq")),
    _edited("seq", 1.5, NOT_A_RECORD),
    _edited("start_ms", ..., missing("start_ms")),
    _edited("start_ms", 2**51, CLOCK_AHEAD),
    _edited("start_ms", 2**62, missing("start_ms")),
    _edited("start_ms", -(2**63), missing("start_ms")),
    _edited("length_ns", 0, missing("length_ns")),
    _edited("length_ns", 2**70, NOT_A_RECORD),
    _edited("process_cpu_ns", 2**62, missing("process_cpu_ns")),
    _edited("executors", {}, NOT_A_RECORD),
    _edited("executors.0", None, missing("executors")),
    _edited("executors.0.component", None, missing("executors")),
    _edited("executors.0.emitted", ..., missing("executors")),
    _edited("executors.0.queue", 1.5, missing("executors")),
    _edited("executors.0.first_task", 999, TASKS_REVERSED),
    _edited("executors.0.cpu_ns", 10**12, CPU_IMPOSSIBLE),
    _edited("streams.0", ["a", "b"], missing("streams")),
    _edited("pairs", [[1, 2, 99, 4, 0]], STREAM_UNKNOWN),
    _edited("pairs", [[1, 2, 0, 4]], missing("pairs")),
    _edited("pairs", [[1, 2, 0, -4, 0]], missing("pairs")),
    _edited("pairs", [[1, 2, None, 4, 0]], missing("pairs")),
    _edited("pairs", [None], missing("pairs")),
    _edited("executors.0.waited_ns", -1, missing("executors")),
    _edited("executors.0.runs", -1, missing("executors")),
    _edited("executors.0.inputs", [[0, -1, 0]], missing("executors")),
    _edited("executors.0.inputs", [[0, 1]], missing("executors")),
    _edited("executors.0.inputs", [[0, 1, "2"]], NOT_A_RECORD),
    _edited("executors.0.waited_ns", 1.5, NOT_A_RECORD),
    _edited("executors.0.runs", "7", NOT_A_RECORD),
    _edited("threads", {}, missing("threads")),
    _edited("threads", {"messaging_ns": 1, "gc_ns": 1, "compiler_ns": 1, "other_ns": -1}, missing("threads")),
    _edited("threads", [], NOT_A_RECORD),
    _edited("gc", {"collections": 1}, missing("gc")),
    _edited("gc", {"collections": 1, "ms": "1"}, NOT_A_RECORD),
    _edited("node", {"sent_bytes": 10**16}, missing("node")),
    _edited("node", {"core_hz": 2.4e9}, NOT_A_RECORD),
    _edited("node", {"used_ns": -1}, missing("node")),
    _edited("complete_latency.edges_ms.3", 99, missing("complete_latency")),
    _edited("complete_latency.edges_ms", [1.0], missing("complete_latency")),
    _edited("complete_latency.counts", [1] * 70, missing("complete_latency")),
]
