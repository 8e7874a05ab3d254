"""Topologies whose tuples cannot leave their worker, from the performance log.

A tuple that stays in its worker is never serialized, so a topology may run for years in one worker with objects that
Storm cannot send: of a class that is not registered with Kryo, or not serializable at all. Spread over several, its
workers end at the first of them. The probe serializes samples of each stream as Storm would, and reports the streams
where that failed. Where no sample of a stream with traffic was ever serialized, and all of the topology has always been
in one worker, nothing shows that it can leave. Nor does anything show what else its executors share in one: a topology
that asks for one worker keeps it, unless its owner says that several are as good.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np

from stormwright.model import UNPLACED, Problem, Topology
from stormwright.model.arrays import IntArray
from stormwright.model.topology_config import CONFINED, SUBMITTED_WORKERS, WORKERS_KEY
from stormwright.perflog.records import LogRecord

#: Seconds after which the pairs of a worker are looked at again while streams of it are unknown.
_LOOK_S = 5.0

#: Beginning of the names of Storm's own streams and components, whose values it can always send.
_SYSTEM = "__"


@dataclass
class _Streams:
    """Streams (component, name) of a topology: with an error, sized, and with traffic of unknown size."""

    failed: dict[tuple[str, str], str] = field(default_factory=dict)
    sized: set[tuple[str, str]] = field(default_factory=set)
    unknown: set[tuple[str, str]] = field(default_factory=set)
    next_look_s: float = float("-inf")

    @property
    def counts(self) -> tuple[int, int, int]:
        """Numbers of streams of each kind; none changes without them."""
        return len(self.failed), len(self.sized), len(self.unknown)


class Serialization:
    """Topologies whose tuples cannot leave their worker, by the records of all workers; thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._topologies: dict[str, _Streams] = {}
        self._confined: dict[str, tuple[Topology, str, Topology]] = {}
        self._changes = 0
        self._known: tuple[Problem, int, Problem] | None = None

    def count(self, records: Iterable[LogRecord]) -> None:
        """Count new records."""
        with self._lock:
            for record in records:
                known = self._topologies.setdefault(record["worker"]["topology"], _Streams())
                before = known.counts
                for component, stream, why in record.get("unserializable") or ():
                    known.failed[component, stream] = why
                    known.unknown.discard((component, stream))
                now_s = record["start_ms"] / 1000
                if not now_s < known.next_look_s < now_s + 2 * _LOOK_S:
                    known.next_look_s = now_s + _LOOK_S
                    _look(known, record)
                self._changes += known.counts != before

    def confine(self, problem: Problem) -> Problem:
        """Return a problem whose topologies that cannot leave their worker say so in their configuration (`CONFINED`).

        The same problem gives the same result as long as nothing new is known: each second and each page calls this.
        """
        with self._lock:
            known, changes = self._known, self._changes
            if known is None or known[0] is not problem or known[1] != changes:
                reasons = self._reasons(problem)
                self._confined = {name: found for name, found in self._confined.items() if name in reasons}
                topologies = tuple(self._topology(each, reasons.get(each.id, "")) for each in problem.topologies)
                result = replace(problem, topologies=topologies) if reasons else problem
                self._known = known = (problem, changes, result)
            return known[2]

    def _reasons(self, problem: Problem) -> dict[str, str]:
        index = problem.topology_index
        # One that was only just submitted is known again with its next record.
        self._topologies = {each: streams for each, streams in self._topologies.items() if each in index}
        nothing = _Streams()
        found = {
            each.id: _why(self._topologies.get(each.id, nothing), problem, number)
            for number, each in enumerate(problem.topologies)
        }
        return {topology: why for topology, why in found.items() if why}

    def _topology(self, topology: Topology, why: str) -> Topology:
        """Return a topology with the reason; the same object each time, as much is remembered by it."""
        if not why:
            return topology
        known = self._confined.get(topology.id)
        if known is None or known[0] is not topology or known[1] != why:
            conf = {**topology.conf, CONFINED: why, WORKERS_KEY: "exactly"}
            self._confined[topology.id] = known = (topology, why, replace(topology, conf=conf))
        return known[2]


def _look(known: _Streams, record: LogRecord) -> None:
    """Note the streams of which the tuples of a record were sized, and those of which they were not."""
    streams = record["streams"]
    for _, _, stream, tuples, size in record["pairs"]:
        component, name = streams[stream][:2]
        key = (component, name)
        if name.startswith(_SYSTEM) or component.startswith(_SYSTEM) or key in known.sized or key in known.failed:
            continue
        if size:
            known.sized.add(key)
            known.unknown.discard(key)
        elif tuples:
            known.unknown.add(key)


def _why(streams: _Streams, problem: Problem, topology: int) -> str:
    if streams.failed:
        (component, name), error = min(streams.failed.items())
        return f"tuples of {component} on stream {name} cannot be serialized ({error})"
    one = problem.topologies[topology]
    submitted = one.conf.get(SUBMITTED_WORKERS, one.num_workers)
    is_in_doubt = (streams.unknown or submitted == 1) and WORKERS_KEY not in one.conf
    if not is_in_doubt or _workers(problem, topology) != 1:
        return ""
    if streams.unknown:
        component, name = min(streams.unknown)
        return f"nothing has left its worker, and whether tuples of {component} on stream {name} can is unknown"
    # Statics, files and ports that its executors share show nowhere.
    return f"it asks for one worker; {WORKERS_KEY}: free in its configuration says that several are as good"


def _workers(problem: Problem, topology: int) -> int:
    slots = problem.current_slot[problem.executors_of(topology)]
    return len(np.unique(slots[slots != UNPLACED]))


def split_workers(problem: Problem, wanted: IntArray) -> dict[str, str]:
    """Return the reason per topology (id) why executors that share a worker may not be separated, where they would be.

    Parameters
    ----------
    problem
        Problem of `Serialization.confine`, with its current placement.
    wanted
        Wanted slot of every executor, -1 for none, shape (E,).
    """
    found = {}
    for index, topology in enumerate(problem.topologies):
        why = topology.conf.get(CONFINED)
        if not why:
            continue
        own = problem.executors_of(index)
        now, then = problem.current_slot[own], wanted[own]
        pairs = np.unique(np.stack([now, then])[:, (now != UNPLACED) & (then != UNPLACED)], axis=1)
        if len(pairs[0]) > len(np.unique(pairs[0])):
            found[topology.id] = f"would be separated, and {why}"
    return found
