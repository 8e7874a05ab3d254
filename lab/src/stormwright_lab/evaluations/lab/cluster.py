"""The real cluster of a lab: placements are given, and records of workers are collected."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from stormwright.base.clock import WALL
from stormwright.controller.tally import Tally
from stormwright.errors import ClusterError
from stormwright.model import Problem
from stormwright.perflog.records import RejectedLine, parse_lines
from stormwright.service.http.app import make_app
from stormwright.service.http.deliveries import BodyRecipient
from stormwright.service.http.server import HttpServer
from stormwright.storm.bridge import Bridge
from stormwright.storm.gateway import NimbusGateway
from stormwright.storm.local_cluster import LocalCluster, LocalClusterConfig, RunningCluster
from stormwright.storm.local_cluster.plan import Node, of_nodes
from stormwright.workbench.demo.measure import compiler_share
from stormwright.workbench.demo.run import demo_cluster
from stormwright.workbench.demo.submissions import Submission, parse_submissions
from stormwright_lab.evaluations.cell_store import CellOutcome
from stormwright_lab.evaluations.cells import Cell
from stormwright_lab.evaluations.definitions import Block, BlockKind
from stormwright_lab.evaluations.lab.kills import measure_kills
from stormwright_lab.evaluations.lab.moves import measure_moves
from stormwright_lab.evaluations.lab.scheduler import LabScheduler
from stormwright_lab.evaluations.lab.settings import NODES, PROBE_MS, SLOTS, WIDE_LINK, cores_of, wide_cores
from stormwright_lab.evaluations.lab.steady import measure_steady
from stormwright_lab.evaluations.placing import CellPlacement, slots_of

log = logging.getLogger(__name__)

#: CPU weight of nodes relative to other processes, where the machine has too little for all.
_WEIGHT = 100

#: Seconds: until all workers report; between looks; and until the slots of what was killed are free.
_REPORT_S, _LOOK_S, _FREE_S = 120.0, 0.2, 3.0

#: Seconds over which recent use by compilers is measured, and their maximum share of the workers' CPU.
_LATELY_S, _COMPILING = 4.0, 0.08

#: Shorter than by default, so that a dead node is detected early.
_SOON = {
    "storm.zookeeper.session.timeout": 20_000,
    "nimbus.task.timeout.secs": 20,
    "supervisor.worker.timeout.secs": 30,
}

#: Keys of a topology's configuration that name files and addresses of this run: results are stored without them.
_RATE_FILE, _RECEIVER = "stormwright.rate.file", "stormwright.probe.service.url"
_RUN_SPECIFIC_KEYS = frozenset({_RATE_FILE, _RECEIVER, "stormwright.service.url"})


def _is_placed_as(problem: Problem, placement: CellPlacement) -> bool:
    whole = zip(problem.topologies, placement, strict=True)
    return all(
        np.array_equal(slots_of(problem, number, own), problem.current_slot[problem.executors_of(number)])
        for number, (_, own) in enumerate(whole)
    )


class ClusterLab:
    """A local cluster for cells of one kind, with its scheduler bridge and tally; a context manager.

    Attributes
    ----------
    cluster, nimbus, bridge, tally, scheduler, clock
        The cluster, calls to Nimbus, the scheduler bridge, counts of tuple trees, the scheduler, and the time.
    """

    cluster: RunningCluster
    nimbus: NimbusGateway

    def __init__(self, kind: BlockKind) -> None:
        self._kind = kind
        self._cores = cores_of(kind)
        self._closing = ExitStack()
        self._records: list[dict[str, Any]] = []
        self._number = 0
        self.clock = WALL
        self.scheduler = LabScheduler()
        self.bridge = Bridge(self.scheduler, "experiment")
        self.tally = Tally()

    def _config(self) -> LocalClusterConfig:
        conf = {"nimbus.monitor.freq.secs": 2, **(_SOON if self._kind == "kills" else {})}
        return demo_cluster(
            nodes=NODES[self._kind],
            slots=SLOTS,
            link=WIDE_LINK,
            cores_per_node=wide_cores(self._kind),
            storm_conf=conf,
        )

    def __enter__(self) -> Self:
        with ExitStack() as starting:
            self.cluster = starting.enter_context(LocalCluster(self._config()))
            self.nimbus = starting.enter_context(self.cluster.gateway())
            app = make_app(self.bridge, BodyRecipient(self._take), dict)  # type: ignore[arg-type]
            starting.enter_context(HttpServer(app, self.cluster.service_host, self.cluster.service_port))
            self._closing = starting.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._closing.close()

    def _take(self, bodies: Sequence[bytes]) -> None:
        for body in bodies:
            records = [r for r in parse_lines(body.split(b"\n")) if not isinstance(r, RejectedLine)]
            self._records += self.tally.add(records)  # type: ignore[arg-type]

    def records(self, topologies: Sequence[str]) -> list[dict[str, Any]]:
        """Return the records of workers of these topologies (ids) since their submission."""
        return [record for record in list(self._records) if record["worker"]["topology"] in topologies]

    @property
    def nodes(self) -> Sequence[Node]:
        """The nodes of the cluster."""
        return self.cluster.plan.nodes

    def kill_node(self, name: str) -> None:
        """Let a node die with its supervisor and workers."""
        self.cluster.kill_node(name)

    @property
    def rate_file(self) -> Path:
        """File from which spouts read their total rate in trees/s."""
        return self.cluster.plan.work / "rate"

    def set_rate(self, rate_tps: float) -> None:
        """Set the rate of spouts in trees/s; 0 for the maximum."""
        self.rate_file.write_text(f"{rate_tps:.6g}", encoding="ascii")

    def cores_in(self, block: Block) -> float | tuple[float, ...]:
        """Return the cores of each node while a block is measured."""
        return self._cores if block.cores is None else block.cores

    def limit(self, block: Block) -> None:
        """Set the limits of nodes for measuring a block."""
        # Nodes that may use up the machine do not go before Nimbus.
        weight = _WEIGHT if block.cores is None else 1
        self.cluster.limit_nodes(self.cores_in(block), block.link, weight)

    def lift_limits(self, block: Block) -> None:
        """Set the limits of nodes for starting workers."""
        self.cluster.limit_nodes(max(wide_cores(self._kind), *of_nodes(self.cores_in(block), 1)), WIDE_LINK)

    def warm_up(self, problem: Problem, seconds: float) -> None:
        """Return when workers have run for a while and compile little, or twice the time has passed.

        Where many workers are on a node they have less CPU, and warm up later.
        """
        time.sleep(seconds)
        ids, deadline = [topology.id for topology in problem.topologies], time.monotonic() + seconds
        while time.monotonic() < deadline:
            since_ms = time.time() * 1000 - _LATELY_S * 1000
            share = compiler_share(record for record in self.records(ids) if record["start_ms"] >= since_ms)
            if share is None or share <= _COMPILING:
                return
            time.sleep(_LATELY_S / 4)

    def measure(self, cell: Cell, placement: CellPlacement | None, rate_tps: float) -> CellOutcome:
        """Measure a cell; see `stormwright_lab.evaluations.run.EvaluationLab`.

        Raises
        ------
        ClusterError
            Workers did not report, or nothing went through.
        """
        match cell.block.kind:
            case "steady":
                return measure_steady(self, cell, placement, rate_tps)
            case "kills":
                return measure_kills(self, cell, rate_tps)
            case "moves":
                return measure_moves(self, cell, rate_tps)

    @contextmanager
    def running(self, cell: Cell, placement: CellPlacement | None) -> Iterator[Problem]:
        """Yield a cell's topologies with all workers reporting; they are killed at the end.

        Raises
        ------
        ClusterError
            One could not be submitted, or not every worker has reported.
        """
        self._records.clear()
        self._number += 1
        self.set_rate(0)
        self.lift_limits(cell.block)
        submissions = parse_submissions(list(cell.block.topologies))
        names = [f"{submission.name}-{self._number}-{time.time_ns() // 10**6}" for submission in submissions]
        self.scheduler.ports = cell.block.slots if self._kind == "steady" else SLOTS
        self.scheduler.wanted = {} if placement is None else dict(zip(names, placement, strict=True))
        submitted: list[str] = []
        try:
            for submission, name in zip(submissions, names, strict=True):
                self._submit(cell, submission, name)
                submitted.append(name)
            problem = self._reporting(names)
            if placement is not None and not _is_placed_as(problem, placement):
                raise ClusterError(f"{cell.name}: Nimbus has placed it differently")
            yield problem
        finally:
            for name in submitted:
                self.nimbus.kill(name, 0)
            self.lift_limits(cell.block)
            time.sleep(_FREE_S)

    def _submit(self, cell: Cell, submission: Submission, name: str) -> None:
        wanted = self.scheduler.wanted.get(name)
        workers = cell.block.workers if wanted is None else len(set(wanted))
        arguments = replace(submission, name=name).arguments(workers=str(workers))
        conf = {
            _RECEIVER: self.cluster.service_url,
            "stormwright.probe.interval.ms": PROBE_MS,
            _RATE_FILE: str(self.rate_file),
            **cell.block.conf,
        }
        self.cluster.run_topology(submission.main_class, arguments, conf)

    def _reporting(self, names: Sequence[str]) -> Problem:
        """Return the problem of these topologies alone, once all their workers have reported twice."""
        deadline = time.monotonic() + _REPORT_S
        while time.monotonic() < deadline:
            problem = self.snapshot(names)
            if problem is not None and len(problem.topologies) == len(names) and self._all_reported(problem):
                return problem
            time.sleep(_LOOK_S)
        raise ClusterError(f"not every worker of {', '.join(names)} reported within {_REPORT_S:g} s")

    def _all_reported(self, problem: Problem) -> bool:
        reporting = {
            (r["worker"]["topology"], r["worker"]["supervisor"], r["worker"]["port"])
            for r in list(self._records)
            if r["seq"] > 0
        }
        placed = all(topology.id in problem.current for topology in problem.topologies)
        slots = ((topology, slot) for topology, assignment in problem.current.items() for slot in assignment.slots)
        return placed and all((topology, slot.supervisor, slot.port) in reporting for topology, slot in slots)

    def snapshot(self, names: Sequence[str]) -> Problem | None:
        """Return the newest problem of these topologies alone, with the ports available to schedulers."""
        whole = self.bridge.snapshot()
        if whole is None:
            return None
        own = tuple(topology for topology in whole.topologies if topology.name in names)
        own = tuple(sorted(own, key=lambda topology: names.index(topology.name)))
        current = {topology.id: whole.current[topology.id] for topology in own if topology.id in whole.current}
        own = tuple(
            replace(each, conf={key: value for key, value in each.conf.items() if key not in _RUN_SPECIFIC_KEYS})
            for each in own
        )
        nodes = tuple(replace(node, ports=node.ports[: self.scheduler.ports]) for node in whole.supervisors)
        return replace(whole, supervisors=nodes, topologies=own, current=current, load=None)
