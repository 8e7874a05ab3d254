"""Costs of messages and workers of the cluster: fitted each minute to the records as they arrive, and stored.

A topology that was never fitted, or whose workers have restarted since, is fitted before the minute is over.

Cores of most nodes count with the speed of the problem, whatever it is; nodes whose cores differ count relative to it.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, replace
from math import inf, isclose
from typing import Any
from zlib import crc32

import numpy as np
import orjson

from stormwright.base.clock import WALL, Clock
from stormwright.base.documents import Document, read_or_default
from stormwright.model import UNPLACED, LoadProfile, Problem, Supervisor
from stormwright.model.requests import CPU
from stormwright.perflog.records import MAX_CLOCK_AHEAD_MS, WorkerId
from stormwright.predict.calibration.calibration import Calibration, calibrated, learn, with_scales
from stormwright.predict.calibration.document import costs_to_dict
from stormwright.predict.calibration.evidence import Evidence
from stormwright.predict.calibration.windows import WINDOW_S, Window, Windows
from stormwright.predict.fixed_point import learn_scales
from stormwright.predict.flow.profile import Profile
from stormwright.service.on_change import OnChange

log = logging.getLogger(__name__)

#: Windows that are fitted together: a minute of them.
WINDOWS_PER_MINUTE = round(60 / WINDOW_S)

#: Windows with the same warm workers after which a topology is fitted for the first time.
FIRST_FIT_WINDOWS = 3

#: Seconds after which the first fit of a topology is no longer awaited: its probes report too little.
FIRST_FIT_TIMEOUT_S = 120.0

#: Approximate maximum of records per window; beyond it, only records of a sample of nodes count.
MAX_RECORDS = 3_000

#: Relative difference from the most common core speed up to which cores count as equally fast.
SPEED_TOLERANCE = 0.05

#: Version of the stored document; documents of other versions are ignored.
_VERSION = 1


class CostCalibration:
    """Fits costs to records; thread-safe, and no method raises.

    Parameters
    ----------
    document
        Document with the evidence; if it is damaged, costs are learnt again.
    clock
        Clock of the cluster.

    Attributes
    ----------
    core_hz
        Supervisor id → speed of a core in Hz, for nodes whose cores differ: for `StreamSettings.core_hz_of`,
        continuously updated.
    """

    def __init__(self, document: Document, clock: Clock = WALL) -> None:
        self._evidence_file, self._clock = document, clock
        self._lock = threading.Lock()
        self._windows = Windows()
        self._waiting: list[Window] = []
        self._fitted: dict[str, frozenset[WorkerId]] = {}
        self._unfitted: dict[str, tuple[frozenset[WorkerId], int]] = {}
        self._unfitted_since_s: dict[str, float] = {}
        self._sampling, self._sampled, self._window = 1, 0, -1
        self._reported_hz: dict[str, float] = {}
        self._error: str | None = None
        self._log_changed = OnChange(log.warning)
        self._evidence = self._read()
        self._calibration = calibrated(self._evidence)
        self._costs = self._costs_dict()
        self.core_hz: dict[str, float] = {}
        self._speeds_cache: tuple[Problem, dict[str, float], Problem] | None = None
        self._costs_cache: tuple[LoadProfile, dict[str, Any], LoadProfile] | None = None

    def count(self, records: Iterable[Mapping[str, Any]]) -> None:
        """Count new records; those of a clock that is ahead are left out, as they would close windows too early."""
        latest_ms = self._clock.time() * 1000 + MAX_CLOCK_AHEAD_MS
        with self._lock:
            for record in records:
                # Of all nodes, and from the first record on: fits come later, from a sample of nodes.
                if hz := (record.get("node") or {}).get("core_hz"):
                    node = record["worker"]["supervisor"]
                    self._reported_hz[node] = max(float(hz), self._reported_hz.get(node, 0.0))
                if record["start_ms"] <= latest_ms and self._is_sampled(record):
                    self._windows.add([record])

    def refresh(self, problem: Problem, min_windows: int = WINDOWS_PER_MINUTE) -> None:
        """Fit costs after `min_windows` more windows, or the first of new workers; forget topologies that are gone."""
        with self._lock:
            first = any(count >= FIRST_FIT_WINDOWS for _, count in self._unfitted.values())
            if len(self._waiting) < min_windows and not first:
                return
            minute, self._waiting = self._waiting, []
            fitted = self._fitted | {topology: workers for topology, (workers, _) in self._unfitted.items()}
            self._fitted = {
                topology: workers for topology, workers in fitted.items() if topology in problem.topology_index
            }
            self._unfitted.clear()
        try:
            self._evidence.forget(problem.topology_index.keys())
            if learn(self._evidence, minute):
                warm = {life.topology for window in minute for life in window.usable()}
                self._calibration = self._with_learned_scales(calibrated(self._evidence), problem, warm)
                self._costs = self._costs_dict()
                self._evidence_file.save(
                    orjson.dumps({"version": _VERSION, "known": self._evidence.as_dict()}).decode()
                )
            self._error = None
            self._log_changed.over()
        except Exception as error:  # unexpected numbers, a full disk: predictions go on with the last fit
            self._error = f"{type(error).__name__}: {error}"
            self._log_changed(f"costs of messages and workers: not fitted or not stored: {self._error}")
            log.debug("the error was", exc_info=error)

    def _with_learned_scales(self, fitted: Calibration, problem: Problem, warm: Collection[str]) -> Calibration:
        """Learn the scales of topologies with warm workers from the newest load, and return the costs with them."""
        if problem.load is None or np.all(problem.current_slot == UNPLACED):
            return fitted
        known, profile = self._evidence.scales, Profile.of(problem)
        self._evidence.scales = learn_scales(profile, fitted.costs, fitted.corrections, known, warm)
        return with_scales(fitted, self._evidence.scales)

    def with_costs(self, load: LoadProfile) -> LoadProfile:
        """Return a load with the costs once there are any; the same object as long as neither changes."""
        costs, cached = self._costs, self._costs_cache
        if not costs:
            return load
        if cached is None or cached[0] is not load or cached[1] is not costs:
            self._costs_cache = cached = (load, costs, replace(load, costs=costs))
        return cached[2]

    def unfitted(self, problem: Problem) -> dict[str, str]:
        """Return topologies whose costs are not reliable yet, with the reason: they will be fitted soon."""
        if not self._windows.taken or not problem.load:
            return {}
        now_s, fitted = self._clock.monotonic(), self._evidence.topologies
        for gone in self._unfitted_since_s.keys() - problem.topology_index.keys():
            del self._unfitted_since_s[gone]
        return {
            topology: "its message costs are not measured yet"
            for topology in problem.load.topologies
            if topology not in fitted
            and now_s - self._unfitted_since_s.setdefault(topology, now_s) < FIRST_FIT_TIMEOUT_S
        }

    def with_speeds(self, problem: Problem) -> Problem:
        """Return a problem whose CPU capacities reflect the speed of each node's cores; the same one if all are equal.

        A node whose CPU is given in Hz, not as a number of cores of `Problem.core_hz`, is right already.
        """
        different = {node: speed for node, speed in self._speeds().items() if abs(speed - 1.0) > SPEED_TOLERANCE}
        affected = [one for one in problem.supervisors if one.id in different and _has_cores(one, problem.core_hz)]
        speeds = {one.id: different[one.id] for one in affected}
        hz = {node: speed * problem.core_hz for node, speed in speeds.items()}
        if hz != self.core_hz:
            self.core_hz.update(hz)
            for gone in self.core_hz.keys() - hz.keys():
                del self.core_hz[gone]
        if not speeds:
            return problem
        known = self._speeds_cache
        if known is None or known[0] is not problem or known[1] != speeds:
            nodes = [replace(one, cpu_hz=one.cpu_hz * speeds.get(one.id, 1.0)) for one in problem.supervisors]
            self._speeds_cache = known = (problem, speeds, replace(problem, supervisors=tuple(nodes)))
        return known[2]

    def status(self) -> dict[str, Any]:
        """Return the calibration for the status endpoint.

        ``minutes`` and ``workers`` of evidence, relative ``errors`` of ``work``, ``messages`` and ``delays``,
        ``figures`` (each cost with its interval, and the fraction of its uncertainty that is resolved), ``corrections``
        of topologies, ``speeds`` of nodes' cores as multiples of the most common one, ``error``: why the last minute is
        missing.
        """
        found = self._calibration
        return {
            "minutes": found.minutes,
            "workers": found.workers,
            "errors": {
                "work": found.costs.work_error,
                "messages": found.costs.message_error,
                "delays": found.costs.delay_error,
            },
            "figures": {name: asdict(figure) for name, figure in found.figures.items()},
            "corrections": {name: one.as_dict() for name, one in found.corrections.items()},
            "speeds": self._speeds(),
            "error": self._error,
        }

    def _speeds(self) -> dict[str, float]:
        """Return core speeds by supervisor as multiples of the most common one; of equally common ones the fastest."""
        known = self._evidence.core_hz
        with self._lock:
            speed_hz = {node: max(hz, known.get(node, 0.0)) for node, hz in sorted(self._reported_hz.items())}
        counts = Counter(speed_hz.values())
        reference = self._evidence.reference_hz or max(counts, key=lambda hz: (counts[hz], hz), default=0.0)
        return {**self._calibration.speeds, **{node: hz / reference for node, hz in speed_hz.items()}}

    def _is_sampled(self, record: Mapping[str, Any]) -> bool:
        """Return whether a record belongs to the sample; the first record of a window closes those before."""
        window = int(record["start_ms"] / 1000 / WINDOW_S)
        if window > self._window:
            while self._sampled > MAX_RECORDS * self._sampling:
                self._sampling *= 2
            self._window, self._sampled = window, 0
            # Nothing is fitted before Nimbus calls: only the newest windows are kept.
            closed = self._windows.closed()
            for each in closed:
                self._note_workers(each)
            self._waiting = [*self._waiting, *closed][-WINDOWS_PER_MINUTE:]
        self._sampled += 1
        return self._sampling == 1 or crc32(record["worker"]["supervisor"].encode()) % self._sampling == 0

    def _note_workers(self, window: Window) -> None:
        """Count windows of workers that were not fitted yet."""
        warm = defaultdict(set)
        for worker in window.usable():
            warm[worker.topology].add(worker)
        for topology, workers in warm.items():
            same = frozenset(workers)
            if same != self._fitted.get(topology):
                before, count = self._unfitted.get(topology, (same, 0))
                self._unfitted[topology] = (same, count + 1 if before == same else 1)

    def _costs_dict(self) -> dict[str, Any]:
        return costs_to_dict(self._calibration) if self._calibration.minutes else {}

    def _read(self) -> Evidence:
        def read(text: str) -> Evidence:
            document = orjson.loads(text)
            return Evidence.from_dict(document["known"]) if document["version"] == _VERSION else Evidence()

        return read_or_default(self._evidence_file, read, Evidence, "message costs are learnt again")


def _has_cores(node: Supervisor, core_hz: float) -> bool:
    """Return whether a node's CPU in Hz is its number of cores times the problem's speed."""
    return isclose(node.cpu_hz, node.resources.get(CPU, inf) / 100 * core_hz, rel_tol=1e-6)
