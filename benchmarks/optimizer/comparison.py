"""What placements of the optimizer cost as time goes on, beside those of other schedulers and of graph partitioners.

    python -m benchmarks.optimizer.comparison [--cases DIRECTORY] [--budgets 0.02,0.05,…,10] [--seed 0]

The cases are those in ``DIRECTORY/placement``, by default where `STORMWRIGHT_CASES` or ../shared/cases says. METIS and
Mt-KaHyPar (``pip install "stormwright[metis,benchmarks]"``) cut the graph of all executors into as many parts as the
optimizer uses nodes, and into as many as there are, the better of which counts: first by rack and then by node, with
CPU in proportion to what nodes have. Our own code then gives each topology its number of workers and mends what is too
full; what the cut alone would cost is told too. Storm's ResourceAwareScheduler runs in a JVM that is warm, and its time
is that in its method ``schedule``. All are graded alike: the cost in parts of the best known, limits broken, executors
left out. One core.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import mtkahypar
import numpy as np
import pymetis
from matplotlib import rc_context
from matplotlib.axes import Axes
from numpy.typing import NDArray
from scipy.sparse import csr_array

from benchmarks.kit.results import DIRECTORY, write_results
from benchmarks.optimizer.placement_cases import add_cases_argument, case_files, read_case
from stormwright.explain.drawing import COLOURS
from stormwright.model import UNPLACED, Assignment, Problem, cost_of, measured_traffic, violations
from stormwright.schedulers import make_scheduler
from stormwright.schedulers.placement.placing import FreeResources, Placing
from stormwright.schedulers.templates.waiting import Rule, place_waiting
from stormwright.schedulers.toolkit.params import Params
from stormwright.storm.scheduler_host import JavaScheduler, SchedulerHost, host_command
from stormwright.workbench.report import blank_figure, svg_of

#: Code that the page measures.
MEASURES = (
    "src/stormwright/optimize",
    "src/stormwright/schedulers/optimizer.py",
)

NAME = "optimizer-comparison"

#: By how much a part may be heavier than its share.
IMBALANCE = 0.03

#: Partitioners count in integers; all weights together are this many.
WHOLE = 1e7

#: Cuts a graph with weighted vertices into parts with given shares of the weight; the last argument is the seed.
Partitioner = Callable[[csr_array, NDArray[Any], NDArray[Any], int], NDArray[Any]]

KAHYPAR = mtkahypar.initialize(1)


@dataclass(frozen=True)
class Measured:
    """One answer: its cost in parts of the best known, what is wrong with it, and what it took."""

    case: str
    executors: int
    method: str
    budget_s: float | None
    ratio: float
    broken: int
    left_out: int
    nodes: int
    seconds: float
    #: Of a partition, the cost of what is between its parts alone, limits and workers aside.
    as_cut: float | None = None

    @property
    def valid(self) -> bool:
        return not self.broken and not self.left_out

    def __str__(self) -> str:
        faults = [f"{n} {what}" for n, what in ((self.broken, "limits broken"), (self.left_out, "left out")) if n]
        if self.as_cut is not None:
            faults.append(f"as cut, limits aside, {self.as_cut:.4f}")
        return f"{self.ratio:.4f} ({', '.join([f'{self.seconds:.3f} s', f'{self.nodes} nodes', *faults])})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_cases_argument(parser)
    parser.add_argument("--budgets", default="0.02,0.05,0.1,0.2,0.5,1,2,5,10", help="seconds of the optimizer")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    budgets = sorted(float(text) for text in options.budgets.split(","))
    every: list[list[Measured]] = []
    with closing(SchedulerHost(host_command())) as host:
        for path in case_files(options.cases):
            every.append(compare(*read_case(path), budgets, options.seed, host))
            print("\n".join(f"{each.case} | {each.method} | {each}" for each in every[-1]), flush=True)
    (DIRECTORY / f"{NAME}.svg").write_text(plot(every), encoding="utf-8")
    flat = [each for of_case in every for each in of_case]
    write_results(
        NAME,
        "Cost of placements over time, in parts of the best known",
        [(f"{each.case}, {each.method}", "valid" if each.budget_s else "", str(each)) for each in flat],
        {"answers": [asdict(each) for each in flat]},
        picture="cost over time of every case; hollow marks break limits or leave executors out",
    )


def compare(problem: Problem, best: float, budgets: Sequence[float], seed: int, host: SchedulerHost) -> list[Measured]:
    """All answers to one problem."""
    grade = partial(graded, problem, best)
    own = make_scheduler("optimizer", {"iterations": 1, "seed": seed})
    own.schedule(problem)  # compiled from here on
    found = []
    for budget in budgets:
        scheduler = make_scheduler("optimizer", {"time_budget_s": budget, "seed": seed})
        found.append(grade("optimizer", scheduler.schedule, budget))
        last = scheduler
    slots = last.schedule(problem).slot_of_executor
    nodes = np.unique(problem.slot_node[slots[slots != UNPLACED]])
    for name in ("even", "online"):
        scheduler = make_scheduler(name)
        scheduler.schedule(problem)
        found.append(grade(name, scheduler.schedule))
    java = JavaScheduler("ResourceAwareScheduler", host=host)
    java.schedule(problem)
    found.append(grade("Storm ResourceAware", java.schedule))
    for name, cut in PARTITIONERS.items():
        tries = []
        for own in (nodes, np.flatnonzero(problem.node_usable)):
            target = parts_on_nodes(problem, exchanged_in(problem), own, cut, seed)
            placed = grade(name, partial(place_parts, nodes=own, cut=cut, seed=seed))
            tries.append(replace(placed, as_cut=between_nodes(problem, target) / best))
        found.append(min(tries, key=lambda each: (each.broken, each.left_out, each.ratio)))
    return found


def graded(
    problem: Problem,
    best: float,
    method: str,
    schedule: Callable[[Problem], Assignment],
    budget_s: float | None = None,
) -> Measured:
    """Run a method once on a fresh copy of the problem, in which nothing is worked out yet."""
    fresh = replace(problem)
    started = time.perf_counter()
    answer = schedule(fresh)
    seconds = time.perf_counter() - started
    slots = answer.slot_of_executor
    return Measured(
        case=problem.name,
        executors=problem.num_executors,
        method=method if budget_s is None else f"{method} {budget_s:g} s",
        budget_s=budget_s,
        ratio=cost_of(problem, slots).total / best,
        broken=len(violations(problem, slots)),
        left_out=int(np.count_nonzero(slots == UNPLACED)),
        nodes=len(np.unique(problem.slot_node[slots[slots != UNPLACED]])),
        seconds=answer.seconds or seconds,  # a Java scheduler tells its own
    )


def place_parts(problem: Problem, nodes: NDArray[Any], cut: Partitioner, seed: int) -> Assignment:
    """A placement in which executors go where their part of the graph does, as far as limits allow."""
    exchanged = exchanged_in(problem)
    target = parts_on_nodes(problem, exchanged, nodes, cut, seed)

    def make_rule(_: FreeResources) -> Rule:
        def place(placing: Placing) -> None:
            own = np.array(placing.executors)
            together = np.bincount(target[own], minlength=len(problem.supervisors))
            for executor in own[np.argsort(-together[target[own]], kind="stable")].tolist():
                row = slice(exchanged.indptr[executor], exchanged.indptr[executor + 1])
                others = placing.room.node_of[exchanged.indices[row]]
                placed = others != UNPLACED
                pull = np.bincount(others[placed], exchanged.data[row][placed], len(problem.supervisors))
                pull[target[executor]] += exchanged.data[row].sum() + 1  # its own part's node before all others
                placing.put(executor, placing.best(executor, -pull))

        return place

    return place_waiting(problem, "parts", Params(), make_rule)


def exchanged_in(problem: Problem) -> csr_array:
    """What every two executors exchange."""
    exchanged = measured_traffic(problem).symmetric(problem.num_executors)
    exchanged.sum_duplicates()
    exchanged.setdiag(0)
    exchanged.eliminate_zeros()
    return csr_array(exchanged)


def between_nodes(problem: Problem, node: NDArray[Any]) -> float:
    """Cost of what is between nodes if executors are on these, 1 in a rack and 2 between racks."""
    traffic, rack = measured_traffic(problem), problem.node_rack[node]
    apart = (node[traffic.source] != node[traffic.target]).astype(float)
    apart += rack[traffic.source] != rack[traffic.target]
    return float(traffic.tps @ apart)


def parts_on_nodes(
    problem: Problem, exchanged: csr_array, nodes: NDArray[Any], cut: Partitioner, seed: int
) -> NDArray[Any]:
    """Node of every executor: parts for racks first, then each cut into parts for its nodes."""
    target = np.empty(problem.num_executors, int)
    racks, rack_of = np.unique(problem.node_rack[nodes], return_inverse=True)
    weight = problem.executor_cpu_hz
    room = problem.node_cpu_hz[nodes]
    part = cut_if_needed(exchanged, weight, np.bincount(rack_of, room), cut, seed)
    for rack in range(len(racks)):
        members, own = np.flatnonzero(part == rack), np.flatnonzero(rack_of == rack)
        inside = csr_array(exchanged[members][:, members])
        target[members] = nodes[own][cut_if_needed(inside, weight[members], room[own], cut, seed)]
    return target


def cut_if_needed(
    exchanged: csr_array, weight: NDArray[Any], room: NDArray[Any], cut: Partitioner, seed: int
) -> NDArray[Any]:
    """Part of every vertex; one part needs no partitioner."""
    if len(room) == 1 or not len(weight):
        return np.zeros(len(weight), int)
    return cut(exchanged, weight, room / room.sum(), seed)


def cut_with_metis(exchanged: csr_array, weight: NDArray[Any], share: NDArray[Any], seed: int) -> NDArray[Any]:
    """METIS, by recursive bisection where there are few parts, as its manual advises."""
    options = pymetis.Options()
    options.seed, options.ufactor = seed, round(1000 * IMBALANCE)
    found = pymetis.part_graph(
        len(share),
        pymetis.CSRAdjacency(exchanged.indptr, exchanged.indices),
        vweights=in_integers(weight),
        eweights=in_integers(exchanged.data),
        tpwgts=share.tolist(),
        recursive=len(share) <= 8,
        options=options,
    )
    return np.array(found.vertex_part)


def cut_with_mt_kahypar(exchanged: csr_array, weight: NDArray[Any], share: NDArray[Any], seed: int) -> NDArray[Any]:
    """Mt-KaHyPar with its settings for quality, on one thread."""
    mtkahypar.set_seed(seed)
    context = KAHYPAR.context_from_preset(mtkahypar.PresetType.QUALITY)
    context.logging = False
    context.set_partitioning_parameters(len(share), IMBALANCE, mtkahypar.Objective.CUT)
    weights = in_integers(weight)
    most = np.ceil(share * weights.sum() * (1 + IMBALANCE)).astype(int)
    context.set_individual_target_block_weights(np.maximum(most, weights.max()).tolist())
    row = np.repeat(np.arange(exchanged.shape[0]), np.diff(exchanged.indptr))
    once = row < exchanged.indices
    edges = list(zip(row[once].tolist(), exchanged.indices[once].tolist(), strict=True))
    rates = in_integers(exchanged.data[once]).tolist()
    graph = KAHYPAR.create_graph(context, len(weights), len(edges), edges, weights.tolist(), rates)
    return np.array(graph.partition(context).get_partition())


def in_integers(weight: NDArray[Any]) -> NDArray[Any]:
    """Weights of at least 1 in about the same proportions."""
    return np.maximum((weight * (WHOLE / max(weight.sum(), 1e-9))).round(), 1).astype(int)


PARTITIONERS: dict[str, Partitioner] = {"METIS": cut_with_metis, "Mt-KaHyPar": cut_with_mt_kahypar}


def plot(every: Sequence[Sequence[Measured]]) -> str:
    """An SVG with cost over time of every case."""
    columns = 2
    rows = -(-len(every) // columns)
    figure = blank_figure(10, 3.2 * rows)
    for number, of_case in enumerate(every, start=1):
        draw_case(figure.add_subplot(rows, columns, number), of_case)
    with rc_context({"svg.fonttype": "none"}):
        return svg_of(figure)


def draw_case(axes: Axes, of_case: Sequence[Measured]) -> None:
    """Cost over time of one case: the optimizer as a line, the others as marks."""
    own = [each for each in of_case if each.budget_s]
    axes.plot([e.seconds for e in own], [e.ratio for e in own], marker=".", color=COLOURS[0], label="optimizer")
    others = [each for each in of_case if not each.budget_s]
    for each, colour, marker in zip(others, COLOURS[1:], "sDv^o", strict=False):
        fill = colour if each.valid else "none"
        axes.plot(max(each.seconds, 1e-4), each.ratio, marker, color=colour, markerfacecolor=fill, label=each.method)
    axes.axhline(1, color="#999", linewidth=0.8)
    axes.set(xscale="log", yscale="log", xlabel="seconds", ylabel="cost / best known")
    axes.set_title(f"{of_case[0].case}: {of_case[0].executors:,} executors", fontsize=10)
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter("{x:g}")
    axes.tick_params(which="both", labelsize=7)
    axes.legend(fontsize=7, frameon=False)
    axes.spines[["top", "right"]].set_visible(False)


if __name__ == "__main__":
    main()
