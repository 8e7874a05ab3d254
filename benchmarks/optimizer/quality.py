"""How near to the best known placements the optimizer comes, and how soon, beside `online` and `even`.

    python -m benchmarks.optimizer.quality [--cases DIRECTORY] [--budgets 0.05,0.5,2] [--seed 0]
                                           [--large] [--threads 2]

The cases are those in ``DIRECTORY/placement``, by default where `STORMWRIGHT_CASES` or ../shared/cases says, each with
the cost of the best placement that its makers found. A budget counts from the problem in memory to the answer. The
machine code is compiled before. One core.

``--large`` adds, in some eight minutes, 100,000 executors twice and one large topology
(``optimizer/single_topology.py``). The first is ten copies of the largest case side by side, of which a placement of
ten times the best known cost is known. The second, of ``schedulers/scale.py``, has 1.5 million pairs. No best cost is
known of it and of the large topology, so the better of two runs of our own of 60 s stands for it, and no figure is
asked for. ``--threads`` adds rows with so many, on as many cores.
"""

from __future__ import annotations

import argparse
import os
import resource
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.kit.results import write_results
from benchmarks.optimizer.placement_cases import add_cases_argument, case_files, read_case
from benchmarks.optimizer.single_topology import make_single_topology
from benchmarks.schedulers.scale import make_problem
from stormwright.model import LoadProfile, Problem, cost_of, diff, violations
from stormwright.schedulers import make_scheduler

#: Code that the page measures.
MEASURES = (
    "src/stormwright/optimize",
    "src/stormwright/schedulers/optimizer.py",
)

#: Executors of a case, at most, and the ratios asked for at budgets in seconds.
ASKED = {60: {0.05: 1.0}, 200: {}, 2_000: {2.0: 1.0}, 20_000: {0.05: 1.2, 0.5: 1.05, 2.0: 1.01, 30.0: 0.97}}
ASKED_LARGE = {0.5: 1.1, 5.0: 1.0}

#: Longer budgets are for cases that ask for them.
LONG_S = 5.0

#: Seconds of those with `--large`, and how many copies of the largest case make 100,000 executors.
LARGE_BUDGETS_S, COPIES = (0.5, 2.0, LONG_S), 10

#: Spread of the change of every rate (σ of a log-normal distribution) in the drifted load.
DRIFT = 0.5


@dataclass(frozen=True)
class Measured:
    """One answer: its cost in parts of the best known, limits broken, and what it took."""

    case: str
    scheduler: str
    budget_s: float | None
    ratio: float
    faults: int
    seconds: float
    iterations: int | None
    threads: int = 1

    def __str__(self) -> str:
        faults = f", {self.faults} limits broken" if self.faults else ""
        return f"{self.ratio:.4f} ({self.seconds:.2f} s{faults})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_cases_argument(parser)
    parser.add_argument("--budgets", default="0.05,0.5,2", help="seconds; 30 counts for large cases only")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--large", action="store_true", help="also 100,000 executors and one large topology")
    parser.add_argument("--threads", type=int, default=1, help="above 1: also with so many")
    options = parser.parse_args()
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, cores[:1])
    budgets = [float(text) for text in options.budgets.split(",")]
    rows: list[tuple[str, str, str]] = []
    every: list[Measured] = []
    drifts = []
    for path in case_files(options.cases):
        problem, best = read_case(path)
        for name in ("even", "online"):
            schedule(problem, name)  # compiled and in the caches from here on
        found = [measure(problem, best, name) for name in ("even", "online")]
        schedule(problem, "optimizer", iterations=1)
        own = [budget for budget in budgets if budget <= LONG_S or budget in asked(problem)]
        found += [measure(problem, best, "optimizer", budget, options.seed) for budget in own]
        every += found
        rows += [row(asked(problem), each) for each in found]
        print("\n".join(" | ".join(each) for each in rows[-len(found) :]), flush=True)
        if 500 <= problem.num_executors <= 2000:
            drifts.append(drifted(problem, options.seed))
            rows.append(drifts[-1])
    if options.large:
        for problem, best, wanted in large_problems(options.cases, options.seed):
            found = [measure(problem, best, "optimizer", budget, options.seed) for budget in LARGE_BUDGETS_S]
            if options.threads > 1:
                os.sched_setaffinity(0, cores[: options.threads])
                found.append(measure(problem, best, "optimizer", LONG_S, options.seed, options.threads))
                os.sched_setaffinity(0, cores[:1])
            every += found
            rows += [row(wanted, each) for each in found]
            print("\n".join(" | ".join(each) for each in rows[-len(found) :]), flush=True)
        rows.append(("memory, all problems and schedulers together", "≤ 1.5 GB", f"{peak_gb():.2f} GB"))
    write_results(
        "optimizer-quality",
        "Cost of placements in parts of the best known (and seconds taken)",
        rows,
        {"answers": [asdict(each) for each in every]},
    )


def schedule(problem: Problem, name: str, **settings: object) -> Any:
    """Its answer to a fresh copy of the problem, in which nothing is worked out yet."""
    return make_scheduler(name, settings).schedule(replace(problem))


def measure(
    problem: Problem, best: float, name: str, budget_s: float | None = None, seed: int = 0, threads: int = 1
) -> Measured:
    """Run a scheduler once."""
    settings = {} if budget_s is None else {"time_budget_s": budget_s, "seed": seed, "threads": threads}
    started = time.perf_counter()
    answer = schedule(problem, name, **settings)
    seconds = time.perf_counter() - started
    slots = answer.slot_of_executor
    return Measured(
        problem.name,
        name,
        budget_s,
        cost_of(problem, slots).total / best,
        len(violations(problem, slots)),
        seconds,
        answer.parameters.get("iterations_made"),
        threads,
    )


def large_problems(cases: Path, seed: int) -> Iterator[tuple[Problem, float, dict[float, float]]]:
    """Problems larger than the cases, each with the cost that others are compared with, and the ratios asked for."""
    problem, best = read_case(max(case_files(cases), key=lambda path: path.stat().st_size))
    yield side_by_side(problem, COPIES), COPIES * best, ASKED_LARGE
    scale = argparse.Namespace(executors=100_000, nodes=5_000, pairs=1_500_000, load=0.8, shuffle=False, seed=1)
    for problem in (replace(make_problem(scale), name="scale_100000_n5000"), make_single_topology(10_000, 0.8, 1)):
        runs = [schedule(problem, "optimizer", time_budget_s=60.0, seed=seed + n) for n in (1, 2)]
        best = min(cost_of(problem, run.slot_of_executor).total for run in runs)
        asked_ratios = ASKED_LARGE if problem.num_executors == scale.executors else {}
        yield replace(problem, name=f"{problem.name} beside our own 60 s"), best, asked_ratios


def side_by_side(problem: Problem, copies: int) -> Problem:
    """Copies of a problem in one cluster, in racks of their own."""
    assert problem.load is not None
    supervisors = [
        replace(node, id=f"{node.id}-{n}", host=f"{node.host}-{n}", rack=f"{node.rack}-{n}")
        for n in range(copies)
        for node in problem.supervisors
    ]
    topologies = [
        replace(topology, id=f"{topology.id}-{n}", name=f"{topology.name}-{n}")
        for n in range(copies)
        for topology in problem.topologies
    ]
    loads = {f"{name}-{n}": load for n in range(copies) for name, load in problem.load.topologies.items()}
    name = f"{copies}x_{problem.name}"
    return replace(
        problem, name=name, supervisors=tuple(supervisors), topologies=tuple(topologies), load=LoadProfile(loads)
    )


def peak_gb() -> float:
    """Most memory that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def asked(problem: Problem) -> dict[float, float]:
    """The ratios asked for at budgets in seconds."""
    return next((ratios for most, ratios in ASKED.items() if problem.num_executors <= most), {})


def row(wanted: dict[float, float], measured: Measured) -> tuple[str, str, str]:
    """A line of the table."""
    what = f"{measured.case}, {measured.scheduler}"
    if measured.budget_s is None:
        return what, "", str(measured)
    ratio = wanted.get(measured.budget_s)
    if measured.threads > 1:
        what, ratio = f"{what}, {measured.threads} threads", None
    return f"{what}, {measured.budget_s:g} s", "valid" if ratio is None else f"≤ {ratio:.2f}", str(measured)


def drifted(problem: Problem, seed: int) -> tuple[str, str, str]:
    """How much of the gain after a drift of the load a tenth of the executors is worth in 0.1 s."""
    running = problem.with_current(schedule(problem, "optimizer", time_budget_s=2.0).by_topology(problem))
    rng = np.random.default_rng(seed)
    assert problem.load is not None
    loads = {
        name: replace(load, pair_tps=load.pair_tps * rng.lognormal(0, DRIFT, len(load.pair_tps)))
        for name, load in problem.load.topologies.items()
    }
    now = running.with_load(LoadProfile(loads))
    most = problem.num_executors // 10
    slots = schedule(now, "optimizer", time_budget_s=0.1, max_moves=most).slot_of_executor
    free = schedule(now, "optimizer", time_budget_s=2.0).slot_of_executor
    moved = len(diff(now, now.current_slot, slots).moved_executors)
    least = cost_of(now, free).total
    ratio, staying = cost_of(now, slots).total / least, cost_of(now, now.current_slot).total / least
    assert violations(now, slots) == []
    return (
        f"{problem.name}, load drifted, in 0.1 s, cost / that of everything placed anew in 2 s",
        f"≤ 1.02 with ≤ {most} executors moved",
        f"{ratio:.3f} with {moved} moved (staying: {staying:.3f})",
    )


if __name__ == "__main__":
    main()
