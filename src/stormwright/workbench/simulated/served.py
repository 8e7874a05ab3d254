"""A virtual cluster of any size under a running service, to explore without Storm."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from stormwright.errors import Fault, InputError
from stormwright.model import Problem
from stormwright.model.assignment import UNPLACED
from stormwright.service.composition import Service
from stormwright.simulator.cluster.clock import VirtualClock
from stormwright.simulator.cluster.storm import VirtualStorm
from stormwright.simulator.cluster.timings import Timings
from stormwright.simulator.steady_engine import SteadyEngine, SteadySettings
from stormwright.workbench.ready_problems import read_problem
from stormwright.workbench.simulated.cluster import evenly
from stormwright.workbench.simulated.loads import CountedLoads
from stormwright.workbench.simulated.placement import RateChange, read_trace

#: Maximum number of executors whose workers report every virtual second; maximum number of executors whose profile is
#: made as often as by a pipeline, and that period; and the longest time between two reports of a worker.
_EACH_SECOND, _EACH_PROFILE, _PROFILE_S, _CALM_S = 500, 5_000, 3.0, 60.0

#: Virtual seconds in which running topologies start and are measured before the service is usable.
_BEFORE_S = 9.0

#: Part by which times of trees vary from one interval to the next.
_VARIES = 0.05

#: Records that are delivered together.
_TOGETHER = 50


class ServedCluster:
    """The cluster of a problem, which runs automatically once a service is started.

    Topologies that the problem has somewhere run there; those that it has nowhere are submitted, and placed by the
    service.

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
    loads
        Load measurement for the service.
    """

    def __init__(self, problem: Problem, trace: Sequence[RateChange] = (), speed: float = 1.0) -> None:
        self._problem, self._trace, self._speed = problem, trace, speed
        executors = problem.num_executors
        calm_s = min(executors / _EACH_SECOND, _CALM_S) if executors > _EACH_SECOND else 0.0
        timings = Timings(calm_s=calm_s)
        self.clock = VirtualClock(time.time())
        settings = SteadySettings(start_s=timings.start_s, varies=_VARIES)
        engine = SteadyEngine(problem.with_nothing_running(), settings)
        self.storm = VirtualStorm(self.clock, problem, engine, evenly, timings)
        self.loads = CountedLoads(self.storm, profile_every_s(executors))

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
        for number, topology in enumerate(problem.topologies):
            somewhere = (problem.current_slot[problem.executors_of(number)] != UNPLACED).all()
            self.storm.submit(topology, problem.current[topology.id] if somewhere else None)
        self.clock.sleep(_BEFORE_S)
        self.storm.nimbus.look()
        self.loads.measure()
        self.storm.deliver = deliver
        for change in self._trace:
            every = range(len(problem.topologies)) if change.topology is None else (change.topology,)
            for number in every:
                self.clock.after(change.at_s, partial(self._rate, number, change.factor))
        self.clock.keep_pace(self._speed)

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
