"""A move that makes a topology worse on purpose, on a real Storm cluster: how soon it is taken back, and tuples lost.

python -m benchmarks.storm.taken_back [--kind slow|broken] [--cores 0.25] [--work-us 400]

Kind ``slow``: a chain of bolts that compute runs on three nodes, each held to its cores. A scheduler puts all of it on
one node, for little traffic, and the move is made without a promise and without a limit of CPU: by now predictions know
that it more than halves the rate, and a loss that was predicted and asked for is not taken back. Kind ``broken``: a
topology in one worker needs what only the node has on which it ran first, and is moved to another one, where its worker
ends again and again: a person applies that plan, as no decision would want it. Its trees of that time are replayed by
its spout. The service runs as `serve` does.
Workers compile with C1 only, so that they are warm in seconds.
"""

from __future__ import annotations

import argparse
import logging
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.kit.results import show_progress, write_results
from stormwright.client import Client
from stormwright.controller import propose
from stormwright.controller.objectives.outlook import TRAFFIC, Outlooks
from stormwright.controller.objectives.placements import Placements
from stormwright.controller.planning.order import MoveBudget, MoveOrder
from stormwright.controller.planning.planner import plan_moves
from stormwright.model import Assignment, Problem, TopologyAssignment
from stormwright.plans.plan import Plan, Promise
from stormwright.schedulers.toolkit.triggers import TriggerParams
from stormwright.service.composition import Service
from stormwright.service.settings import ServiceSettings
from stormwright.storm.local_cluster import LocalCluster
from stormwright.workbench.demo.run import demo_cluster
from stormwright.workbench.demo.settings import DemoSettings
from stormwright.workbench.demo.steps import finish, snapshot_of, submit
from stormwright.workbench.demo.submissions import Submission, parse_submissions

#: Code that the page measures.
MEASURES = (
    "src/stormwright/history/evaluation",
    "src/stormwright/controller/policy.py",
    "src/stormwright/controller/draining.py",
    "src/stormwright/controller/move.py",
    "src/stormwright/controller/planning",
    "java/src/main/java/stormwright/standby",
    "java/src/main/java/stormwright/bridge",
)

#: Seconds after which it is given up.
PATIENCE_S = 300.0

#: Seconds for which a topology runs before a person moves it, so that its rate is known.
WARM_S = 60.0

log = logging.getLogger("storm_taken_back")


def without_limits(
    placements: Placements, assignment: Assignment, budget: MoveBudget, staying: dict[str, Any], **_: Any
) -> MoveOrder:
    """Order moves however little CPU the nodes have."""
    return plan_moves(placements.problem, assignment, budget, staying, cpu_limits=False)


class AllOnOneNode:
    """Puts everything on the first node, in as many workers as are asked for."""

    def schedule(self, problem: Problem) -> Assignment:
        (topology,) = problem.topologies
        own = np.flatnonzero(np.asarray(problem.slot_node) == 0)[-topology.num_workers :]
        return Assignment(own[np.arange(problem.num_executors) % len(own)].astype(np.int32))


@dataclass
class Course:
    """When what happened, in seconds since the topology was up; None where it has not."""

    moved_s: float | None = None
    known_s: float | None = None
    back_s: float | None = None
    why: str = ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kind", choices=("slow", "broken"), default="slow")
    parser.add_argument("--cores", type=float, default=0.25)
    parser.add_argument("--work-us", type=int, default=400)
    options = parser.parse_args()
    show_progress()
    Outlooks.promises = lambda _, __, topologies: {each: Promise() for each in topologies}  # type: ignore[method-assign]
    # By the measured CPU the node is too small, so the move would be refused.
    propose.plan_valid_moves = without_limits  # type: ignore[attr-defined]
    config = demo_cluster(
        slots=4,
        link=None,
        cores_per_node=options.cores,
        start_timeout_s=400,
        storm_conf={
            "supervisor.cpu.capacity": 1000 * options.cores,
            "topology.worker.childopts": "-XX:TieredStopAtLevel=1",
        },
    )
    with LocalCluster(config) as cluster, tempfile.TemporaryDirectory() as state:
        if options.kind == "slow":
            submissions = parse_submissions([f"linear:name=chain,work_us={options.work_us},workers=3"])
        else:
            bound = {"kind": "bound", "home": f"{state}/home", "rate": "200"}
            submissions = [Submission("chain", "stormwright.topologies.Odd", bound)]
        demo = DemoSettings(config, submissions, AllOnOneNode(), "forced")
        settings = ServiceSettings(
            Path(state),
            cluster.service_host,
            cluster.service_port,
            triggers=TriggerParams(period_s=10, cool_down_s=10),
            objective=TRAFFIC,
            mode="auto" if options.kind == "slow" else "observe",
        )
        with Service(settings, demo.scheduler, "forced", cluster.gateway_command()) as service:
            ids = submit(demo, cluster, service)
            course = follow(service, None if options.kind == "slow" else Client(cluster.service_url, "benchmark"))
            time.sleep(20)  # what it does in its old place again, and whether it is left there
            moves, status = service.memory.counts.moves, service.status()
            finish(service, list(ids))
            totals = service.tally.totals(ids["chain"])
            lost = service.tally.unaccounted(ids["chain"])
    report(options, course, moves, (totals.begun, totals.failed, lost), status.evaluation)


def follow(service: Service, person: Client | None) -> Course:
    """Let the service run until a topology was moved, by it or by a person, and has been taken back."""
    course, stop, begin = Course(), threading.Event(), time.monotonic()
    running = threading.Thread(target=service.run, args=(stop,), daemon=True)
    running.start()
    try:
        plan = apply_to_another_node(service, person) if person else ""
        while course.back_s is None and time.monotonic() < begin + PATIENCE_S and running.is_alive():
            time.sleep(0.1)
            now_s, memory = time.monotonic() - begin, service.memory
            if course.moved_s is None and memory.counts.moves == 1:
                course.moved_s = now_s
            if course.known_s is None and (why := why_back(service, person, plan)):
                course.known_s, course.why = now_s, why
            if memory.counts.rolled_back:
                course.back_s = now_s
    finally:
        threading.Timer(15.0, stop.set).start()
    return course


def apply_to_another_node(service: Service, person: Client) -> str:
    """Apply a plan that moves the worker of the only topology to a node that it does not run on; return its id."""
    time.sleep(WARM_S)
    problem = snapshot_of(service)
    ((topology, placed),) = problem.current.items()
    (here,) = placed.slots
    other = next(slot for slot in problem.slots if slot.supervisor != here.supervisor)
    wanted = TopologyAssignment((other,), placed.slot_of_executor)
    plan = person.plan("benchmark", placements={topology: wanted}, allow=["replay"])
    person.wait_until_planned(plan.id)
    return person.apply(plan.id, "benchmark").id


def why_back(service: Service, person: Client | None, plan: str) -> str:
    """Why the topology goes back, once that is known; empty until then."""
    if person is None:
        decision = service.memory.decision
        return decision.reason if isinstance(decision, Plan) and decision.rolls_back else ""
    shown = person.show(plan)
    return shown.why if shown.state in ("rolling_back", "rolled_back") else ""


def report(
    options: argparse.Namespace, course: Course, moves: int, trees: tuple[int, int, int], judged: dict[str, Any]
) -> None:
    begun, failed, lost = trees

    def between(one: float | None, other: float | None) -> str:
        return "never" if one is None or other is None else f"{other - one:.1f} s"

    rows = [
        ("from the end of the move until all runs where it was", "≤ 60 s", between(course.moved_s, course.back_s)),
        ("of this, from knowing that it is worse", "", between(course.known_s, course.back_s)),
        ("from the start of the workers until the first move", "", between(0.0, course.moved_s)),
        (
            f"tuple trees failed; lost, of {begun:,}",
            "0; 0" if options.kind == "slow" else "replayed; 0",
            f"{failed}; {abs(lost)}",
        ),
        ("moves, of which one back", "2", str(moves)),
    ]
    details = {"why": course.why, "course": vars(course), "options": vars(options), "evaluation": judged}
    what = "a chain of bolts" if options.kind == "slow" else "a topology that runs on one node only"
    title = f"A worse move taken back: {what}, 3 nodes of {options.cores:g} cores"
    write_results(f"storm-taken-back{'-broken' * (options.kind == 'broken')}", title, rows, details)
    log.info(course.why)


if __name__ == "__main__":
    main()
