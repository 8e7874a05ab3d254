"""What it is worth to search very large topologies level by level: cost beside that of the same search without.

    python -m benchmarks.optimizer.coarsening [--executors 1000,2000,10000,30000] [--within 0.8,0.5]
                                              [--budgets 0.5,2,8,30] [--seeds 2]

The problems are those of ``optimizer/single_topology.py``, and four topologies of 2,500 executors in one cluster.
Budgets are CPU seconds, on one core, so that what else the machine does counts little. The machine code is compiled
before. With the defaults it takes about half an hour.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from unittest.mock import patch

import numpy as np

from benchmarks.kit.results import write_results
from benchmarks.optimizer.quality import side_by_side
from benchmarks.optimizer.single_topology import make_single_topology
from stormwright.model import Problem, cost_of, violations
from stormwright.optimize.search import budget
from stormwright.schedulers import make_scheduler

#: Code that the page measures.
MEASURES = (
    "src/stormwright/optimize",
    "src/stormwright/schedulers/optimizer.py",
)

#: No ratio of costs is to be above it, and where and how soon which is asked for.
WORST = 1.005
ASKED = {(10_000, 0.5): 0.97, (10_000, 2.0): 0.97}

#: Executors of each topology, and how many there are.
SEVERAL = (2_500, 4)


@dataclass(frozen=True)
class Measured:
    """Costs with levels and without, each the mean over seeds."""

    problem: str
    executors: int
    within: float
    budget_s: float
    with_levels: float
    without: float

    @property
    def ratio(self) -> float:
        """Below 1 where levels gain."""
        return self.with_levels / self.without


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--executors", default="1000,2000,10000,30000")
    parser.add_argument("--within", default="0.8,0.5", help="parts of the traffic that stay in hidden groups")
    parser.add_argument("--budgets", default="0.5,2,8,30", help="CPU seconds")
    parser.add_argument("--seeds", type=int, default=2)
    options = parser.parse_args()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    time.perf_counter = time.process_time  # what the search looks at
    cost(make_single_topology(1_000, 0.8, 1), 0.1, 0, levels=True)  # compiled from here on
    found, rows = [], []
    for problem, within in problems(options):
        for seconds in map(float, options.budgets.split(",")):
            found.append(measure(problem, within, seconds, options.seeds))
            most = ASKED.get((problem.num_executors, seconds), WORST) if len(problem.topologies) == 1 else WORST
            rows.append(row(found[-1], most))
            print(*rows[-1], flush=True)
    details = {"measured": [asdict(each) for each in found], "seeds": options.seeds}
    title = "Cost of very large topologies searched by levels, in parts of that without"
    write_results("coarsening", title, rows, details)


def problems(options: argparse.Namespace) -> Iterator[tuple[Problem, float]]:
    """Each with the part of its traffic that stays in groups."""
    for within in map(float, options.within.split(",")):
        for executors in map(int, options.executors.split(",")):
            yield make_single_topology(executors, within, 1), within
        executors, copies = SEVERAL
        yield side_by_side(make_single_topology(executors, within, 1), copies), within


def measure(problem: Problem, within: float, seconds: float, seeds: int) -> Measured:
    """Search with levels and without."""
    means = [
        float(np.mean([cost(problem, seconds, seed, levels=levels) for seed in range(seeds)]))
        for levels in (True, False)
    ]
    return Measured(problem.name, problem.num_executors, within, seconds, *means)


def cost(problem: Problem, seconds: float, seed: int, *, levels: bool) -> float:
    """That of a valid placement."""
    settings = {"time_budget_s": seconds, "seed": seed}
    with nullcontext() if levels else patch.object(budget, "has_levels", return_value=False):
        answer = make_scheduler("optimizer", settings).schedule(problem)
    assert violations(problem, answer.slot_of_executor) == []
    assert not answer.unplaced
    return cost_of(problem, answer.slot_of_executor).total


def row(measured: Measured, most: float) -> tuple[str, str, str]:
    """A line of the table."""
    what = f"{measured.problem}, {measured.executors:,} executors, {measured.budget_s:g} s"
    return what, f"≤ {most:.3f}", f"{measured.ratio:.3f} ({measured.with_levels:,.0f} / {measured.without:,.0f})"


if __name__ == "__main__":
    main()
