"""The lab in virtual time: topologies with the costs of a real cluster, simulated tuple by tuple."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from statistics import fmean, pstdev
from types import TracebackType
from typing import Any, NamedTuple, Self

import numpy as np

from stormwright.base.clock import WALL
from stormwright.controller.tally import Tally
from stormwright.defaults import BASELINE
from stormwright.errors import ClusterError
from stormwright.formats import problem_to_dict
from stormwright.model import Assignment, LoadProfile, Problem
from stormwright.model.arrays import IntArray
from stormwright.model.cluster import DEFAULT_CORE_HZ
from stormwright.perflog.records import RejectedLine, parse_lines
from stormwright.predict.changes import with_rates
from stormwright.predict.flow.profile import Profile
from stormwright.schedulers import make_scheduler
from stormwright.simulator.cluster.nimbus import VirtualNimbus
from stormwright.simulator.cluster.timings import Timings
from stormwright.simulator.settings import SimulatorSettings
from stormwright.simulator.storm.counting import EngineTotals
from stormwright.simulator.storm.engine import Events
from stormwright.storm.bridge import Bridge
from stormwright.storm.local_cluster.plan import of_nodes
from stormwright.workbench.demo.run import demo_cluster
from stormwright.workbench.demo.submissions import parse_submissions
from stormwright.workbench.simulated.cluster import SimulatedCluster, SimulatedNode, by_tuples
from stormwright.workbench.simulated.topologies import RATE_TPS, simulated_problem, simulated_topologies
from stormwright_lab.evaluations.cell_store import CellOutcome
from stormwright_lab.evaluations.cells import Cell
from stormwright_lab.evaluations.definitions import Block, BlockKind
from stormwright_lab.evaluations.lab.kills import measure_kills
from stormwright_lab.evaluations.lab.moves import measure_moves
from stormwright_lab.evaluations.lab.scheduler import LabScheduler
from stormwright_lab.evaluations.lab.settings import NODES, PROBE_MS, SLOTS, cores_of, cores_of_used_nodes
from stormwright_lab.evaluations.placing import CellPlacement, named, slots_of

#: Virtual seconds until queues are as full as they stay.
_FILL_S = 2.0

#: Trees/s that spouts of a virtual topology begin with; changed afterwards. And those that stand for the maximum.
_OFFERED_TPS, _MAXIMUM_TPS = 1_000, 200_000

#: Seconds until all workers report.
_REPORT_S = 120.0

#: Between rounds of Nimbus, as in the real lab.
_MONITOR_S = 2.0


class SimulatedLab:
    """Virtual clusters for cells of one kind, a new one for each.

    A placement at rest is simulated with all workers up; failures and moves with Nimbus, supervisors and probes too.
    """

    def __init__(self, kind: BlockKind) -> None:
        self._kind = kind

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        pass

    def measure(self, cell: Cell, placement: CellPlacement | None, rate_tps: float) -> CellOutcome:
        """Measure a cell; see `stormwright_lab.evaluations.run.EvaluationLab`.

        Raises
        ------
        ClusterError
            Nothing went through, or workers did not report.
        """
        if self._kind == "kills":
            return measure_kills(VirtualRun("kills"), cell, rate_tps)
        if self._kind == "moves":
            return measure_moves(VirtualRun("moves"), cell, rate_tps)
        problem = problem_of(cell.block, self._kind)
        slots = _slots(problem, placement)
        start = _Start(_limited(problem, slots, cell.block, self._kind), slots, cell.repeat)
        if cell.is_first and cell.block.share is not None and not rate_tps:
            rate_tps = cell.block.share * _highest_tps(start, cell.times.probe_s)
        figures, counts = _stretches(start, cell, rate_tps)
        # Schedulers get what nodes may use, as on a real cluster, not their share of the machine.
        document = None
        if cell.is_first:
            document = problem_to_dict(replace(_measured(start, counts), supervisors=problem.supervisors))
        return CellOutcome(figures, {}, named(problem, slots), document, rate_tps)


class _Start(NamedTuple):
    """A start: the problem, the slot of each executor, and the seed of random times."""

    problem: Problem
    slots: IntArray
    seed: int

    def events(self, *, saturated: bool) -> Events:
        """Return the cluster with all workers up."""
        settings = SimulatorSettings.of(self.problem, saturated=saturated, seed=self.seed)
        return Events(self.problem, self.slots, settings, Profile.of(self.problem))

    def running(self) -> Problem:
        """Return the problem with its placement as the current one."""
        return self.problem.with_current(Assignment(self.slots).by_topology(self.problem))


def problem_of(block: Block, kind: BlockKind) -> Problem:
    """Return a block's topologies on its nodes, with the load that they have in one worker."""
    cores = of_nodes(cores_of(kind) if block.cores is None else block.cores, NODES[kind])
    slots = block.slots if kind == "steady" else SLOTS
    found = simulated_topologies(parse_submissions(list(block.topologies)), block.conf)
    problem = simulated_problem(found, list(cores), [block.link] * NODES[kind], slots)
    topologies = tuple(replace(topology, num_workers=block.workers) for topology in problem.topologies)
    return replace(problem, topologies=topologies)


def _limited(problem: Problem, slots: IntArray, block: Block, kind: BlockKind) -> Problem:
    """Return the problem with nodes that share the cores of a machine, if they may use more together."""
    used = len(np.unique(problem.slot_node[slots]))
    cores = cores_of_used_nodes(kind, block.cores, used)
    nodes = tuple(
        replace(node, cpu_hz=own * DEFAULT_CORE_HZ) for node, own in zip(problem.supervisors, cores, strict=True)
    )
    return replace(problem, supervisors=nodes)


def _slots(problem: Problem, placement: CellPlacement | None) -> IntArray:
    if placement is None:
        return make_scheduler(BASELINE).schedule(problem).slot_of_executor
    return np.concatenate([slots_of(problem, number, own) for number, own in enumerate(placement)])


def _highest_tps(start: _Start, seconds: float) -> float:
    events = start.events(saturated=True)
    events.until(_FILL_S)
    before = events.counts
    events.until(_FILL_S + seconds)
    return float(events.counts.since(before).topologies["completed"].sum()) / seconds


def _measured(start: _Start, counts: EngineTotals) -> Problem:
    """Return the problem with the load of a period, as probes would measure it."""
    factors = counts.topologies["begun"] / counts.now_s / RATE_TPS
    problem = with_rates(replace(start.running(), measured=None), factors)
    cpu_hz = counts.threads["cpu_s"] / counts.now_s * problem.core_hz
    loads = {
        topology.id: replace(problem.loads[number], cpu_hz=cpu_hz[problem.executors_of(number)])
        for number, topology in enumerate(problem.topologies)
    }
    return problem.with_load(LoadProfile(loads))


def _stretches(start: _Start, cell: Cell, rate_tps: float) -> tuple[dict[str, list[float]], EngineTotals]:
    """Return figures by stretch, as many trees/s as can be if `rate_tps` is 0, and the counts of all.

    Raises
    ------
    ClusterError
        Nothing went through.
    """
    events = start.events(saturated=not rate_tps)
    if rate_tps:
        for number in range(len(start.problem.topologies)):
            events.rate(number, rate_tps / RATE_TPS)
    events.until(_FILL_S)
    first, found = events.counts, dict[str, list[float]]()
    for _ in range(cell.times.samples):
        before = events.counts
        events.until(events.now_s + cell.times.sample_s)
        for name, value in _figures(start, events, events.counts.since(before)).items():
            found.setdefault(name, []).append(value)
    if not sum(found["acked_tps"]):
        raise ClusterError(f"{cell.name}: no tuple tree was completed")
    return found, events.counts.since(first)


def _figures(start: _Start, events: Events, counts: EngineTotals) -> dict[str, float]:
    problem, seconds = start.problem, counts.now_s
    acked = float(counts.topologies["completed"].sum())
    node = problem.slot_node[start.slots]
    pairs, routes = events.cluster.pairs, events.cluster.routes
    source = np.repeat(np.array(routes["source"]), routes["count"])
    crossing = float(counts.pairs[node[source] != node[np.array(pairs["target"])]].sum())
    used: Sequence[int] = np.unique(node).tolist()
    cores = np.array([supervisor.cpu_hz for supervisor in problem.supervisors]) / problem.core_hz
    shares = (100 * counts.busy_s / seconds / cores).tolist()
    figures = {"acked_tps": acked / seconds, "inter_node_tps": crossing / seconds}
    if acked:
        figures["inter_node_per_acked"] = crossing / acked
        figures["latency_ms"] = 1e3 * float(counts.topologies["latency_s"].sum()) / acked
    busiest = sorted(shares, reverse=True)[: len(used)]
    figures |= {"nodes": float(len(used)), "workers": float(len(np.unique(start.slots)))}
    figures |= {"cpu_percent": fmean(shares), "cpu_sd_percent": pstdev(shares), "used_cpu_percent": fmean(busiest)}
    return figures


class VirtualRun:
    """A virtual cluster for one cell; see `stormwright_lab.evaluations.lab.phases.RunningLab`."""

    bridge: Bridge
    tally: Tally

    def __init__(self, kind: BlockKind) -> None:
        self._kind = kind
        self.scheduler, self.clock = LabScheduler(), WALL
        self._records: list[Any] = []

    @property
    def nimbus(self) -> VirtualNimbus:
        """The virtual Nimbus."""
        return self._cluster.storm.nimbus

    @property
    def nodes(self) -> Sequence[SimulatedNode]:
        """The nodes of the cluster."""
        return self._cluster.plan.nodes

    @contextmanager
    def running(self, cell: Cell, placement: CellPlacement | None) -> Iterator[Problem]:
        """Run a cell's topologies inside the `with` block, with all workers reporting.

        Raises
        ------
        ClusterError
            Not every worker has reported.
        """
        block = cell.block
        own = {"workers": str(block.workers), "rate": str(_OFFERED_TPS)}
        submissions = [replace(each, args={**each.args, **own}) for each in parse_submissions(list(block.topologies))]
        names = [submission.name for submission in submissions]
        cores = cores_of(self._kind) if block.cores is None else block.cores
        config = demo_cluster(nodes=NODES[self._kind], slots=SLOTS, link=block.link, cores_per_node=cores)
        timings = Timings(monitor_s=_MONITOR_S, probe_s=PROBE_MS / 1000)
        engine = partial(by_tuples, seed=cell.repeat)
        self._cluster = SimulatedCluster(config, submissions, PROBE_MS, engine, timings=timings, conf=block.conf)
        self.clock = self._cluster.clock
        self.bridge, self.tally = Bridge(self.scheduler, "experiment", clock=self.clock), Tally(clock=self.clock)
        self._cluster.storm.nimbus.ask, self._cluster.storm.deliver = self.bridge.answer, self._take
        self.scheduler.wanted = {} if placement is None else dict(zip(names, placement, strict=True))
        self.set_rate(0)
        for topology in self._cluster.storm.problem.topologies:
            self._cluster.storm.submit(topology)
        yield self._reporting(names)

    def _reporting(self, names: Sequence[str]) -> Problem:
        until_s = self.clock.monotonic() + _REPORT_S
        while self.clock.monotonic() < until_s:
            self.clock.sleep(PROBE_MS / 1000)
            problem = self.snapshot(names)
            if problem is None or len(problem.current) < len(names):
                continue
            slots = [(name, slot) for name, placed in problem.current.items() for slot in placed.slots]
            if all(self.tally.reports(name, s.supervisor, s.port, frozenset(), -1.0) for name, s in slots):
                return problem
        raise ClusterError(f"not every worker of {', '.join(names)} reported within {_REPORT_S:g} s")

    def set_rate(self, rate_tps: float) -> None:
        """Set the rate of spouts in trees/s; 0 for the maximum."""
        engine = self._cluster.storm.engine
        engine.until(self.clock.monotonic())
        for number in range(len(self._cluster.storm.problem.topologies)):
            engine.rate(number, (rate_tps or _MAXIMUM_TPS) / _OFFERED_TPS)

    def limit(self, block: Block) -> None:
        """Do nothing: nodes have their limits from the beginning."""

    def warm_up(self, problem: Problem, seconds: float) -> None:  # noqa: ARG002  # the real lab looks at its workers
        """Return after some virtual time."""
        self.clock.sleep(seconds)

    def records(self, topologies: Sequence[str]) -> list[dict[str, Any]]:
        """Return the records of workers of these topologies (ids)."""
        return [record for record in self._records if record["worker"]["topology"] in topologies]

    def snapshot(self, names: Sequence[str]) -> Problem | None:
        """Return the newest problem, without loads; all topologies are of the cell."""
        problem = self.bridge.snapshot()
        return problem if problem is None or len(problem.topologies) < len(names) else replace(problem, load=None)

    def kill_node(self, name: str) -> None:
        """Let a node die with its supervisor and workers."""
        self._cluster.storm.supervisors.node(name, up=False)

    def _take(self, lines: Sequence[bytes]) -> None:
        self._records += self.tally.add([each for each in parse_lines(lines) if not isinstance(each, RejectedLine)])
