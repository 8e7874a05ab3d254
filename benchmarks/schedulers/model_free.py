"""Reinforcement learning on topologies that it was trained for, at other rates, and on those that it has not seen.

    python -m benchmarks.schedulers.model_free [--samples 2000] [--steps 1500] [--rates 6]

In virtual time. An agent is trained for each of five topologies of 16 or 17 executors on five nodes, at random rates;
then it places the topology at other rates, and topologies of the same executors whose tuples are five times as large
and, but for the reference topology, whose bolts work twice as long. The time of a tuple tree is compared with that
under Storm's EvenScheduler, `online` and `optimizer`, from the same random seeds. One core.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from statistics import geometric_mean
from typing import Any

import numpy as np
from stormwright_lab.evaluations.learning.model_free import ControlSettings, VirtualTopology, train_agent

from benchmarks.kit.results import write_results
from stormwright.errors import SchedulerError
from stormwright.model import Problem
from stormwright.model.arrays import IntArray
from stormwright.predict.changes import with_rates
from stormwright.schedulers import make_scheduler
from stormwright.schedulers.portfolio.agent import Agent
from stormwright.workbench.demo.topologies import parse_submissions
from stormwright.workbench.simulated.topologies import simulated_problem, simulated_topologies

#: Code that the page measures.
MEASURES = (
    "lab/src/stormwright_lab/evaluations/learning/model_free.py",
    "src/stormwright/schedulers/model_free.py",
    "src/stormwright/schedulers/portfolio/agent.py",
    "src/stormwright/simulator",
)

#: Topology → the same with other costs: more work, larger tuples.
TOPOLOGIES: Mapping[str, tuple[str, str]] = {
    "linear": (
        "linear:spout=2,bolt-1=4,bolt-2=4,bolt-3=4,bytes=500,work_us=40",
        "linear:spout=2,bolt-1=4,bolt-2=4,bolt-3=4,bytes=2500,work_us=80",
    ),
    "diamond": (
        "diamond:spout=2,bolt-1=3,bolt-2=3,bolt-3=3,sink=3,bytes=500,work_us=40",
        "diamond:spout=2,bolt-1=3,bolt-2=3,bolt-3=3,sink=3,bytes=2500,work_us=80",
    ),
    "star": (
        "star:spout-1=2,spout-2=2,center=4,sink-1=3,sink-2=3,bytes=500,work_us=40",
        "star:spout-1=2,spout-2=2,center=4,sink-1=3,sink-2=3,bytes=2500,work_us=80",
    ),
    "reference": ("reference:stages=3,replication=3,payload=500", "reference:stages=3,replication=3,payload=2500"),
    "page load": (
        "page-load:spout=2,transform=2,filter-1=2,join=2,filter-2=2,aggregate=2,sink=2,bytes=500,work_us=40",
        "page-load:spout=2,transform=2,filter-1=2,join=2,filter-2=2,aggregate=2,sink=2,bytes=2500,work_us=80",
    ),
}

#: Nodes with their cores and links, and the highest rate of the training in parts of the highest under Even.
NODES, CORES, LINK, SHARE = 5, 0.4, "25mbit", 0.7

OTHERS = ("online", "optimizer")


def main() -> None:
    """Train, place and compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=2_000, help="random assignments that are measured first")
    parser.add_argument("--steps", type=int, default=1_500, help="assignments that the agent chooses")
    parser.add_argument("--rates", type=int, default=6, help="rates at which a topology is placed")
    options = parser.parse_args()
    rows, details = list[tuple[str, str, str]](), dict[str, Any]()
    ratios: dict[str, list[float]] = {"seen": [], "other costs": []}
    for name, (own, other) in TOPOLOGIES.items():
        begun_s = time.process_time()
        environment = VirtualTopology(_problem(own))
        agent = train_agent(environment, ControlSettings(options.samples, options.steps))
        trained_s = time.process_time() - begun_s
        for kind, judged in (("seen", environment), ("other costs", VirtualTopology(_problem(other)))):
            found = [_compared(judged, agent, rate, seed) for seed, rate in enumerate(_rates(options.rates))]
            means = {each: geometric_mean([one[each] for one in found]) for each in ("model_free", *OTHERS)}
            ratios[kind].append(means["model_free"])
            text = ", ".join(f"{each} {ratio:.2f}" for each, ratio in means.items())
            what = "other rates" if kind == "seen" else "other work and tuples, not seen"
            rows.append((f"{name}, {what}: time of a tree / under Even", "", text))
            details[f"{name}, {kind}"] = found
        rows.append((f"{name}: training", "", f"{trained_s:,.0f} CPU s"))
        print(*rows[-3:], sep="\n", flush=True)
    for kind, own_ratios in ratios.items():
        rows.append((f"geometric mean, {kind}", "", f"{geometric_mean(own_ratios):.2f}"))
    title = "Control by reinforcement learning, in virtual time"
    write_results("model-free-control", title, rows, {"compared": details})


def _problem(text: str) -> Problem:
    """Return a topology at a part of the highest rate that it reaches under Storm's own scheduler."""
    problem = simulated_problem(simulated_topologies(parse_submissions([text])), NODES, CORES, LINK)
    environment = VirtualTopology(problem)
    low, high = 0.01, 50.0
    for _ in range(20):
        middle = (low * high) ** 0.5
        if np.isfinite(environment.latency_ms(environment.even, middle, 0)):
            low = middle
        else:
            high = middle
    return with_rates(problem, np.array([SHARE * low]))


def _rates(count: int) -> list[float]:
    """Return parts of the rate between those of the training, which are drawn."""
    return [0.4 + 0.6 * (number + 0.5) / count for number in range(count)]


def _compared(environment: VirtualTopology, agent: Agent, rate: float, seed: int) -> dict[str, float]:
    """Return the time of a tree by scheduler, divided by that under Even; 10 where trees do not get through."""
    even_ms = environment.latency_ms(environment.even, rate, 10_000 + seed)
    problem = with_rates(environment.problem, np.array([rate])).with_nothing_running()
    found = {"rate": rate, "even_ms": even_ms}
    for name in OTHERS:
        settings = {"objective": "latency", "time_budget_s": 1.0} if name == "optimizer" else {}
        found[name] = _ratio(environment, _nodes(problem, name, settings), rate, seed, even_ms)
    chosen = agent.choose(environment.even, rate * environment.rate_tps)[0]
    found["model_free"] = _ratio(environment, chosen, rate, seed, even_ms)
    return found


def _nodes(problem: Problem, name: str, settings: Mapping[str, Any]) -> IntArray:
    slots = make_scheduler(name, dict(settings)).schedule(problem).slot_of_executor
    if np.any(slots < 0):
        raise SchedulerError(f"{name} has no slot for an executor")
    nodes: IntArray = problem.slot_node[slots].astype(np.int32)
    return nodes


def _ratio(environment: VirtualTopology, nodes: IntArray, rate: float, seed: int, even_ms: float) -> float:
    return min(environment.latency_ms(nodes, rate, 10_000 + seed) / even_ms, 10.0)


if __name__ == "__main__":
    main()
