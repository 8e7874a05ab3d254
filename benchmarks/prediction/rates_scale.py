"""How long predictions, and searches by predicted rates, take for large clusters on one core; and what they gain.

    python -m benchmarks.prediction.rates_scale [--time-budgets 5,20,60] [--sizes 1000,10000,100000]
                                                [--pending 20] [--seed 1]

Problems are made in memory, as in schedulers/scale.py: topologies of about 100 executors, 20 a node, nodes 60 %
full of CPU, shuffled streams as flows. `even` has placed them. In a second kind topologies have ackers, and a limit of
the trees that each spout may have pending: what is predicted of these takes a search for rates.

The optimizer searches for throughput within its time budget, from the problem to the answer: the first of those given,
at the largest size without ackers all of them. What it gains is predicted: the least rate that any topology reaches, in
parts of the one that was measured, which is what it makes highest, beside that of `even`; and the rates of all, in the
geometric mean. Each problem is measured in a process of its own, so that its peak memory is that of one problem.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import os
import resource
import time
from dataclasses import asdict, dataclass, replace

import numpy as np

from benchmarks.kit.results import write_results
from benchmarks.schedulers.scale import EXECUTORS_A_WORKER, make_problem
from stormwright.model import Component, Grouping, LoadProfile, Problem, TopologyLoad, default_executor_runs
from stormwright.model.arrays import IntArray
from stormwright.model.requests import ACKER
from stormwright.model.topology import Topology
from stormwright.optimize.precompile import ready_rates
from stormwright.optimize.throughput.improve import ImproveEffort, improve
from stormwright.optimize.throughput.score import THROUGHPUT
from stormwright.optimize.throughput.start import Aim, MeasuredLoad, make_placement_state
from stormwright.predict.answer import predict
from stormwright.predict.costs import Costs
from stormwright.predict.evaluate import steady_states
from stormwright.predict.flow.layout import MAX_SPOUT_PENDING
from stormwright.predict.flow.profile import Profile
from stormwright.predict.prediction import Prediction
from stormwright.predict.steady import PlacedLoad
from stormwright.schedulers import make_scheduler
from stormwright.schedulers.templates.rate_seats import Seating

#: Code that the page measures.
MEASURES = (
    "src/stormwright/optimize",
    "src/stormwright/predict",
    "src/stormwright/schedulers/optimizer.py",
)

EXECUTORS_A_NODE, PAIRS_AN_EXECUTOR, LOAD = 20, 19.5, 0.6

#: Topologies that are elsewhere than in the last placement, and steps that are timed.
MOVED, STEPS = 5, 100_000

#: What is asked for at 100,000 executors: seconds; and µs of a step at 1,000.
MAX = {"evaluated": 1.0, "from the last placement": 0.1}
MAX_STEP_US = 20.0


@dataclass(frozen=True)
class Found:
    """What the optimizer took and gained in a time budget."""

    time_budget_s: float
    optimizer_s: float
    optimizer_cpu_s: float
    steps: int
    least_before: float
    least_after: float
    mean_gain: float


@dataclass(frozen=True)
class Measured:
    """What one problem took: times in seconds of CPU, and what the optimizer gained."""

    topologies: int
    executors: int
    profile_s: float
    whole_s: float
    evaluated_s: float
    from_last_s: float
    step_us: float
    found: tuple[Found, ...]
    peak_gb: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--time-budgets", default="5,20,60", help="seconds that optimizer takes")
    parser.add_argument("--sizes", default="1000,10000,100000", help="executors")
    parser.add_argument("--pending", type=int, default=20, help="trees that a spout may have pending, where limited")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    rows, details = [], {}
    sizes, budgets = ([float(each) for each in of.split(",")] for of in (options.sizes, options.time_budgets))
    for size in map(int, sizes):
        for pending in (None, options.pending):
            own = budgets if size == max(sizes) and pending is None else budgets[:1]
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                measured = pool.apply(measure, (size, pending, own, options.seed))
            with_ackers = "" if pending is None else f", ackers, {pending} trees pending"
            label = f"{measured.executors:,} executors of {measured.topologies:,} topologies{with_ackers}"
            details[label] = asdict(measured)
            new = _rows(label, measured, size)
            rows += new
            for row in new:
                print(*row, sep=" | ", flush=True)
    write_results("rates-scale", "Predictions and searches by rates on one core", rows, {"measured": details})


def _rows(label: str, it: Measured, size: int) -> list[tuple[str, str, str]]:
    wanted = {name: f"≤ {most:g} CPU s" if size == 100_000 else "" for name, most in MAX.items()}
    rows = [
        (f"{label}: load per tuple", "", f"{it.profile_s:.3f} CPU s"),
        (f"{label}: predicted whole, with intervals", "", f"{it.whole_s:.3f} CPU s"),
        (f"{label}: evaluated", wanted["evaluated"], f"{it.evaluated_s:.3f} CPU s"),
        (
            f"{label}: evaluated from the last placement, {MOVED} topologies moved",
            wanted["from the last placement"],
            f"{it.from_last_s:.3f} CPU s",
        ),
        (
            f"{label}: a step of the search",
            f"≤ {MAX_STEP_US:g} µs" if size == 1_000 else "",
            f"{it.step_us:.1f} µs",
        ),
        (f"{label}: peak memory", "", f"{it.peak_gb:.2f} GB"),
    ]
    for one in it.found:
        took = f"{one.optimizer_s:.1f} s ({one.optimizer_cpu_s:.1f} CPU s), {one.steps:,} steps"
        gain = f"least rate {one.least_before:.2f} → {one.least_after:.2f} of the measured, × {one.mean_gain:.2f} mean"
        rows.append((f"{label}: optimizer for throughput in {one.time_budget_s:g} s", "", f"{took}; {gain}"))
    return rows


def measure(executors: int, pending: int | None, budgets_s: list[float], seed: int) -> Measured:
    """What predictions and the optimizer take."""
    ready_rates()
    problem = _problem(executors, pending, seed)
    start = time.process_time()
    profile = Profile.of(problem)
    profile.graph  # noqa: B018
    profile_s = time.process_time() - start
    start = time.process_time()
    before = predict(problem, None, None, profile)
    whole_s = time.process_time() - start
    evaluated_s, from_last_s = _evaluated_s(problem, profile)
    return Measured(
        topologies=len(problem.topologies),
        executors=problem.num_executors,
        profile_s=profile_s,
        whole_s=whole_s,
        evaluated_s=evaluated_s,
        from_last_s=from_last_s,
        step_us=_step_us(problem, profile),
        found=tuple(_found(problem, profile, before, budget_s) for budget_s in budgets_s),
        peak_gb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    )


def _found(problem: Problem, profile: Profile, before: Prediction, time_budget_s: float) -> Found:
    """What the optimizer gains."""
    start, start_cpu = time.perf_counter(), time.process_time()
    settings = {"objective": "throughput", "time_budget_s": time_budget_s}
    found = make_scheduler("optimizer", settings).schedule(problem)
    optimizer_s, optimizer_cpu_s = time.perf_counter() - start, time.process_time() - start_cpu
    after = predict(problem, found.slot_of_executor, None, profile)
    reached = np.array([[each.reachable_tps.value for each in of.topologies] for of in (before, after)])
    least_before, least_after = (reached / profile.rate_tps).min(axis=1).tolist()
    return Found(
        time_budget_s=time_budget_s,
        optimizer_s=optimizer_s,
        optimizer_cpu_s=optimizer_cpu_s,
        steps=found.parameters["iterations_made"],
        least_before=least_before,
        least_after=least_after,
        mean_gain=math.exp(float(np.mean(np.log(reached[1] / reached[0])))),
    )


def _evaluated_s(problem: Problem, profile: Profile) -> tuple[float, float]:
    """CPU seconds of a steady state, and of one where that of a placement is known which differs in few topologies."""
    known, rates = [(Costs(), {})], profile.rate_tps
    start = time.process_time()
    last = PlacedLoad.under(profile, problem, problem.current_slot)
    _, (state,) = steady_states(last, rates, rates, known)
    state.given.ways  # noqa: B018
    evaluated_s = time.process_time() - start
    start = time.process_time()
    _, (state,) = steady_states(PlacedLoad.under(profile, problem, _gathered(problem), last), rates, rates, known)
    state.given.ways  # noqa: B018
    return evaluated_s, time.process_time() - start


def _gathered(problem: Problem) -> IntArray:
    """What runs, but a few topologies in one worker each."""
    slots = problem.current_slot.copy()
    for topology in range(MOVED):
        members = problem.executors_of(topology)
        slots[members] = slots[members][0]
    return slots


def _step_us(problem: Problem, profile: Profile) -> float:
    """CPU time of a step of a search, with what is worked out between stretches of them."""
    seats = Seating(problem, np.ones(len(problem.topologies), dtype=bool), "free").seats(problem.current_slot)
    of = make_placement_state(problem, MeasuredLoad(profile), seats, Aim(THROUGHPUT, profile.rate_tps))
    start = time.process_time()
    found = improve(of, ImproveEffort(STEPS))
    return (time.process_time() - start) / found.steps * 1e6


def _problem(executors: int, pending: int | None, seed: int) -> Problem:
    """A problem that `even` has placed."""
    nodes, pairs = executors // EXECUTORS_A_NODE, round(PAIRS_AN_EXECUTOR * executors)
    shape = {"executors": executors, "nodes": nodes, "pairs": pairs, "load": LOAD}
    problem = make_problem(argparse.Namespace(**shape, shuffle=True, seed=seed))
    if pending is not None:
        acked = [
            _with_ackers(topology, problem.load.topologies[topology.id], pending) for topology in problem.topologies
        ]
        loads = LoadProfile({topology.id: load for topology, load in acked})
        problem = replace(problem, topologies=tuple(topology for topology, _ in acked), load=loads)
    return problem.with_current(make_scheduler("even").schedule(problem).by_topology(problem))


def _with_ackers(old: Topology, load: TopologyLoad, pending: int) -> tuple[Topology, TopologyLoad]:
    """With about an acker for each worker; they are told of every tree and tuple, and answer to spouts."""
    count = max(1, old.num_executors // EXECUTORS_A_WORKER)
    inputs = tuple(Grouping(component.id, kind="fields") for component in old.components)
    components = (*old.components, Component(ACKER, "system", count, inputs))
    conf = {**old.conf, MAX_SPOUT_PENDING: pending}
    new = replace(old, components=components, executor_runs=default_executor_runs(components), conf=conf)
    # Executors are in the order of their components' names.
    ackers, others = np.arange(count), count + np.arange(old.num_executors)
    assert np.array_equal(new.executor_component[others], old.executor_component)
    spout = np.array([component.type == "spout" for component in old.components])[old.executor_component]
    pairs_tps = np.zeros((old.num_executors, len(old.components)))
    np.add.at(pairs_tps, (load.pair_source, old.executor_component[load.pair_target]), load.pair_tps)
    np.add.at(pairs_tps, (load.flow_source, load.flow_component), load.flow_tps)
    trees_tps = float(pairs_tps.max())  # every stream has as many
    handled = (pairs_tps.sum(axis=0) / np.bincount(old.executor_component))[old.executor_component]
    acks = np.where(spout, trees_tps, handled)
    acked = replace(
        load,
        cpu_hz=np.concatenate([np.full(count, load.cpu_hz.mean() / 4), load.cpu_hz]),
        memory_mb=np.concatenate([np.full(count, load.memory_mb.min()), load.memory_mb]),
        pair_source=np.concatenate([load.pair_source + count, np.repeat(others, count), np.tile(ackers, spout.sum())]),
        pair_target=np.concatenate(
            [load.pair_target + count, np.tile(ackers, len(others)), np.repeat(others[spout], count)]
        ),
        pair_tps=np.concatenate(
            [load.pair_tps, np.repeat(acks / count, count), np.full(count * spout.sum(), trees_tps / count)]
        ),
        flow_source=load.flow_source + count,
    )
    return new, acked


if __name__ == "__main__":
    main()
