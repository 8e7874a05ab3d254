"""Tuples in simulated clusters: lost and replayed if workers are killed with them, and not in a safe move."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from stormwright_lab.chaos.virtual.schedule import Schedule
from stormwright_lab.chaos.virtual.world import VirtualWorld

from stormwright.base.documents import FileDocument
from stormwright.controller.move import Mover
from stormwright.controller.planning.order import MoveBudget
from stormwright.controller.planning.planner import plan_moves
from stormwright.controller.reports import MoveLimits
from stormwright.controller.safety.pauses import Pauses
from stormwright.controller.tally import Tally
from stormwright.model import Assignment, Problem
from stormwright.model.arrays import IntArray
from stormwright.perflog.records import RejectedLine, parse_lines
from stormwright.schedulers import make_scheduler
from stormwright.simulator.cluster.storm import VirtualStorm
from stormwright.simulator.cluster.supervisors import Worker
from stormwright.simulator.engine import EngineCounts
from stormwright.simulator.steady_engine import SteadyEngine
from stormwright.simulator.storm.engine import Events
from stormwright.storm.bridge import Bridge, NimbusAnswer
from stormwright.testing.word_counts import two_word_counts
from stormwright.workbench.demo.topologies import parse_submissions
from stormwright.workbench.ready_problems import read_problem
from stormwright.workbench.simulated.cluster import SimulatedCluster, virtual_cluster
from stormwright.workbench.simulated.served_cluster import EngineChoice, ServedCluster

#: Trees/s of a topology; those of the exploration have a third.
RATE_TPS = 100


def demonstrated() -> VirtualStorm:
    """The cluster of `demo --simulated` with one topology in three workers."""
    submissions = parse_submissions([f"word-count:rate={RATE_TPS},workers=3,pending=100000"])
    cluster = SimulatedCluster(virtual_cluster(3, 6, None, None), submissions, 1000)
    cluster.storm.submit(cluster.storm.problem.topologies[0])
    return cluster.storm


def served() -> VirtualStorm:
    """The cluster of `serve --simulated`, with one topology of three workers."""
    problem = two_word_counts(cores=4.0, rate_tps=RATE_TPS)
    nodes = tuple(replace(node, ports=tuple(range(6700, 6706))) for node in problem.supervisors)
    storm = ServedCluster(replace(problem, supervisors=nodes)).storm
    storm.submit(problem.topologies[1])
    return storm


def explored() -> VirtualStorm:
    """The cluster of the exploration."""
    return VirtualWorld(Schedule(1)).storm


class Watched:
    """A virtual cluster with the parts of a service that move topologies, and the sums of its counts."""

    def __init__(self, make: Callable[[], VirtualStorm], directory: Path) -> None:
        self.storm = make()
        self._counts: list[EngineCounts] = []
        self.storm.heard = self._counts.append
        self.bridge = Bridge(make_scheduler("even"), "even", clock=self.storm.clock)
        self.tally = Tally(clock=self.storm.clock)
        self.storm.nimbus.ask, self.storm.deliver = self.bridge.answer, self._deliver
        pauses = Pauses(FileDocument(directory / "paused.json"))
        self.mover = Mover(self.storm.nimbus, self.bridge, self.tally, pauses, MoveLimits())
        self.storm.clock.sleep(30.0)

    def _deliver(self, lines: Sequence[bytes]) -> None:
        self.tally.add([each for each in parse_lines(lines) if not isinstance(each, RejectedLine)])

    def sum(self, name: str) -> int:
        """Return the sum of a count over all topologies since the start."""
        self.storm.count()
        return sum(int(getattr(each, name).sum()) for each in self._counts)

    def bolt_worker(self) -> Worker:
        """Return a worker without spouts, of a topology that has others."""
        problem, workers = self.storm.problem, list(self.storm.supervisors.workers.values())
        kinds = [t.components[each].type for t in problem.topologies for each in t.executor_component]
        return next(
            worker
            for worker in workers
            if sum(other.topology == worker.topology for other in workers) > 1
            and all(kinds[executor] != "spout" for executor in worker.executors)
        )

    def elsewhere(self, worker: Worker) -> tuple[Problem, IntArray]:
        """Return the running cluster, and a placement with a worker in a free slot of another node."""
        problem = self.bridge.snapshot()
        assert problem is not None
        slots, node = problem.current_slot, problem.slot_node
        free = next(
            slot
            for slot in range(len(problem.slots))
            if slot not in slots and problem.supervisors[node[slot]].id != worker.supervisor
        )
        return problem, np.where(slots == worker.slot, free, slots).astype(np.int32)


@pytest.fixture(params=[demonstrated, served, explored])
def watched(request: pytest.FixtureRequest, tmp_path: Path) -> Watched:
    return Watched(request.param, tmp_path)


def test_killed_worker_loses_tuples_until_it_is_up_and_their_trees_are_replayed(watched: Watched) -> None:
    assert watched.sum("lost") == 0
    worker = watched.bolt_worker()
    watched.storm.supervisors.kill(worker.supervisor, worker.port)
    watched.storm.clock.sleep(8.0)
    # Spouts of other workers go on: each tree with a tuple for this one is lost.
    lost = watched.sum("lost")
    assert lost > 0.5 * RATE_TPS
    completed = watched.sum("completed")
    watched.storm.clock.sleep(90.0)
    assert watched.sum("replayed") == watched.sum("timed_out") >= lost
    # Spouts wait for up to twice the timeout once as many trees as may be pending are lost.
    assert watched.sum("completed") - completed > 10 * RATE_TPS


@pytest.mark.long
def test_naive_move_loses_tuples_and_replays_their_trees(watched: Watched) -> None:
    problem, wanted = watched.elsewhere(watched.bolt_worker())
    placed = Assignment(wanted).by_topology(problem)
    watched.storm.nimbus.ask = lambda _: NimbusAnswer(placed)
    watched.storm.clock.sleep(20.0)
    lost = watched.sum("lost")
    assert lost > 0.5 * RATE_TPS
    watched.storm.clock.sleep(90.0)
    assert watched.sum("replayed") == watched.sum("timed_out") >= lost


@pytest.mark.long
def test_safe_move_neither_loses_nor_replays_a_tree(watched: Watched) -> None:
    worker = watched.bolt_worker()
    problem, wanted = watched.elsewhere(worker)
    plan = plan_moves(problem, Assignment(wanted), MoveBudget(), cpu_limits=False)
    for step in plan.steps:
        watched.mover.move(step, "a test")
    assert plan.steps
    assert worker not in watched.storm.supervisors.workers.values()
    watched.storm.clock.sleep(90.0)
    assert [watched.sum(name) for name in ("lost", "timed_out", "replayed")] == [0, 0, 0]
    assert watched.sum("completed") > 10 * RATE_TPS


@pytest.mark.long
@pytest.mark.parametrize(("nodes", "kind"), [(20, Events), (1_000, SteadyEngine)])
def test_served_cluster_follows_tuples_unless_there_are_too_many(nodes: int, kind: type) -> None:
    choice = EngineChoice.of(read_problem(Path(f"ready:cluster-{nodes}")), 1.0, 6.0)
    assert (choice.tuples_at_once is None) == (kind is SteadyEngine)
    assert type(choice.make()) is kind


def test_rate_that_will_rise_counts_in_the_choice() -> None:
    problem = read_problem(Path("ready:cluster-20"))
    assert EngineChoice.of(problem, 20.0, 6.0).tuples_at_once is None


def test_more_speed_takes_larger_sets() -> None:
    problem = two_word_counts()
    assert EngineChoice.of(problem, 1.0, 6.0).tuples_at_once == 1
    assert EngineChoice.of(problem, 1.0, 6.0, speed=20.0).tuples_at_once > 5
