"""Costs of messages and workers of the cluster: fitted each minute to the records as they arrive, and stored.

A topology that was never fitted, or whose workers were started anew since, does not wait for a whole minute.

Cores of most nodes count as the problem says, whatever their speed is called; those that differ count by it.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from math import inf, isclose
from pathlib import Path
from typing import Any
from zlib import crc32

import orjson

from stormwright.clock import WALL, Clock
from stormwright.files import write_whole
from stormwright.model import LoadProfile, Problem, Supervisor
from stormwright.model.requests import CPU
from stormwright.perflog.records import MAX_CLOCK_AHEAD_MS, WorkerId
from stormwright.predict.calibration.calibration import calibrated, learn
from stormwright.predict.calibration.document import costs_to_dict
from stormwright.predict.calibration.evidence import Evidence
from stormwright.predict.calibration.windows import WINDOW_S, Window, Windows
from stormwright.service.on_change import OnChange
from stormwright.state_files import load_or_default

log = logging.getLogger(__name__)

#: Windows that are fitted together: a minute of them.
MINUTE = round(60 / WINDOW_S)

#: Windows with the same warm workers of a topology from which on it is fitted for the first time.
FIRST = 3

#: Seconds after which the first fit of a topology is no longer waited for: its probes report too little.
PATIENCE_S = 120.0

#: Records of a window that are looked at, about: of more, those of some nodes, of which all count.
MOST_RECORDS = 3_000

#: Cores that differ less from those of most nodes, in parts, are as fast.
SAME_SPEED = 0.05

#: Of what is kept; what another version wrote is left alone.
_VERSION = 1


class CostCalibration:
    """Fits costs to records; safe to use from several threads, and nothing here raises.

    Parameters
    ----------
    path
        File that keeps what is known. One that is damaged is set aside, and learning begins anew.
    clock
        Of the cluster.

    Attributes
    ----------
    core_hz
        Supervisor id → speed of a core in Hz, of those whose cores differ: for `StreamSettings.core_hz_of`, and kept up
        to date.
    """

    def __init__(self, path: Path, clock: Clock = WALL) -> None:
        self._path, self._clock = path, clock
        self._lock = threading.Lock()
        self._windows = Windows()
        self._waiting: list[Window] = []
        self._fitted: dict[str, frozenset[WorkerId]] = {}
        self._unfitted: dict[str, tuple[frozenset[WorkerId], int]] = {}
        self._since_s: dict[str, float] = {}
        self._share, self._counted, self._window = 1, 0, -1
        self._told_hz: dict[str, float] = {}
        self._error: str | None = None
        self._tell = OnChange(log.warning)
        self._known = self._read()
        self._calibration = calibrated(self._known)
        self._document = self._described()
        self.core_hz: dict[str, float] = {}
        self._faster: tuple[Problem, dict[str, float], Problem] | None = None
        self._added: tuple[LoadProfile, dict[str, Any], LoadProfile] | None = None

    def count(self, records: Iterable[Mapping[str, Any]]) -> None:
        """Take records that have not come before; those of a clock that is ahead would close windows too soon."""
        latest_ms = self._clock.time() * 1000 + MAX_CLOCK_AHEAD_MS
        with self._lock:
            for record in records:
                # Of all nodes, and from the first record on: what is fitted comes later, and from some of them.
                if hz := (record.get("node") or {}).get("core_hz"):
                    node = record["worker"]["supervisor"]
                    self._told_hz[node] = max(float(hz), self._told_hz.get(node, 0.0))
                if record["start_ms"] <= latest_ms and self._takes(record):
                    self._windows.add([record])

    def refresh(self, problem: Problem, least_windows: int = MINUTE) -> None:
        """Fit costs where `least_windows` more or the first of new workers are recorded; forget what has ended."""
        with self._lock:
            first = any(count >= FIRST for _, count in self._unfitted.values())
            if len(self._waiting) < least_windows and not first:
                return
            minute, self._waiting = self._waiting, []
            fitted = self._fitted | {topology: workers for topology, (workers, _) in self._unfitted.items()}
            self._fitted = {
                topology: workers for topology, workers in fitted.items() if topology in problem.topology_index
            }
            self._unfitted.clear()
        try:
            self._known.forget(problem.topology_index.keys())
            if learn(self._known, minute):
                self._calibration = calibrated(self._known)
                self._document = self._described()
                write_whole(self._path, orjson.dumps({"version": _VERSION, "known": self._known.as_dict()}))
            self._error = None
            self._tell.over()
        except Exception as error:  # numbers that no one expects, a full disk: predictions go on with what was known
            self._error = f"{type(error).__name__}: {error}"
            self._tell(f"costs of messages and workers: not fitted or not kept: {self._error}")
            log.debug("what failed", exc_info=error)

    def added_to(self, load: LoadProfile) -> LoadProfile:
        """A load with the costs, once something is known of them; the same one as long as neither changes."""
        document, known = self._document, self._added
        if not document:
            return load
        if known is None or known[0] is not load or known[1] is not document:
            self._added = known = (load, document, replace(load, costs=document))
        return known[2]

    def unfitted(self, problem: Problem) -> dict[str, str]:
        """Topology → why its costs cannot be relied on yet: it has not been fitted, and will be soon."""
        if not self._windows.taken or not problem.load:
            return {}
        now_s, known = self._clock.monotonic(), self._known.topologies
        for gone in self._since_s.keys() - problem.topology_index.keys():
            del self._since_s[gone]
        return {
            topology: "what its messages cost is not measured yet"
            for topology in problem.load.topologies
            if topology not in known and now_s - self._since_s.setdefault(topology, now_s) < PATIENCE_S
        }

    def with_speeds(self, problem: Problem) -> Problem:
        """A problem whose nodes have the CPU that comes with the speed of their cores; the same where all are alike.

        Where a node's CPU was told in Hz other than so many cores of `Problem.core_hz`, that is right already.
        """
        different = {node: speed for node, speed in self._speeds().items() if abs(speed - 1.0) > SAME_SPEED}
        document = [one for one in problem.supervisors if one.id in different and _has_cores(one, problem.core_hz)]
        speeds = {one.id: different[one.id] for one in document}
        hz = {node: speed * problem.core_hz for node, speed in speeds.items()}
        if hz != self.core_hz:
            self.core_hz.update(hz)
            for gone in self.core_hz.keys() - hz.keys():
                del self.core_hz[gone]
        if not speeds:
            return problem
        known = self._faster
        if known is None or known[0] is not problem or known[1] != speeds:
            nodes = [replace(one, cpu_hz=one.cpu_hz * speeds.get(one.id, 1.0)) for one in problem.supervisors]
            self._faster = known = (problem, speeds, replace(problem, supervisors=tuple(nodes)))
        return known[2]

    def status(self) -> dict[str, Any]:
        """For the status endpoint.

        ``minutes`` and ``workers`` that it is fitted to, ``errors`` of ``work``, ``messages`` and ``delays`` in parts,
        ``figures`` (each cost with its interval, and which part of what was uncertain is settled), ``corrections`` of
        topologies, ``speeds`` of nodes' cores as multiples of that of most, ``error``: why the last minute is not among
        it.
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
        """Supervisor id → speed of its cores as a multiple of that of most; of several as frequent the fastest."""
        known = self._known.core_hz
        with self._lock:
            document = {node: max(hz, known.get(node, 0.0)) for node, hz in sorted(self._told_hz.items())}
        counts = Counter(document.values())
        reference = self._known.reference_hz or max(counts, key=lambda hz: (counts[hz], hz), default=0.0)
        return {**self._calibration.speeds, **{node: hz / reference for node, hz in document.items()}}

    def _takes(self, record: Mapping[str, Any]) -> bool:
        """Whether a record is among those that are looked at; the first of a window closes those before."""
        window = int(record["start_ms"] / 1000 / WINDOW_S)
        if window > self._window:
            while self._counted > MOST_RECORDS * self._share:
                self._share *= 2
            self._window, self._counted = window, 0
            # Before Nimbus asks nothing is fitted: the newest ones wait.
            closed = self._windows.closed()
            for each in closed:
                self._note_workers(each)
            self._waiting = [*self._waiting, *closed][-MINUTE:]
        self._counted += 1
        return self._share == 1 or crc32(record["worker"]["supervisor"].encode()) % self._share == 0

    def _note_workers(self, window: Window) -> None:
        """Count windows of workers to which nothing was fitted yet."""
        warm = defaultdict(set)
        for worker in window.usable():
            warm[worker.topology].add(worker)
        for topology, workers in warm.items():
            same = frozenset(workers)
            if same != self._fitted.get(topology):
                before, count = self._unfitted.get(topology, (same, 0))
                self._unfitted[topology] = (same, count + 1 if before == same else 1)

    def _described(self) -> dict[str, Any]:
        return costs_to_dict(self._calibration) if self._calibration.minutes else {}

    def _read(self) -> Evidence:
        def read() -> Evidence:
            document = orjson.loads(self._path.read_bytes())
            return Evidence.from_dict(document["known"]) if document["version"] == _VERSION else Evidence()

        return load_or_default(self._path, read, Evidence, "what messages cost is learnt again")


def _has_cores(node: Supervisor, core_hz: float) -> bool:
    """Whether a node's CPU is as many cores as it tells, of the problem's speed."""
    return isclose(node.cpu_hz, node.resources.get(CPU, inf) / 100 * core_hz, rel_tol=1e-6)
