"""Transients of the virtual cluster against those of a real one: starts, a spike of the rate, moves, a killed worker.

    python -m benchmarks.simulator.transients measure [--starts 3]
    python -m benchmarks.simulator.transients simulate [--starts 8]

Both sides run the same code: a chain of bolts in two workers on three nodes of 0.4 cores starts, its rate doubles for a
while, one of its workers moves safely, moves back by Storm's rebalance without a wait, and is killed; every tree needs
both workers. ``measure`` needs root, and takes six minutes a start; each start is stored at once with its records, and
only those that are missing are made. ``simulate`` makes the page: medians over starts of both sides. Nothing of the
virtual side was fitted to these runs.
"""

from __future__ import annotations

import argparse
import gzip
import json
import logging
import os
import signal
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from typing import Protocol

import numpy as np
from stormwright_lab.chaos.faults import ClusterProcesses

from benchmarks.kit.results import DIRECTORY, show_progress, stamp, write_results
from stormwright.base.clock import WALL, Clock
from stormwright.base.documents import FileDocument
from stormwright.controller.move import Mover, Nimbus
from stormwright.controller.planning.order import MoveBudget
from stormwright.controller.planning.planner import plan_moves
from stormwright.controller.reports import MoveLimits
from stormwright.controller.safety.pauses import Pauses
from stormwright.controller.tally import Tally
from stormwright.defaults import BASELINE
from stormwright.errors import ClusterError
from stormwright.model import UNPLACED, Assignment, Problem, WorkerSlot
from stormwright.model.arrays import IntArray
from stormwright.perflog.records import LogRecord, RejectedLine, parse_lines
from stormwright.schedulers import make_scheduler
from stormwright.service.http.app import make_app
from stormwright.service.http.deliveries import BodyRecipient
from stormwright.service.http.server import HttpServer
from stormwright.simulator.cluster.timings import Timings
from stormwright.simulator.engine import NOWHERE
from stormwright.simulator.settings import SimulatorSettings
from stormwright.simulator.storm.engine import Events
from stormwright.simulator.storm.warm_up import FIRST_COMPILER
from stormwright.storm.bridge import Bridge
from stormwright.storm.local_cluster import LocalCluster, LocalClusterConfig, RunningCluster
from stormwright.storm.local_cluster.processes import outer_pids
from stormwright.workbench.demo.measure import acked_series, longest_silence_s
from stormwright.workbench.demo.run import demo_cluster
from stormwright.workbench.demo.submissions import parse_submissions
from stormwright.workbench.simulated.cluster import BACKLOG_S, SimulatedCluster

#: Cluster and topology: nodes, their slots, cores and links; trees/s of all spouts, less than half of the limit.
NODES, SLOTS, CORES, LINK, RATE_TPS = 3, 4, 0.4, "40mbit", 1_000
TOPOLOGY = "linear:workers=2,spout=1,bolt-1=1,bolt-2=1,bolt-3=1,ackers=1,pending=50000"

#: Interval of scheduling rounds and of probes' records on both sides, in seconds.
MONITOR_S, PROBE_S = 2, 0.5

#: Begin of each transient in seconds after the first acked tree, and the end of the last one. Spouts check for timeouts
#: every 30 s after their worker's start: moves and kills come about half-way between two checks.
SPIKE, SPIKE_END, SAFE, NAIVE, KILL, END = 45.0, 55.0, 75.0, 135.0, 225.0, 310.0

#: Factor of the rate in the spike.
SPIKE_FACTOR = 2.0

#: Name of each transient → text for the page.
TRANSIENTS = {
    "start": "start of the topology",
    "spike": f"the rate × {SPIKE_FACTOR:g} for {SPIKE_END - SPIKE:g} s",
    "safe move": "safe move of a worker",
    "naive move": "Storm's rebalance of a worker, wait 0",
    "kill": "killed worker",
}

#: Part of the rate that counts as reached, steps in which it is measured, in ms, and steps of a mean.
REACHED, STEP_MS, STEPS = 0.9, 500.0, 2

#: Code that the page measures.
MEASURES = ("src/stormwright/simulator", "src/stormwright/controller/move.py", "src/stormwright/workbench/simulated")

#: Required agreement of each figure: part of the measured one.
WANTED = {"pause_s": 0.20, "replayed": 0.20, "reached_s": 0.25}
#: Figures of each transient: only moves and kills pause, and a start has nothing to replay.
FIGURES = {
    "start": ("reached_s",),
    "spike": ("replayed", "reached_s"),
    "safe move": tuple(WANTED),
    "naive move": tuple(WANTED),
    "kill": tuple(WANTED),
}

NAMES = {"pause_s": "pause", "replayed": "replayed trees", "reached_s": "time until 90 % of the rate"}

#: Seconds: until the topology acks, between looks at that, and for records that are under way at the end.
_UP_S, _LOOK_S, _ARRIVE_S = 180.0, 0.1, 2.0

#: Durations of Storm at 0.4 cores a node without standby workers, measured before and elsewhere ("what the pause of a
#: move is made of": Java's first compiler, class archive, one worker of a word count): from the rebalance to the launch
#: of the JVM 1.1 s where the topology's files are on the node, 2.5 s where they are not, and 4.65 s to the end of its
#: loading, of which 2.6 s until its port is open (`Settings.port_opens_s`); a crashed worker is launched again after
#: about the same 1.1 s.
TIMINGS = Timings(
    monitor_s=MONITOR_S, start_s=1.1 + 4.65, localize_s=2.5 - 1.1, restart_s=0.0, probe_s=PROBE_S, message_s=0.05
)

#: Mean delay until spouts read a changed rate: they read its file every half second.
RATE_DELAY_S = 0.25

log = logging.getLogger("transients")


class Placing:
    """Scheduler that places topologies as wanted, by default as Storm's own does."""

    def __init__(self) -> None:
        self._even = make_scheduler(BASELINE)
        self.wanted: IntArray | None = None

    def schedule(self, problem: Problem) -> Assignment:
        """Leave running executors where they are."""
        current = problem.current_slot
        wanted = self._even.schedule(problem).slot_of_executor if self.wanted is None else self.wanted
        return Assignment(np.where(current == UNPLACED, wanted, current).astype(np.int32))


class Side(Protocol):
    """A cluster, real or virtual, with the parts of a service that move topologies."""

    clock: Clock
    nimbus: Nimbus
    bridge: Bridge
    tally: Tally
    placing: Placing
    records: list[LogRecord]

    def submit(self, name: str) -> None:
        """Submit the topology."""

    def offer(self, rate_tps: float) -> None:
        """Set the rate of the spouts."""

    def kill(self, slot: WorkerSlot) -> None:
        """Kill the worker in a slot."""


@dataclass(frozen=True)
class Transient:
    """Figures of a transient.

    Parameters
    ----------
    pause_s
        Longest time without an acked tree.
    replayed
        Trees that a spout failed and emitted again.
    reached_s
        Time from its begin until the rate is reached.
    """

    pause_s: float
    replayed: int
    reached_s: float


@dataclass(frozen=True)
class Start:
    """A start of the topology: its id, and begin, end, in s since 1970, and rate in trees/s of each transient."""

    topology: str
    windows: Mapping[str, tuple[float, float, float]]

    def transients(self, records: Sequence[LogRecord]) -> dict[str, Transient]:
        """Return the figures of all transients from the records of workers."""
        return {
            name: figures_of(records, self.topology, 1e3 * start_s, 1e3 * end_s, rate_tps)
            for name, (start_s, end_s, rate_tps) in self.windows.items()
        }


def run_start(side: Side, name: str) -> Start:
    """Start the topology, and let all transients happen."""
    clock = side.clock
    side.offer(RATE_TPS)
    begun_s = clock.time()
    side.submit(name)
    submitted_s = clock.time()
    topology = _first_ack(side, name, begun_s)
    up_s = clock.time()

    def wait_until(offset_s: float) -> float:
        clock.sleep(max(up_s + offset_s - clock.time(), 0.0))
        return clock.time()

    windows = {"start": (submitted_s, up_s + SPIKE, RATE_TPS)}
    spike_s = wait_until(SPIKE)
    side.offer(SPIKE_FACTOR * RATE_TPS)
    windows["spike"] = (spike_s, up_s + SPIKE_END, SPIKE_FACTOR * RATE_TPS)
    wait_until(SPIKE_END)
    side.offer(RATE_TPS)
    safe_s = wait_until(SAFE)
    _move_safely(side, name)
    windows["safe move"] = (safe_s, up_s + NAIVE, RATE_TPS)
    naive_s = wait_until(NAIVE)
    side.placing.wanted = _moved(_snapshot(side, name))
    side.nimbus.rebalance(name, 0)
    windows["naive move"] = (naive_s, up_s + KILL, RATE_TPS)
    kill_s = wait_until(KILL)
    side.kill(_bolt_slot(_snapshot(side, name)))
    windows["kill"] = (kill_s, up_s + END, RATE_TPS)
    wait_until(END + _ARRIVE_S)
    return Start(topology, windows)


def figures_of(
    records: Sequence[LogRecord], topology: str, start_ms: float, end_ms: float, rate_tps: float
) -> Transient:
    """Return the figures of a transient from the records of workers.

    Parameters
    ----------
    records
        Records of any topologies.
    topology
        Id of the topology.
    start_ms, end_ms
        Its window, in ms since 1970.
    rate_tps
        Rate that is to be reached, in trees/s.
    """
    own = [record for record in records if record["worker"]["topology"] == topology]
    ends = [(record, record["start_ms"] + record["length_ns"] / 1e6) for record in own]
    failed = sum(
        each["failed"]
        for record, record_end_ms in ends
        if start_ms <= record_end_ms < end_ms
        for each in record["executors"]
        if each["type"] == "spout"
    )
    seconds, rates = acked_series(own, topology, start_ms, end_ms, STEP_MS)
    silence_s = longest_silence_s(own, topology, start_ms, end_ms)
    return Transient(round(silence_s, 2), failed, round(_reached_s(seconds, rates, REACHED * rate_tps), 2))


def _reached_s(seconds: Sequence[float], rates: Sequence[float], enough_tps: float) -> float:
    """Return the end of the longest time in which the rate is too low, in seconds; 0 if it never is."""
    means = np.convolve(rates, np.full(STEPS, 1 / STEPS), mode="valid")
    low = np.concatenate([[False], means < enough_tps, [False]])
    edges = np.flatnonzero(low[1:] != low[:-1]).reshape(-1, 2)
    if not len(edges):
        return 0.0
    _, end = edges[np.argmax(edges[:, 1] - edges[:, 0])]
    return float(seconds[min(end, len(seconds) - 1)]) - STEP_MS / 2000


def _first_ack(side: Side, name: str, since_s: float) -> str:
    """Wait for the first acked tree of a topology, and return its id."""
    until_s = since_s + _UP_S
    while side.clock.time() < until_s:
        problem = side.bridge.snapshot()
        ids = [topology.id for topology in problem.topologies if topology.name == name] if problem else []
        if ids and side.tally.totals(ids[0]).acked:
            return ids[0]
        side.clock.sleep(_LOOK_S)
    raise ClusterError(f"{name}: no tree was acked within {_UP_S:g} s")


def _snapshot(side: Side, name: str) -> Problem:
    """Return the newest problem, in which the topology is alone."""
    problem = side.bridge.snapshot()
    if problem is None or [topology.name for topology in problem.topologies] != [name] or not problem.current:
        raise ClusterError(f"Nimbus does not have {name} alone, and placed")
    return replace(problem, load=None)


def _bolt_slot(problem: Problem) -> WorkerSlot:
    """Return the slot of the worker without a spout; every tree passes it."""
    (topology,) = problem.topologies
    spouts = [topology.components[each].type == "spout" for each in topology.executor_component]
    (slot,) = set(problem.current_slot.tolist()) - set(problem.current_slot[spouts].tolist())
    return problem.slots[slot]


def _moved(problem: Problem) -> IntArray:
    """Return a placement with the worker without a spout on the node that has none."""
    old, used = problem.slot_index[_bolt_slot(problem)], set(problem.slot_node[problem.current_slot].tolist())
    free = next(slot for slot, node in enumerate(problem.slot_node.tolist()) if node not in used)
    return np.where(problem.current_slot == old, free, problem.current_slot).astype(np.int32)


def _move_safely(side: Side, name: str) -> None:
    problem = _snapshot(side, name)
    plan = plan_moves(problem, Assignment(_moved(problem)), MoveBudget(), cpu_limits=False)
    with tempfile.TemporaryDirectory(prefix="stormwright-transients-") as state:
        pauses = Pauses(FileDocument(Path(state) / "paused.json"))
        mover = Mover(side.nimbus, side.bridge, side.tally, pauses, MoveLimits(swap_s=120.0))
        for step in plan.steps:
            mover.move(step, "transients")


class RealSide:
    """A local cluster of Storm."""

    def __init__(self, cluster: RunningCluster, nimbus: Nimbus, bridge: Bridge, placing: Placing) -> None:
        self.clock, self.nimbus, self.bridge, self.placing = WALL, nimbus, bridge, placing
        self.tally, self.records = Tally(), list[LogRecord]()
        self._cluster = cluster

    def take(self, bodies: Iterable[bytes]) -> None:
        """Take records of workers."""
        for body in bodies:
            self.records += self.tally.add(
                [each for each in parse_lines(body.split(b"\n")) if not isinstance(each, RejectedLine)]
            )

    @property
    def _rate_file(self) -> Path:
        return self._cluster.plan.work / "rate"

    def submit(self, name: str) -> None:
        """Submit the topology."""
        (submission,) = parse_submissions([f"{TOPOLOGY},name={name}"])
        conf = {
            "stormwright.probe.service.url": self._cluster.service_url,
            "stormwright.probe.interval.ms": round(1000 * PROBE_S),
            "stormwright.rate.file": str(self._rate_file),
        }
        self._cluster.run_topology(submission.main_class, submission.arguments(), conf)

    def offer(self, rate_tps: float) -> None:
        """Write the rate to the spouts' file."""
        self._rate_file.write_text(f"{rate_tps:.6g}", encoding="ascii")

    def kill(self, slot: WorkerSlot) -> None:
        """Kill the process of a worker."""
        problem = self.bridge.snapshot()
        host = next(node.host for node in problem.supervisors if node.id == slot.supervisor) if problem else ""
        name = next(node.name for node in self._cluster.plan.nodes if node.address == host)
        here = outer_pids(self._cluster.warden_pid())
        for place, pids in ClusterProcesses(self._cluster).workers().items():
            if (place.node, place.port) == (name, slot.port):
                for pid in pids:
                    os.kill(here[pid], signal.SIGKILL)
                return
        raise ClusterError(f"no worker runs at {name}:{slot.port}")


@contextmanager
def real_side() -> Iterator[RealSide]:
    """Boot a cluster, and yield it with the parts that move topologies."""
    with ExitStack() as stack:
        cluster = stack.enter_context(LocalCluster(config_of()))
        placing = Placing()
        bridge = Bridge(placing, "transients")
        side = RealSide(cluster, stack.enter_context(cluster.gateway()), bridge, placing)
        app = make_app(bridge, BodyRecipient(side.take), dict)  # type: ignore[arg-type]
        stack.enter_context(HttpServer(app, cluster.service_host, cluster.service_port))
        yield side


def config_of() -> LocalClusterConfig:
    """Return the cluster of both sides."""
    conf = {"nimbus.monitor.freq.secs": MONITOR_S}
    return demo_cluster(nodes=NODES, slots=SLOTS, link=LINK, cores_per_node=CORES, standbys=0, storm_conf=conf)


def measure(starts: int, file: Path) -> None:
    """Make the starts that a file lacks; it gets a line of JSON for each at once."""
    made = len(read(file))
    if made >= starts:
        log.info("%s has %d starts", file, made)
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    with real_side() as side:
        for number in range(made, starts):
            name = f"transients-{number}-{time.time_ns() // 10**6}"
            side.records.clear()
            side.placing.wanted = None
            load = os.getloadavg()[0]
            found = run_start(side, name)
            side.nimbus.kill(name, 0)
            own = [record for record in side.records if record["worker"]["topology"] == found.topology]
            _records_file(file, number).write_bytes(gzip.compress(json.dumps(own).encode()))
            with file.open("a", encoding="utf-8") as lines:
                lines.write(json.dumps({**stamp(), "load_average": load, **asdict(found)}) + "\n")
            log.info("start %d: %s", number + 1, found.transients(own))
            time.sleep(10.0)


def read(file: Path) -> list[dict[str, Transient]]:
    """Return the transients of the starts in a file."""
    if not file.exists():
        return []
    found = []
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines()):
        document = json.loads(line)
        records = json.loads(gzip.decompress(_records_file(file, number).read_bytes()))
        found.append(Start(document["topology"], document["windows"]).transients(records))
    return found


def _records_file(file: Path, number: int) -> Path:
    return file.with_name(f"records-{number}.json.gz")


class VirtualSide:
    """The same cluster in virtual time.

    Parameters
    ----------
    name
        Name of the topology.
    seed
        Seed of times and choices.
    phase_s
        Time since the last round of Nimbus when the topology is submitted, which the real side has by chance.
    """

    def __init__(self, name: str, seed: int, phase_s: float) -> None:
        submissions = parse_submissions([f"{TOPOLOGY},name={name},rate={RATE_TPS}"])

        def engine(problem: Problem, offered_tps: Mapping[str, float]) -> Events:
            settings = SimulatorSettings.of(
                problem,
                offered_tps=offered_tps,
                backlog_s=BACKLOG_S,
                startup_s=TIMINGS.start_s,
                warm_up=FIRST_COMPILER,
                seed=seed,
            )
            return Events(problem, np.full(problem.num_executors, NOWHERE, np.int32), settings)

        cluster = SimulatedCluster(config_of(), submissions, round(1000 * PROBE_S), engine, timings=TIMINGS)
        self.storm, self.clock, self.nimbus = cluster.storm, cluster.clock, cluster.storm.nimbus
        self.placing = Placing()
        self.bridge, self.tally = Bridge(self.placing, "transients", clock=self.clock), Tally(clock=self.clock)
        self.records = list[LogRecord]()
        self.storm.nimbus.ask, self.storm.deliver = self.bridge.answer, self._take
        self._phase_s = phase_s

    def _take(self, lines: Sequence[bytes]) -> None:
        self.records += self.tally.add([each for each in parse_lines(lines) if not isinstance(each, RejectedLine)])

    def submit(self, name: str) -> None:
        """Submit the topology; it is placed in the next round of Nimbus, as in Storm."""
        (topology,) = (each for each in self.storm.problem.topologies if each.name == name)
        self.clock.after(MONITOR_S - self._phase_s, lambda: self.storm.submit(topology))

    def offer(self, rate_tps: float) -> None:
        """Scale the rate, once spouts have read it."""
        self.clock.after(RATE_DELAY_S, lambda: self._rate(rate_tps / RATE_TPS))

    def _rate(self, factor: float) -> None:
        self.storm.engine.until(self.clock.monotonic())
        self.storm.engine.rate(0, factor)

    def kill(self, slot: WorkerSlot) -> None:
        """Kill a worker."""
        self.storm.supervisors.kill(slot.supervisor, slot.port)


def simulated(starts: int) -> list[dict[str, Transient]]:
    """Return the transients of virtual starts, which are submitted at all phases of Nimbus's rounds."""
    names = [f"transients-{number}" for number in range(starts)]
    sides = [VirtualSide(name, number, MONITOR_S * (number + 0.5) / starts) for number, name in enumerate(names)]
    return [run_start(side, name).transients(side.records) for side, name in zip(sides, names, strict=True)]


def write_page(real: Sequence[Mapping[str, Transient]], virtual: Sequence[Mapping[str, Transient]]) -> None:
    """Write the page: medians over starts of both sides, and how far apart they are."""
    rows, right, small = list[tuple[str, str, str]](), 0, 0
    for name, text in TRANSIENTS.items():
        for figure in FIGURES[name]:
            wanted = WANTED[figure]
            unit, resolution = ("", 1.0) if figure == "replayed" else (" s", PROBE_S)
            found = median(getattr(start[name], figure) for start in virtual)
            shown = f"simulated {found:g}{unit}"
            if measured := [getattr(start[name], figure) for start in real]:
                difference = abs(found - median(measured))
                error = _relative(difference, median(measured))
                right += error <= wanted
                small += wanted < error and difference <= resolution
                ends = f"measured {median(measured):g}{unit} ({min(measured):g} to {max(measured):g})"
                apart = f"{100 * error:.0f} %" if np.isfinite(error) else f"{difference:g}{unit}"
                shown = f"{apart} apart: {shown}, {ends}"
            rows.append((f"{text}: {NAMES[figure]}", f"± {wanted:.0%}", shown))
    count = sum(map(len, FIGURES.values()))
    rows += [
        (
            "figures within the wanted distance",
            f"{count} of {count}",
            f"{right} of {count}" if real else "none measured",
        ),
        (f"of the others, apart by at most what records resolve ({PROBE_S:g} s, a tree)", "", str(small)),
        ("starts measured, and simulated", "≥ 3", f"{len(real)}, {len(virtual)}"),
    ]
    details = {
        side: [{name: asdict(each) for name, each in start.items()} for start in starts]
        for side, starts in (("real", real), ("virtual", virtual))
    }
    write_results("simulator-transients", "Transients of the virtual cluster against a real one", rows, details)


def _relative(difference: float, measured: float) -> float:
    """Return a difference as a part of what was measured; infinite if that is 0 and the difference is not."""
    if not difference:
        return 0.0
    return abs(difference) / measured if measured else float("inf")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("do", choices=("measure", "simulate"))
    parser.add_argument("--starts", type=int, help="3 measured ones, 8 simulated ones by default")
    options = parser.parse_args()
    show_progress()
    file = DIRECTORY / "simulator-transients" / "real.jsonl"
    if options.do == "measure":
        measure(options.starts or 3, file)
        return
    write_page(read(file), simulated(options.starts or 8))


if __name__ == "__main__":
    main()
