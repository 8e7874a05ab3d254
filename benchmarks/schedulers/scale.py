"""How long schedulers take for a large cluster on one core, and how much memory; Storm's own beside ours.

    python -m benchmarks.schedulers.scale [--executors 100000] [--nodes 5000] [--pairs 1500000] [--shuffle]
                                         [--load 0.8] [--schedulers even,online,…] [--runs 3] [--seed 1]

The problem is made in memory: many topologies of the shapes of common benchmarks, of different sizes, with skewed
traffic. Each scheduler runs in a process of its own, which starts as a copy of this one, so that its peak memory is
that of the problem and the scheduler together. What is compiled when first called has been before, as in a service.
Of a Java scheduler the seconds are those in its method ``schedule``; CPU time and memory are its whole JVM's, to which
reading the problem and writing the answer belong.

Then come clusters with far too little room, where topologies are left out: limits broken are those of what is placed.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import os
import resource
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace

import numpy as np

from benchmarks.kit.results import write_results
from stormwright.model import (
    UNPLACED,
    Component,
    Grouping,
    LoadProfile,
    Problem,
    Supervisor,
    Topology,
    TopologyLoad,
    cost_of,
    default_executor_runs,
    violations,
)
from stormwright.model.arrays import IntArray
from stormwright.model.topology_config import MAX_EXECUTORS_PER_WORKER
from stormwright.schedulers import Scheduler, make_scheduler
from stormwright.schedulers.toolkit.resolve import is_java
from stormwright.storm.java_names import JAVA_PREFIX
from stormwright.storm.scheduler_host import JavaScheduler, SchedulerHost, host_command

#: Code that the page measures.
MEASURES = (
    "src/stormwright/schedulers/even.py",
    "src/stormwright/schedulers/online.py",
    "src/stormwright/schedulers/offline.py",
    "src/stormwright/schedulers/top_storm.py",
    "src/stormwright/schedulers/t_storm.py",
    "src/stormwright/schedulers/r_storm.py",
    "src/stormwright/schedulers/placement",
    "src/stormwright/schedulers/toolkit/limits.py",
    "src/stormwright/schedulers/toolkit/traffic.py",
)

#: What is asked for; others are compared only.
MAX_SECONDS, MAX_GB = {"even": 0.3, "online": 2, "top_storm": 5, "t_storm": 5, "r_storm": 5}, 1.5
JAVA = ("java:EvenScheduler", "java:ResourceAwareScheduler")

#: Where room is short: schedulers with their settings, and how long they may take, in seconds.
SHORT_OF_ROOM: dict[str, float | None] = {
    "optimizer time_budget_s=0.5": 2.5,
    "optimizer time_budget_s=2": 4,
    "online": None,
    "spread": None,
    "round_robin": None,
    "t_storm": None,
    "top_storm": None,
}

#: Nodes differ: cores, as many slots as cores, and the speed of a core.
CORES, CORE_HZ = (4, 8, 12, 16), (2.0e9, 2.4e9, 2.8e9, 3.2e9)
MEMORY_MB, NODES_A_RACK = 32768.0, 25
EXECUTORS_A_WORKER = 9
#: Spread of the topologies' sizes (σ of a log-normal distribution).
SPREAD = 0.35


@dataclass(frozen=True)
class Run:
    """What one call of a scheduler took, and its answer."""

    seconds: float
    cpu_s: float
    peak_gb: float
    unplaced: int
    faults: int
    nodes: int
    cost: float


@dataclass(frozen=True)
class Shape:
    """A topology's components, the first being spouts, and its streams as pairs of components with a grouping."""

    name: str
    parallelism: tuple[int, ...]
    streams: tuple[tuple[int, int, str], ...]

    def pairs(self) -> int:
        """Pairs of executors that exchange tuples."""
        return sum(self.parallelism[a] * self.parallelism[b] for a, b, _ in self.streams)


def _chain(*groupings: str) -> tuple[tuple[int, int, str], ...]:
    return tuple((i, i + 1, grouping) for i, grouping in enumerate(groupings))


SHAPES = (
    Shape("word-count", (5, 8, 12), _chain("shuffle", "fields")),
    Shape("exclamation", (10, 3, 2), _chain("shuffle", "shuffle")),
    Shape("rolling-top-words", (5, 4, 4, 1), _chain("fields", "fields", "global")),
    Shape("linear", (4, 6, 6, 6), _chain("shuffle", "shuffle", "shuffle")),
    Shape(
        "diamond",
        (2, 4, 4, 4, 4, 6),
        (*((0, b, "shuffle") for b in range(1, 5)), *((b, 5, "shuffle") for b in range(1, 5))),
    ),
    Shape("star", (2, 2, 6, 6, 6), ((0, 2, "shuffle"), (1, 2, "shuffle"), (2, 3, "shuffle"), (2, 4, "shuffle"))),
    Shape("page-load", (3, 3, 3, 3, 3, 3, 3), _chain("shuffle", "shuffle", "fields", "shuffle", "shuffle", "fields")),
    Shape(
        "processing",
        (2, 4, 4, 4, 4, 4, 4, 4),
        (*_chain("shuffle", "shuffle", "fields", "shuffle"), (0, 5, "shuffle"), (5, 6, "fields"), (6, 7, "shuffle")),
    ),
    Shape("streaming", (4, 4, 4, 4, 6, 3), _chain("shuffle", "shuffle", "shuffle", "shuffle", "fields")),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--executors", type=int, default=100_000)
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--pairs", type=int, default=1_500_000)
    parser.add_argument("--load", type=float, default=0.8, help="part of the cluster's CPU that executors use")
    parser.add_argument("--shuffle", action="store_true", help="shuffle streams as flows that follow the placement")
    parser.add_argument("--schedulers", default=",".join([*MAX_SECONDS, *JAVA]))
    parser.add_argument("--runs", type=int, default=3, help="of each of ours; the median counts")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--short-of-room", action=argparse.BooleanOptionalAction, default=True, help="also clusters with too little"
    )
    options = parser.parse_args()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    problem = make_problem(options)
    pairs = sum(len(load.pair_tps) for load in problem.loads)
    flows = sum(len(load.flow_tps) for load in problem.loads)
    size = f"{problem.num_executors} executors of {len(problem.topologies)} topologies, {options.nodes} nodes, "
    size += f"{pairs} pairs, {flows} flows; {_peak_gb():.2f} GB for the problem"
    print(size)
    small = make_problem(argparse.Namespace(**{**vars(options), "executors": 100, "nodes": 10, "pairs": 1000}))
    for name in options.schedulers.split(","):
        if not is_java(name):
            make_scheduler(name).schedule(small)
    rows, details = [], {}
    for name in options.schedulers.split(","):
        runs = [_apart(measure, problem, name) for _ in range(1 if is_java(name) else options.runs)]
        details[name] = [asdict(run) for run in runs]
        asked = f"≤ {MAX_SECONDS[name]} s, ≤ {MAX_GB} GB" if name in MAX_SECONDS else ""
        rows.append((name, asked, _told(runs)))
        print(*rows[-1], flush=True)
    if options.short_of_room:
        for label, crowded in _crowded(options):
            for name, most_s in SHORT_OF_ROOM.items():
                make_scheduler(*_settings(name)).schedule(small)
                runs = [_apart(measure, crowded, name) for _ in range(options.runs)]
                details[f"{label}: {name}"] = [asdict(run) for run in runs]
                rows.append((f"{label}: {name}", f"≤ {most_s} s" if most_s else "", _told(runs)))
                print(*rows[-1], flush=True)
    write_results("scheduler-scale", f"Schedulers on one core: {size}", rows, {"runs": details})


def measure(problem: Problem, name: str) -> Run:
    """What a scheduler takes, and what its answer is worth."""
    scheduler: Scheduler
    if is_java(name):
        with closing(SchedulerHost(host_command())) as host:
            scheduler = JavaScheduler(name.removeprefix(JAVA_PREFIX), host=host)
            placed = scheduler.schedule(problem)
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds, cpu_s, peak_gb = placed.seconds, used.ru_utime + used.ru_stime, used.ru_maxrss / 2**20
    else:
        scheduler = make_scheduler(*_settings(name))
        start, start_cpu = time.perf_counter(), time.process_time()
        placed = scheduler.schedule(problem)
        seconds, cpu_s, peak_gb = time.perf_counter() - start, time.process_time() - start_cpu, _peak_gb()
    slots = placed.slot_of_executor
    return Run(
        seconds=seconds,
        cpu_s=cpu_s,
        peak_gb=peak_gb,
        unplaced=int(np.count_nonzero(slots == UNPLACED)),
        faults=sum(fault.topology not in _left_out(problem, slots) for fault in violations(problem, slots)),
        nodes=len(np.unique(problem.slot_node[slots[slots != UNPLACED]])),
        cost=cost_of(problem, slots).total,
    )


def _settings(name: str) -> tuple[str, list[str]]:
    """A scheduler's name, and its settings as ``key=value``."""
    scheduler, *settings = name.split()
    return scheduler, settings


def _left_out(problem: Problem, slots: IntArray) -> set[str]:
    """Topologies of which nothing is placed."""
    return {
        topology.id
        for number, topology in enumerate(problem.topologies)
        if np.all(slots[problem.executors_of(number)] == UNPLACED)
    }


def _crowded(options: argparse.Namespace) -> Iterator[tuple[str, Problem]]:
    """Clusters with far too little room: for one of two executors on each node, and for half of all CPU."""
    sizes = {"executors": 2_600, "nodes": 2_000, "pairs": 13_000}
    problem = make_problem(argparse.Namespace(**{**vars(options), **sizes}))
    topologies = tuple(replace(each, num_workers=each.num_executors, conf={}) for each in problem.topologies)
    nodes = tuple(replace(node, ports=node.ports[:4], cpu_hz=1.5e9) for node in problem.supervisors)
    loads = {
        name: replace(load, cpu_hz=np.full(len(load.cpu_hz), 1e9), memory_mb=np.full(len(load.memory_mb), 128.0))
        for name, load in problem.load.topologies.items()
    }
    yield "room for 2,000 of 2,600 executors", Problem(nodes, topologies, load=LoadProfile(loads))
    sizes = {"executors": 10_000, "nodes": 500, "pairs": 150_000, "load": 2.0}
    yield "room for half of 10,000 executors", make_problem(argparse.Namespace(**{**vars(options), **sizes}))


def _apart(function: Callable[[Problem, str], Run], problem: Problem, name: str) -> Run:
    """Call `function` in a copy of this process."""
    with multiprocessing.get_context("fork").Pool(1) as pool:
        return pool.apply(function, (problem, name))


def _told(runs: Sequence[Run]) -> str:
    run = sorted(runs, key=lambda run: run.seconds)[len(runs) // 2]
    return (
        f"{run.seconds:.2f} s ({run.cpu_s:.2f} CPU s), {run.peak_gb:.2f} GB, {run.unplaced} unplaced, "
        f"{run.faults} limits broken, {run.nodes} nodes, cost {run.cost:,.0f}"
    )


def make_problem(options: argparse.Namespace) -> Problem:
    """A problem of about so many executors and pairs; with `shuffle` part of the pairs are given as flows."""
    rng = np.random.default_rng(options.seed)
    topologies = tuple(_topologies(rng, options.executors, options.pairs / options.executors))
    supervisors = tuple(_supervisor(rng, number) for number in range(options.nodes))
    placed = sum(topology.num_executors for topology in topologies)
    mean_hz = options.load * sum(node.cpu_hz for node in supervisors) / placed
    loads = {topology.id: _load(rng, topology, mean_hz, options.shuffle) for topology in topologies}
    return Problem(supervisors, topologies, load=LoadProfile(loads))


def _supervisor(rng: np.random.Generator, number: int) -> Supervisor:
    cores, core_hz = int(rng.choice(CORES)), float(rng.choice(CORE_HZ))
    return Supervisor(
        id=f"node-{number}",
        host=f"host-{number}",
        ports=tuple(range(6700, 6700 + cores)),
        cpu_hz=cores * core_hz,
        rack=f"rack-{number // NODES_A_RACK}",
        resources={"cpu.pcore.percent": 100.0 * cores, "memory.mb": MEMORY_MB},
    )


def _topologies(rng: np.random.Generator, executors: int, pairs_an_executor: float) -> Iterator[Topology]:
    """Topologies until there are enough executors; the larger one is, the more pairs an executor has."""
    made = 0
    while made < executors:
        shape = SHAPES[int(rng.integers(len(SHAPES)))]
        usual = pairs_an_executor * sum(shape.parallelism) / shape.pairs()
        # As pairs grow with the square of the size, the mean size is lowered by what the spread adds.
        size = usual * np.exp(SPREAD * rng.standard_normal() - 1.5 * SPREAD**2)
        parallelism = [max(1, round(count * size)) for count in shape.parallelism]
        number = f"{shape.name}-{made}"
        sources = {target: [(a, kind) for a, b, kind in shape.streams if b == target] for _, target, _ in shape.streams}
        components = tuple(
            Component(
                id=f"c{index}",
                type="bolt" if index in sources else "spout",
                parallelism=count,
                inputs=tuple(Grouping(f"c{a}", kind=kind) for a, kind in sources.get(index, ())),
            )
            for index, count in enumerate(parallelism)
        )
        total = sum(parallelism)
        workers = max(1, total // EXECUTORS_A_WORKER)
        yield Topology(
            f"{number}-1-1600000000",
            number,
            workers,
            components,
            default_executor_runs(components),
            conf={MAX_EXECUTORS_PER_WORKER: math.ceil(1.3 * total / workers)},
        )
        made += total


def _load(rng: np.random.Generator, topology: Topology, mean_hz: float, shuffle: bool) -> TopologyLoad:
    count = topology.num_executors
    members = [np.flatnonzero(topology.executor_component == c) for c in range(len(topology.components))]
    spout_tps = float(rng.lognormal(5.0, 0.7))
    sources, targets, rates = [], [], []
    flows: list[tuple[int, int, str, float]] = []
    for target, component in enumerate(topology.components):
        for grouping in component.inputs:
            source = topology.component_index[grouping.source]
            a, b = members[source], members[target]
            if shuffle and grouping.kind == "shuffle":
                flows += [(int(executor), target, "shuffle", spout_tps) for executor in a]
                continue
            share = np.ones(len(b)) if grouping.kind == "shuffle" else rng.pareto(1.5, len(b)) + 0.1
            sources.append(np.repeat(a, len(b)))
            targets.append(np.tile(b, len(a)))
            rates.append(np.tile(spout_tps * share / share.sum(), len(a)))
    return TopologyLoad(
        cpu_hz=mean_hz * rng.uniform(0.1, 1.9, count),
        memory_mb=rng.choice([128.0, 256.0, 512.0], count),
        pair_source=np.concatenate([np.empty(0, np.int32), *sources]).astype(np.int32),
        pair_target=np.concatenate([np.empty(0, np.int32), *targets]).astype(np.int32),
        pair_tps=np.concatenate([np.empty(0), *rates]),
        flow_source=np.array([flow[0] for flow in flows], np.int32),
        flow_component=np.array([flow[1] for flow in flows], np.int32),
        flow_grouping=tuple(flow[2] for flow in flows),
        flow_tps=np.array([flow[3] for flow in flows], float),
    )


def _peak_gb() -> float:
    """Most memory that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


if __name__ == "__main__":
    main()
