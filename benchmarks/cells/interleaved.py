"""The measuring protocol: placements of the same topologies take turns on one cluster, each start with new workers.

A start submits the topologies, lets their workers start with CPU to spare, warms them up under the limits and measures
them. Placements are interleaved (A B A B …), so that a machine that becomes slower in the meantime makes both slower;
its speed is recorded beside each start and corrects nothing. Every start is one file; what is there is not run again.
"""

from __future__ import annotations

import argparse
import gzip
import json
import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from benchmarks.cells.machine import PlanQueries, between
from benchmarks.cells.running import WEIGHT, Watch
from benchmarks.cells.speed import loop_ms, watched
from stormwright.errors import NimbusError, StormwrightError
from stormwright.formats import problem_to_dict
from stormwright.model import UNPLACED, Assignment, Problem
from stormwright.model.arrays import IntArray
from stormwright.storm.gateway import NimbusGateway
from stormwright.storm.local_cluster import LocalCluster, RunningCluster
from stormwright.storm.local_cluster.plan import of_nodes
from stormwright.workbench.demo.measure import measure
from stormwright.workbench.demo.run import demo_cluster
from stormwright.workbench.demo.submissions import parse_submissions

log = logging.getLogger("cells")

NODES, SLOTS = 3, 6

#: Options of a worker's JVM; the last of several flags that contradict each other counts.
JVM_OPTIONS: Mapping[str, str] = {
    "first compiler": "-XX:+UseSerialGC -XX:-UsePerfData -XX:TieredStopAtLevel=1 -Xmx384m",
    "default": "-XX:-UsePerfData -Xmx384m",
}

#: Cores and link of every node while workers start.
START_CORES, START_LINK = 0.62, "200mbit"

#: Configuration key of a file with the trees/s of a topology's spouts.
RATE_FILE = "stormwright.rate.file"

#: Seconds: all workers report at the latest; standbys are loaded at the latest; a topology that was killed is gone.
REPORT_S, STANDBY_S, GONE_S = 120.0, 40.0, 2.0

#: Of each topology, in the order in which they are submitted, the slot of every executor: number of its node in the
#: order of addresses, and port. They mean the same on every cluster.
Slots = Sequence[Sequence[tuple[int, int]]]


@dataclass(frozen=True)
class Cell:
    """What is compared: topologies that run together, the limits of every node, and the options of their JVMs.

    Parameters
    ----------
    topologies
        As ``--topology`` takes them.
    cores, link
        Of all nodes, or of each.
    jvm
        One of `JVM_OPTIONS`.
    developed_on
        Whether its records were looked at while the model and the rule of decision were made.
    limited
        Whether spouts are held to a rate.
    """

    topologies: tuple[str, ...]
    cores: float | tuple[float, ...]
    link: str | tuple[str, ...]
    jvm: str = "first compiler"
    developed_on: bool = False
    limited: bool = False

    @property
    def name(self) -> str:
        """For files and tables."""
        kinds = "+".join(each.partition(":")[0] for each in self.topologies) + "-limited" * self.limited
        cores = "-".join(f"{each:g}" for each in of_nodes(self.cores, 1))
        return f"{kinds}.{cores}.{'-'.join(of_nodes(self.link, 1))}.{self.jvm.replace(' ', '-')}"

    @property
    def is_uniform(self) -> bool:
        """Whether all nodes are alike."""
        return not isinstance(self.cores, tuple) and not isinstance(self.link, tuple)


class _Placing(Watch):
    """Answers Nimbus with the slots that are set for each topology, by its name; all stay where they run."""

    def __init__(self, cluster: RunningCluster) -> None:
        self.wanted: dict[str, Sequence[tuple[int, int]] | None] = {}
        super().__init__(cluster, None)  # type: ignore[arg-type]

    def schedule(self, problem: Problem) -> Assignment:
        from stormwright.schedulers import make_scheduler

        slots = problem.current_slot.copy()
        new = [n for n, t in enumerate(problem.topologies) if np.all(slots[problem.executors_of(n)] == UNPLACED)]
        even = None
        for number in new:
            own, wanted = problem.executors_of(number), self.wanted.get(problem.topologies[number].name)
            if wanted is None:
                even = make_scheduler("even").schedule(problem).slot_of_executor if even is None else even
                slots[own] = even[own]
            else:
                slots[own] = slot_numbers(problem, wanted)
        return Assignment(slots.astype(np.int32))


def slots_of(problem: Problem, numbers: IntArray) -> list[tuple[int, int]]:
    """Slots as they are stored, of their numbers in a problem."""
    order = {supervisor: rank for rank, supervisor in enumerate(_by_address(problem))}
    slots = [problem.slots[number] for number in numbers.tolist()]
    return [(order[slot.supervisor], slot.port) for slot in slots]


def slot_numbers(problem: Problem, slots: Sequence[tuple[int, int]]) -> IntArray:
    """Numbers in a problem of slots that are stored."""
    supervisors = _by_address(problem)
    index = {(slot.supervisor, slot.port): number for number, slot in enumerate(problem.slots)}
    return np.array([index[supervisors[node], port] for node, port in slots], np.int32)


def _by_address(problem: Problem) -> list[str]:
    return [each.id for each in sorted(problem.supervisors, key=lambda each: each.host)]


class Bench:
    """A cluster on which starts are made, one after the other."""

    def __init__(self, cluster: RunningCluster, nimbus: NimbusGateway, watch: _Placing) -> None:
        self._cluster, self._nimbus, self._watch = cluster, nimbus, watch
        self._speed = cluster.plan.work / "speed"

    @classmethod
    @contextmanager
    def up(cls) -> Iterator[Self]:
        """Boot it."""
        options = {"worker.childopts": JVM_OPTIONS["default"], "nimbus.monitor.freq.secs": 2}
        config = demo_cluster(nodes=NODES, slots=SLOTS, link=START_LINK, cores_per_node=START_CORES, storm_conf=options)
        with LocalCluster(config) as cluster, cluster.gateway() as nimbus:
            watch = _Placing(cluster)
            with watch.http, watched(cluster.plan.work / "speed"):
                yield cls(cluster, nimbus, watch)

    def start(self, cell: Cell, slots: Slots | None, warm_up_s: float, measure_s: float) -> dict[str, Any]:
        """Make one start: what was measured, the problem as placed, and all records of the stretch.

        Parameters
        ----------
        cell
            What runs.
        slots
            Where; None for Even.
        warm_up_s, measure_s
            Seconds under the limits of the cell before it is measured, and measured.

        Raises
        ------
        StormwrightError
            Workers did not report, or no tree was completed.
        """
        with self.running(cell, slots) as problem:
            self._wait_for_standbys(problem)
            self.limit(cell.cores, cell.link, WEIGHT)
            time.sleep(warm_up_s)
            return self.measured(problem, cell.cores, measure_s)

    @contextmanager
    def running(self, cell: Cell, slots: Slots | None, *, paced: bool = False) -> Iterator[Problem]:
        """Submit the topologies of a cell; the problem as placed, once all their workers have reported.

        Nodes have CPU to spare then: `limit` gives them what they are measured with. If `paced`, spouts keep to the
        rate of `hold`.
        """
        self._watch.records.clear()
        self.limit(START_CORES, START_LINK, WEIGHT)
        names = [f"{number}-{time.time_ns() // 10**6}" for number in range(len(cell.topologies))]
        self.hold(0)
        try:
            for number, (name, spec) in enumerate(zip(names, cell.topologies, strict=True)):
                self._watch.wanted[name] = None if slots is None else slots[number]
                workers = None if slots is None else len(set(map(tuple, slots[number])))
                self._submit(cell, spec, name, workers, {RATE_FILE: str(self._rate_file)} if paced else {})
            yield self._reporting(names)
        finally:
            for name in names:
                with suppress(NimbusError):  # it may not have come up; what went wrong first is raised
                    self._nimbus.kill(name, 0)
                self._watch.wanted.pop(name, None)
            time.sleep(GONE_S)

    def limit(self, cores: float | tuple[float, ...], link: str | tuple[str, ...], weight: int) -> None:
        """Hold nodes to cores and links, all or each; `weight` counts where the machine has too little."""
        self._cluster.limit_nodes(cores, link, weight)

    def hold(self, tps: float) -> None:
        """Let spouts of each topology begin so many trees/s; 0 for as many as may be pending."""
        self._rate_file.write_text(f"{tps:.6g}", encoding="ascii")

    @property
    def _rate_file(self) -> Path:
        return self._cluster.plan.work / "rate"

    @property
    def cluster(self) -> RunningCluster:
        """The cluster."""
        return self._cluster

    def measured(self, problem: Problem, cores: float | tuple[float, ...], seconds: float) -> dict[str, Any]:
        """Measure what runs for some seconds: rates, the problem as placed, and all records of the stretch."""
        first = PlanQueries.of(self._cluster).as_dict()
        time.sleep(seconds)
        last = PlanQueries.of(self._cluster).as_dict()
        time.sleep(0.5)  # what was written by now arrives
        return self._measured(cores, problem, first, last)

    def _submit(self, cell: Cell, spec: str, name: str, workers: int | None, conf: Mapping[str, str]) -> None:
        submission = parse_submissions([spec])[0]
        args = {**submission.args, "name": name}
        if workers is not None:
            args["workers"] = str(workers)
        settings = {
            "stormwright.probe.service.url": self._cluster.service_url,
            "stormwright.probe.interval.ms": 1000,
            "topology.worker.childopts": JVM_OPTIONS[cell.jvm],
            **conf,
        }
        self._cluster.run_topology(submission.main_class, [f"{key}={value}" for key, value in args.items()], settings)

    def _reporting(self, names: Sequence[str]) -> Problem:
        """The problem with these topologies alone, once all their workers have reported twice."""
        deadline = time.monotonic() + REPORT_S
        while time.monotonic() < deadline:
            snapshot = self._watch.bridge.snapshot()
            there = {t.name: t for t in snapshot.topologies} if snapshot else {}
            if snapshot and all(name in there and self._reports(snapshot, there[name].id) for name in names):
                own = tuple(there[name] for name in names)
                current = {topology.id: snapshot.current[topology.id] for topology in own}
                return replace(snapshot, topologies=own, current=current)
            time.sleep(0.2)
        raise StormwrightError(f"not all workers reported within {REPORT_S:g} s")

    def _wait_for_standbys(self, problem: Problem) -> None:
        """Wait until each node in use has a standby worker again: one that loads takes CPU from what is measured."""
        deadline = time.monotonic() + STANDBY_S
        used = {slot.supervisor for placement in problem.current.values() for slot in placement.slots}
        while time.monotonic() < deadline:
            newest = {r["worker"]["supervisor"]: r for t in problem.topologies for r in self._watch.of(t.id)}
            if all((newest[node].get("node") or {}).get("standbys", 1) for node in used & newest.keys()):
                return
            time.sleep(0.5)

    def _reports(self, problem: Problem, topology: str) -> bool:
        placed = problem.current.get(topology)
        heard = {(r["worker"]["supervisor"], r["worker"]["port"]) for r in self._watch.of(topology) if r["seq"] > 0}
        return placed is not None and {(slot.supervisor, slot.port) for slot in placed.slots} <= heard

    def _measured(
        self, cores: float | tuple[float, ...], problem: Problem, first: Mapping[str, Any], last: Mapping[str, Any]
    ) -> dict[str, Any]:
        span = first["at_ms"], last["at_ms"]
        machine = between(dict(first), dict(last), cores)
        topologies, records = {}, []
        for topology in problem.topologies:
            own = [r for r in self._watch.of(topology.id) if span[0] <= r["start_ms"] <= span[1]]
            found = measure(own, topology.id, *span)
            if not found.acked_tps:
                raise StormwrightError(f"{topology.name}: no tree was completed")
            topologies[topology.id] = found.as_dict()
            records += own
        cpu_s = sum(node["cores"] for node in machine["nodes"].values())
        tps = [found["acked_tps"] for found in topologies.values()]
        log.info(
            "    %s trees/s, CPU %s of %s, %.1f µs a tree, others %.2f cores%s",
            " ".join(f"{each:,.0f}" for each in tps),
            " ".join(f"{node['cores']:.2f}" for node in machine["nodes"].values()),
            " ".join(f"{each:g}" for each in of_nodes(cores, 1)),
            1e6 * cpu_s / sum(tps),
            machine["other_cores"],
            ", disturbed" if machine["disturbed"] else "",
        )
        return {
            "problem": problem_to_dict(problem),
            "slots": [
                slots_of(problem, problem.current_slot[problem.executors_of(number)])
                for number in range(len(problem.topologies))
            ],
            "topologies": topologies,
            "tps": tps,
            "machine": machine,
            "loop_ms": loop_ms(self._speed, *span),
            "load_average": os.getloadavg()[0],
            "records": records,
        }


def parsed_options(doc: str | None) -> argparse.Namespace:
    """Options of a benchmark that runs starts of cells, or compares those that are stored."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("run", "compare"))
    parser.add_argument("--only", default="", help="only cells with this in their name")
    parser.add_argument("--minutes", type=float, default=600.0, help="begin no start later than that")
    parser.add_argument("--starts", type=int, default=1)
    return parser.parse_args()


def stored(file: Path, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What a file holds; made, and written as a whole, where there is none."""
    if not file.exists():
        unfinished = file.with_suffix(".part")
        unfinished.write_bytes(gzip.compress(json.dumps(make()).encode(), 6))
        unfinished.replace(file)
    found: dict[str, Any] = json.loads(gzip.decompress(file.read_bytes()))
    return found
