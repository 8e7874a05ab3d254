"""A virtual cluster of any size under a running service, to explore without Storm."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from math import ceil
from pathlib import Path
from typing import Self

import numpy as np

from stormwright.base.documents import Document, FileDocument, read_or_default
from stormwright.errors import Fault, InputError
from stormwright.formats import placement_to_dict
from stormwright.model import Problem, TopologyAssignment
from stormwright.model.assignment import UNPLACED
from stormwright.model.topology_config import SUBMITTED_WORKERS
from stormwright.plans.json import placement_of_dict
from stormwright.predict.flow.profile import Profile
from stormwright.service.composition import Service
from stormwright.simulator.cluster.clock import VirtualClock
from stormwright.simulator.cluster.nimbus import ACTIVE, INACTIVE
from stormwright.simulator.cluster.storm import VirtualStorm
from stormwright.simulator.cluster.timings import Timings
from stormwright.simulator.engine import NOWHERE, Engine
from stormwright.simulator.settings import SimulatorSettings
from stormwright.simulator.steady_engine import SteadyEngine, SteadySettings
from stormwright.simulator.storm.engine import Events
from stormwright.simulator.storm.start import most_at_once
from stormwright.workbench.ready_problems import read_problem
from stormwright.workbench.simulated.cluster import BACKLOG_S, evenly
from stormwright.workbench.simulated.loads import CountedLoads
from stormwright.workbench.simulated.simulation import RateChange, read_trace

#: Maximum number of executors whose workers report every virtual second; maximum number of executors whose profile is
#: made as often as by a pipeline, and that period; and the longest time between two reports of a worker.
_EACH_SECOND, _EACH_PROFILE, _PROFILE_S, _CALM_S = 500, 5_000, 3.0, 60.0

#: Virtual seconds in which running topologies start and are measured before the service is usable.
_BEFORE_S = 9.0

#: Tuples per second that are simulated singly, sets of them if there are more; and sets per virtual second that
#: one core simulates in real time with some to spare: 510,000 of ``ready:cluster-200`` were measured to take 0.65 s,
#: 54,000 of ``ready:cluster-20`` 0.03 s.
_SINGLE_TPS, _SETS_PER_S = 100_000.0, 600_000.0

#: Part by which times of trees vary from one interval to the next without tuples.
_VARIES = 0.05

#: Records that are delivered together.
_TOGETHER = 50

#: File in the state directory with the placement of the virtual cluster, and virtual seconds from one save to the next.
_FILE, _SAVE_S = "virtual-cluster.json", 1.0


@dataclass(frozen=True)
class _StoredPlacement:
    """Where a topology ran when an earlier service ended, with its number of workers, and whether it was paused."""

    assignment: TopologyAssignment | None
    num_workers: int
    is_paused: bool


@dataclass(frozen=True)
class EngineChoice:
    """Choice of the engine of a virtual cluster.

    Parameters
    ----------
    problem
        Problem with nodes, topologies and their load.
    start_s
        Seconds that a worker takes to start.
    tuples_at_once
        Tuples per event; None for predicted rates without tuples.
    description
        Description of the simulation, for messages.
    """

    problem: Problem
    start_s: float
    tuples_at_once: int | None
    description: str

    @classmethod
    def of(cls, problem: Problem, peak: float, start_s: float, speed: float = 1.0) -> Self:
        """Choose tuples unless there are too many of them to simulate in real time.

        Parameters
        ----------
        problem
            Problem with nodes, topologies and their load.
        peak
            Highest factor of the measured rates.
        start_s
            Seconds that a worker takes to start.
        speed
            Virtual seconds per second that are wanted; larger sets reach more.
        """
        profile = Profile.of(problem)
        tuples_per_s, most = peak * float(profile.handled_tps.sum()), most_at_once(problem, profile)
        if tuples_per_s <= _SETS_PER_S * most:
            at_once = min(max(ceil(speed * tuples_per_s / _SINGLE_TPS), 1), most)
            return cls(problem, start_s, at_once, f"tuples in sets of {at_once}" if at_once > 1 else "single tuples")
        limit = (
            f"{tuples_per_s:,.0f} tuples/s are too many to simulate in real time (at most {_SETS_PER_S * most:,.0f})"
        )
        return cls(problem, start_s, None, f"predicted rates without tuples, none of which is lost or late: {limit}")

    def make(self) -> Engine:
        """Return the engine, with nothing running yet; its machine code may have to be compiled."""
        if self.tuples_at_once is None:
            steadily = SteadySettings(start_s=self.start_s, varies=_VARIES)
            return SteadyEngine(self.problem.with_nothing_running(), steadily)
        settings = SimulatorSettings.of(
            self.problem,
            arrivals_vary=0.0,
            backlog_s=BACKLOG_S,
            startup_s=self.start_s,
            tuples_at_once=self.tuples_at_once,
        )
        return Events(self.problem, np.full(self.problem.num_executors, NOWHERE, np.int32), settings)


class ServedCluster:
    """The cluster of a problem, which runs automatically once a service is started.

    Topologies that the problem has somewhere run there; those that it has nowhere are submitted, and placed by the
    service. If the state directory has a placement from before, also of a service that was killed, they run there.

    Parameters
    ----------
    problem
        Problem with nodes, topologies and their load.
    trace
        Changes of the spouts' rates, in seconds since the start.
    speed
        Virtual seconds in a second of this machine, at most.

    Attributes
    ----------
    clock
        Virtual time.
    engine
        Choice of the engine.
    """

    def __init__(self, problem: Problem, trace: Sequence[RateChange] = (), speed: float = 1.0) -> None:
        self._problem, self._trace, self._speed = problem, trace, speed
        executors = problem.num_executors
        calm_s = min(executors / _EACH_SECOND, _CALM_S) if executors > _EACH_SECOND else 0.0
        self._timings = Timings(calm_s=calm_s)
        self.clock = VirtualClock(time.time())
        peak = max((change.factor for change in trace), default=1.0)
        self.engine = EngineChoice.of(problem, max(peak, 1.0), self._timings.start_s, speed)
        self._saved: tuple[int, tuple[str, ...]] | None = None

    @cached_property
    def storm(self) -> VirtualStorm:
        """The virtual cluster; its engine may have to be compiled."""
        return VirtualStorm(self.clock, self._problem, self.engine.make(), evenly, self._timings)

    @cached_property
    def loads(self) -> CountedLoads:
        """Load measurement for the service."""
        return CountedLoads(self.storm, profile_every_s(self._problem.num_executors))

    def begin(self, service: Service) -> None:
        """Start everything already placed, have the service place the rest, and keep pace from then on.

        Parameters
        ----------
        service
            Running service, used by Nimbus and workers.
        """

        def deliver(lines: Sequence[bytes]) -> None:
            for first in range(0, len(lines), _TOGETHER):
                service.intake.count(service.intake.parse(lines[first : first + _TOGETHER]))

        problem, self.storm.nimbus.ask = self._problem, service.bridge.answer
        document = FileDocument(service.settings.state_dir / _FILE)
        lost = f"topologies run where {problem.name or 'the file'} has them"
        nothing: dict[str, _StoredPlacement] = {}
        stored = read_or_default(document, self._parse, lambda: nothing, lost)
        for number, topology in enumerate(problem.topologies):
            somewhere = (problem.current_slot[problem.executors_of(number)] != UNPLACED).all()
            placed = problem.current[topology.id] if somewhere else None
            if before := stored.get(topology.id):
                conf = {SUBMITTED_WORKERS: topology.num_workers, **topology.conf}
                topology = replace(topology, num_workers=before.num_workers, conf=conf)
                placed = before.assignment
            self.storm.submit(topology, placed)
            if before and before.is_paused:
                self.storm.nimbus.deactivate(topology.name)
        self.clock.sleep(_BEFORE_S)
        self.clock.every(_SAVE_S, lambda: self._save(document))
        self.storm.nimbus.look()
        self.loads.measure()
        self.storm.deliver = deliver
        for change in self._trace:
            every = range(len(problem.topologies)) if change.topology is None else (change.topology,)
            for number in every:
                self.clock.after(change.at_s, partial(self._rate, number, change.factor))
        self.clock.keep_pace(self._speed)

    def _parse(self, text: str) -> dict[str, _StoredPlacement]:
        """Return the stored placements of topologies (ids) that still fit the problem."""
        problem, found = self._problem, dict[str, _StoredPlacement]()
        for topology, raw in json.loads(text).items():
            if topology not in problem.topology_index:
                continue
            assignment = placement_of_dict(raw["placement"]) if raw["placement"] else None
            executors = problem.topologies[problem.topology_index[topology]].num_executors
            slots = assignment.slots if assignment else ()
            if assignment is None or (
                len(assignment.slot_of_executor) == executors and all(slot in problem.slot_index for slot in slots)
            ):
                found[topology] = _StoredPlacement(assignment, int(raw["workers"]), bool(raw["paused"]))
        return found

    def _save(self, document: Document) -> None:
        """Store where topologies run, if that has changed, as ZooKeeper does for a real cluster."""
        entries = self.storm.nimbus.entries
        key = self.storm.nimbus.changes, tuple(each.status for each in entries.values())
        if key == self._saved:
            return
        stored = {
            topology: {
                "placement": placement_to_dict(each.assignment) if each.assignment else None,
                "workers": each.topology.num_workers,
                "paused": INACTIVE in (each.status, each.before) and each.status != ACTIVE,
            }
            for topology, each in entries.items()
        }
        document.save(json.dumps(stored))
        self._saved = key

    def _rate(self, topology: int, factor: float) -> None:
        self.storm.engine.until(self.clock.monotonic())
        self.storm.engine.rate(topology, factor)


def profile_every_s(executors: int) -> float:
    """Return the virtual seconds between load profiles for a number of executors."""
    return max(_PROFILE_S, executors / _EACH_PROFILE)


def served_cluster(file: Path, trace: Path | None, speed: float) -> ServedCluster:
    """Return the cluster of a problem's file.

    Raises
    ------
    InputError
        A file cannot be read, is something else, or there is nothing to simulate.
    """
    problem = read_problem(file)
    if not problem.topologies or not problem.supervisors:
        what = "topologies" if problem.supervisors else "nodes"
        raise InputError(str(file), [Fault(f"there are no {what}, so there is nothing to simulate", "$")])
    return ServedCluster(problem, read_trace(trace, problem) if trace else (), speed)
