"""What it is worth that a search follows Storm's locality-aware shuffle, by the model and on a real cluster.

    python -m benchmarks.optimizer.flow_placement [--topologies 10,40,160] [--seconds 2] [--runs 3] [--no-storm]

By the model: clusters of pipelines that shuffle (`stormwright.testing.pipelines`), placed by `optimizer`, by the same
search told to take shuffled traffic as fixed, and by `online`, which does so too. On the real cluster: one topology of
three stages, too large for a node, placed as if new by the one search, measured, then moved to where the other puts it
and measured again; without ackers, whose traffic is fixed.
"""

from __future__ import annotations

import argparse
import logging
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.kit.results import show_progress, write_results
from stormwright.controller.planning.order import MoveBudget
from stormwright.controller.planning.planner import plan_moves
from stormwright.controller.propose import plan_of
from stormwright.model import Assignment, Problem, cost_of, violations
from stormwright.schedulers import make_scheduler
from stormwright.service.composition import Service
from stormwright.service.settings import ServiceSettings
from stormwright.storm.local_cluster import LocalCluster
from stormwright.testing.pipelines import shuffled_pipelines
from stormwright.workbench.demo.measure import measure
from stormwright.workbench.demo.run import demo_cluster
from stormwright.workbench.demo.settings import DemoSettings
from stormwright.workbench.demo.steps import measured_problem, submit
from stormwright.workbench.demo.topologies import parse_submissions

#: Code that the page measures.
MEASURES = (
    "src/stormwright/optimize",
    "src/stormwright/schedulers/optimizer.py",
)

#: Four stages at a limited rate.
TOPOLOGY = "exclamation:spouts=4,exclaim1=4,exclaim2=4,exclaim3=4,workers=4,ackers=0,rate=6000"
NODES = 4

#: Seconds before a look or a measurement, so that windows hold nothing of a move; seconds measured.
WARM_UP_S, MEASURE_S = 25.0, 20.0

log = logging.getLogger("flow_placement")

SEARCHES = {"fixed": {"follow_flows": False}, "following": {}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--topologies", default="10,40,160")
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--no-storm", action="store_true")
    options = parser.parse_args()

    rows, details = [], {}
    for number in map(int, options.topologies.split(",")):
        found = {name: by_model(number, name, options.seconds) for name in (*SEARCHES, "online")}
        ratio = found["following"]["inter_node"] / found["fixed"]["inter_node"]
        executors, nodes = found["fixed"]["executors"], found["fixed"]["nodes"]
        what = f"{number} pipelines, {executors} executors, {nodes} nodes: inter-node traffic following / fixed"
        beside = found["following"]["inter_node"] / found["online"]["inter_node"]
        rows.append((what, "≤ 0.5", f"{ratio:.3f} (beside online {beside:.3f})"))
        details[f"{number} pipelines"] = found
    if not options.no_storm:
        show_progress()
        runs = [on_storm() for _ in range(options.runs)]
        shown = "; ".join(f"{run['fixed']:.0f} → {run['following']:.0f}" for run in runs)
        rows.append(("real cluster: inter-node tuples/s, fixed → following, each run", "≤ half", shown))
        details["storm"] = runs
    write_results("flow-placement", "Placement that follows the locality-aware shuffle", rows, details)


def by_model(number: int, name: str, seconds: float) -> dict[str, Any]:
    """What a search comes to on generated pipelines."""
    problem = shuffled_pipelines(number, seed=number)
    if name in SEARCHES:
        scheduler = make_scheduler("optimizer", {"time_budget_s": seconds, **SEARCHES[name]})
    else:
        scheduler = make_scheduler(name)
    scheduler.schedule(shuffled_pipelines(1))  # compiles
    answer = scheduler.schedule(problem)
    cost = cost_of(problem, answer.slot_of_executor)
    return {
        "inter_node": cost.inter_node + cost.inter_rack,
        "cost": cost.total,
        "broken": len(violations(problem, answer.slot_of_executor)),
        "unplaced": len(answer.unplaced),
        "executors": problem.num_executors,
        "nodes": len(problem.supervisors),
    }


def on_storm() -> dict[str, float]:
    """Inter-node tuples/s of the topology with its stages apart, and where either search puts it, on a cluster."""
    cluster_config = demo_cluster(nodes=NODES)
    settings = DemoSettings(cluster_config, parse_submissions([TOPOLOGY]), make_scheduler("optimizer"), "optimizer")
    with LocalCluster(cluster_config) as cluster, tempfile.TemporaryDirectory() as state:
        service_settings = ServiceSettings(Path(state), cluster.service_host, cluster.service_port, keep_records=True)
        gateway = cluster.gateway_command()
        with Service(service_settings, settings.scheduler, settings.scheduler_name, gateway) as service:
            submit(settings, cluster, service)
            found = {"apart": moved_and_measured(service, "apart", stages_apart(measured(service)))}
            problem = with_small_nodes(measured(service))
            for name, parameters in SEARCHES.items():
                wanted = make_scheduler("optimizer", parameters).schedule(problem.with_current({}))
                found[name] = moved_and_measured(service, name, wanted)
            return found


def measured(service: Service) -> Problem:
    """The cluster and the load of the last seconds."""
    time.sleep(WARM_UP_S)
    return measured_problem(service, since_ms=time.time() * 1000)


def stages_apart(problem: Problem) -> Assignment:
    """Every component on a node of its own."""
    node = problem.topologies[0].executor_component % len(problem.supervisors)
    first_slot = np.array([np.flatnonzero(problem.slot_node == n)[0] for n in range(len(problem.supervisors))])
    return Assignment(first_slot[node])


def moved_and_measured(service: Service, name: str, wanted: Assignment) -> float:
    """Move the topology, and count what crosses between nodes then."""
    problem = measured(service)
    order = plan_moves(problem, wanted, MoveBudget())
    crossing = cost_of(problem, wanted.slot_of_executor)
    log.info(
        f"{name}: {len(order.moves)} moves; the model says {crossing.inter_node + crossing.inter_rack:.0f} tuples/s"
    )
    service.act(plan_of(problem, order).model_copy(update={"reason": f"measuring {name}"}))
    time.sleep(WARM_UP_S)
    start_ms = time.time() * 1000
    time.sleep(MEASURE_S)
    found = measure(service.tally.records(), problem.topologies[0].id, start_ms, time.time() * 1000)
    log.info(f"{name}: {found.inter_node_tps:.0f} of {found.acked_tps:.0f} tuples/s cross between {found.nodes} nodes")
    return found.inter_node_tps


def with_small_nodes(problem: Problem) -> Problem:
    """The same cluster, a node having room for 60 % of what runs: so one alone will not do."""
    cpu_hz = 0.6 * float(problem.executor_cpu_hz.sum())
    return replace(problem, supervisors=tuple(replace(node, cpu_hz=cpu_hz) for node in problem.supervisors))


if __name__ == "__main__":
    main()
