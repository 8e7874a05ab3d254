"""Loads of a virtual cluster without Spark: as its engine counts them, not by way of the performance log."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Self

import numpy as np

from stormwright.experiments.simulated.measuring import LoadWithLatencies, Measuring
from stormwright.model import LoadProfile, Problem
from stormwright.pipeline.measurement.measurement import LatencyHistogram, NodeLoad
from stormwright.pipeline.streaming.progress import Progress
from stormwright.simulator.cluster.records import HEAP_BYTES
from stormwright.simulator.cluster.storm import VirtualStorm
from stormwright.simulator.engine import Counted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Of complete latency, in percent, as a pipeline tells them.
_QUANTILES = (50, 95, 99)


#: Node or topology → its figures.
_Told = dict[str, dict[str, float | None]]


class CountedLoads:
    """Measures a virtual cluster; `Loads` as a service has them.

    Parameters
    ----------
    storm
        The cluster.
    every_s
        Virtual seconds from one profile to the next.
    """

    def __init__(self, storm: VirtualStorm, every_s: float) -> None:
        self._storm, self._measuring = storm, Measuring(storm.problem)
        self._measured: LoadWithLatencies | None = None
        self._told: tuple[LoadWithLatencies | None, _Told, _Told] = (None, {}, {})
        self._used_s, self._profiles = np.zeros(len(storm.problem.supervisors)), 0
        self._workers: Counter[str] = Counter()
        storm.heard = self._hear
        storm.clock.every(every_s, self.measure)

    @property
    def spark(self) -> SparkSession | None:
        """None: the history stays in files."""
        return None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        pass

    def latest(self, problem: Problem) -> LoadProfile | None:
        """What was measured last of the problem's topologies, which are all numbered as the cluster's."""
        measured = self._measured
        if measured is None or measured.load.topologies.keys() <= problem.topology_index.keys():
            return measured and measured.load
        known = {name: of for name, of in measured.load.topologies.items() if name in problem.topology_index}
        return replace(measured.load, topologies=known)

    def note(self, problem: Problem) -> None:
        """Nobody needs to tell what there is."""

    def require_running(self) -> None:
        """It always does."""

    def closed_panes_error(self) -> str | None:
        """There are no panes."""
        return None

    def progress(self) -> Progress:
        """Where it stands."""
        measured, clock = self._measured, self._storm.clock
        found: Progress = {"running": True, "error": None, "batch": self._profiles - 1}
        if measured is not None:
            if self._told[0] is not measured:
                self._told = measured, self._nodes(measured.load), self._latencies(measured)
            _, nodes, latencies = self._told
            age_s = clock.time() - measured.load.end_ms / 1000
            found |= {"profile_age_s": age_s, "nodes": nodes, "complete_latency_ms": latencies}
        return found

    def measure(self) -> None:
        """Make a profile of what was counted lately."""
        self._storm.count()
        self._measured = self._measuring.measured(self._storm.clock.time() * 1000)
        self._profiles += 1
        workers = self._storm.supervisors.workers.values()
        self._workers = Counter(worker.supervisor for worker in workers if worker.up)

    def _hear(self, counted: Counted) -> None:
        used_s = self._storm.used().cpu_s
        self._measuring.add(counted, self._storm.supervisors.running, used_s - self._used_s)
        self._used_s = used_s

    def _nodes(self, load: LoadProfile) -> _Told:
        problem = self._storm.problem
        return {
            node.id: NodeLoad(
                cpu_cores=load.node_cpu_hz[node.id] / problem.core_hz,
                capacity_cores=node.cpu_hz / problem.core_hz,
                heap_bytes=HEAP_BYTES * self._workers[node.id],
                workers=self._workers[node.id],
            ).as_dict()
            for node in problem.supervisors
            if node.id in load.node_cpu_hz
        }

    def _latencies(self, measured: LoadWithLatencies) -> _Told:
        found = {}
        for topology, counts in zip(self._storm.problem.topologies, measured.latency, strict=True):
            if topology.id in measured.load.topologies:
                latency = LatencyHistogram(counts.astype(float))
                found[topology.id] = {f"p{percent}": latency.quantile_ms(percent / 100) for percent in _QUANTILES}
        return found
