"""Virtual clusters with the part of a service that moves topologies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from stormwright.base.documents import FileDocument
from stormwright.controller.move import Mover
from stormwright.controller.reports import MoveLimits
from stormwright.controller.safety.pauses import Pauses
from stormwright.controller.tally import Tally
from stormwright.model import Problem, TopologyAssignment
from stormwright.model.assignment import UNPLACED
from stormwright.perflog.records import RejectedLine, parse_lines
from stormwright.schedulers import make_scheduler
from stormwright.simulator.cluster.clock import VirtualClock
from stormwright.simulator.cluster.storm import VirtualStorm
from stormwright.simulator.steady_engine import SteadyEngine, SteadySettings
from stormwright.storm.bridge import Bridge, NimbusAnswer
from stormwright.testing.word_counts import two_word_counts

EVEN = make_scheduler("even")


def evenly(problem: Problem) -> NimbusAnswer:
    """What has no slots goes where Even has it."""
    placed = EVEN.schedule(problem).by_topology(problem)
    nowhere = [np.any(problem.current_slot[problem.executors_of(i)] < 0) for i in range(len(problem.topologies))]
    lacking = [t.id for t, lacks in zip(problem.topologies, nowhere, strict=True) if lacks]
    return NimbusAnswer({each: placed[each] for each in lacking if UNPLACED not in placed[each].slot_of_executor})


def words(slots: int = 4, **settings: Any) -> Problem:
    """Two word counts that run nowhere, on three nodes, with what they were measured to do in one worker."""
    problem = replace(two_word_counts(**settings), current={})
    nodes = tuple(replace(node, ports=tuple(range(6700, 6700 + slots))) for node in problem.supervisors)
    one = {t.id: TopologyAssignment(problem.slots[:1], (0,) * t.num_executors) for t in problem.topologies}
    return replace(problem, supervisors=nodes, measured=one)


@dataclass
class Running:
    """A virtual cluster on which everything of a problem runs, and who moves it."""

    clock: VirtualClock
    storm: VirtualStorm
    bridge: Bridge
    tally: Tally
    mover: Mover
    records: list[dict[str, Any]]


def running(problem: Problem, directory: Path, engine: Callable[[Problem], Any] | None = None) -> Running:
    """Submit all topologies of a problem and let them come up."""
    clock = VirtualClock(1_795_219_140.0)
    offered = {topology.id: np.inf for topology in problem.topologies}
    made = engine(problem) if engine else SteadyEngine(problem, SteadySettings(offered_tps=offered))
    storm = VirtualStorm(clock, problem, made, evenly)
    bridge, tally = Bridge(EVEN, "even", clock=clock), Tally(clock=clock)
    records: list[dict[str, Any]] = []

    def deliver(lines: Sequence[bytes]) -> None:
        found = list(parse_lines(lines))
        assert not [each for each in found if isinstance(each, RejectedLine)]
        records.extend(tally.add([each for each in found if not isinstance(each, RejectedLine)]))  # type: ignore[arg-type]

    storm.nimbus.ask, storm.deliver = bridge.answer, deliver
    for topology in problem.topologies:
        storm.submit(topology)
    clock.sleep(20)
    mover = Mover(storm.nimbus, bridge, tally, Pauses(FileDocument(directory / "paused.json")), MoveLimits())
    return Running(clock, storm, bridge, tally, mover, records)
