"""How long a whole plan of moves takes, how many topologies arrive, and how many are paused at once.

    python -m benchmarks.service.plan_scale [--time-budget 5] [--topologies 200 1000] [--seed 1]

What runs was placed by `online`, what is wished by `optimizer`: two placements that have little in common. So most
topologies wait for others. Nodes are 60, 75 and 90 % full of CPU on average.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from dataclasses import asdict, dataclass

import numpy as np

from benchmarks.kit.results import write_results
from benchmarks.schedulers.scale import make_problem
from stormwright.controller.planning.order import MoveBudget, MoveOrder
from stormwright.controller.planning.planner import plan_moves
from stormwright.model import Assignment, Problem
from stormwright.schedulers import make_scheduler

#: Code that the page measures.
MEASURES = ("src/stormwright/controller/planning",)

#: Executors, nodes, pairs: of about 200 and about 1,000 topologies; and the seconds that a whole plan may take.
SIZES = {200: (9_500, 500, 88_000, 0.3), 1_000: (100_000, 5_000, 1_950_000, 3.0)}
LOADS = (0.6, 0.75, 0.9)
ALL = MoveBudget(10**6, 10**9)


@dataclass(frozen=True)
class Planned:
    """What a plan took, and what it does."""

    topologies: int
    executors: int
    seconds: float
    cpu_s: float
    first_s: float
    wanted: int
    arrive: int
    steps: int
    aside: int
    most_at_once: int
    left: dict[str, int]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--time-budget", type=float, default=5.0, help="seconds that optimizer searches")
    parser.add_argument("--topologies", type=int, nargs="+", choices=SIZES, default=list(SIZES))
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    rows, details = [], {}
    for topologies in options.topologies:
        executors, nodes, pairs, most_s = SIZES[topologies]
        for load in LOADS:
            shape = {"executors": executors, "nodes": nodes, "pairs": pairs, "load": load}
            problem = make_problem(argparse.Namespace(**shape, shuffle=False, seed=options.seed))
            planned = measure(problem, options.time_budget)
            label = f"{topologies:,} topologies, nodes {load:.0%} full"
            details[label] = asdict(planned)
            rows.append((f"{label}: whole plan", f"≤ {most_s:g} s", f"{planned.seconds:.2f} s"))
            rows.append((f"{label}: arrive", "≥ 95 %", _arrive(planned)))
            print(*rows[-2], *rows[-1], flush=True)
    write_results("plan-scale", "Plans from what `online` placed to what `optimizer` wishes", rows, {"plans": details})


def measure(problem: Problem, time_budget_s: float) -> Planned:
    """Plan from one placement to the other."""
    problem = problem.with_current(make_scheduler("online").schedule(problem).by_topology(problem))
    wanted = make_scheduler("optimizer", [f"time_budget_s={time_budget_s}"]).schedule(problem)
    # Both are there before a service plans.
    problem.executor_demand, problem.current_slot, problem.slot_index  # noqa: B018
    start = time.perf_counter()
    plan_moves(problem, wanted, MoveBudget(1))
    first_s = time.perf_counter() - start
    start, start_cpu = time.perf_counter(), time.process_time()
    plan = plan_moves(problem, wanted, ALL)
    seconds, cpu_s = time.perf_counter() - start, time.process_time() - start_cpu
    to_move = _to_move(problem, wanted)
    return Planned(
        topologies=len(problem.topologies),
        executors=problem.num_executors,
        seconds=seconds,
        cpu_s=cpu_s,
        first_s=first_s,
        wanted=len(to_move),
        arrive=len(to_move & {move.topology for move in plan.moves if move.arrives}),
        steps=len(plan.steps),
        aside=sum(not move.arrives for move in plan.moves),
        most_at_once=_most_at_once(plan),
        left=dict(Counter(type(why).__name__ for why in plan.blocked.values())),
    )


def _to_move(problem: Problem, wanted: Assignment) -> set[str]:
    """Topologies (ids) that are to have a worker which does not run now, there or with these executors."""
    return {
        topology.id
        for index, topology in enumerate(problem.topologies)
        if _workers(problem, index, wanted.slot_of_executor) != _workers(problem, index, problem.current_slot)
    }


def _workers(problem: Problem, topology: int, slots: np.ndarray) -> set[tuple[int, tuple[int, ...]]]:
    """Node and executors of each worker; which port of the node it has is free to choose."""
    own = slots[problem.executors_of(topology)]
    return {(int(problem.slot_node[slot]), tuple(np.flatnonzero(own == slot).tolist())) for slot in np.unique(own)}


def _most_at_once(plan: MoveOrder) -> int:
    return max((len(step.moves) for step in plan.steps), default=0)


def _arrive(planned: Planned) -> str:
    share = planned.arrive / max(planned.wanted, 1)
    return (
        f"{share:.1%} of {planned.wanted}, {planned.aside} moves to spare slots, "
        f"at most {planned.most_at_once} paused at once"
    )


if __name__ == "__main__":
    main()
