"""How near to the optimum the optimizer provably comes: cost, bound, gap and time of every case.

    python -m benchmarks.optimizer.bound [--cases DIRECTORY] [--search 2] [--seconds 10] [--seed 0]

The cases are those in ``DIRECTORY/placement``, by default where `STORMWRIGHT_CASES` or ../shared/cases says; and
problems of 28 executors made in the same way as those, to be proven to the end. The machine code is compiled before.
One core.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from benchmarks.kit.results import write_results
from benchmarks.optimizer.placement_cases import add_cases_argument, case_files, read_case
from stormwright.model import (
    Component,
    LoadProfile,
    Problem,
    Supervisor,
    Topology,
    TopologyLoad,
    default_executor_runs,
    violations,
)
from stormwright.model.topology_config import MAX_EXECUTORS_PER_WORKER
from stormwright.optimize.bounds.prove import bound_cost
from stormwright.schedulers import make_scheduler

#: Code that the page measures.
MEASURES = (
    "src/stormwright/optimize/bounds",
    "src/stormwright/schedulers/optimizer.py",
    "src/stormwright/optimize/search",
)

#: Executors of a problem that is to be proven, and the seconds that it may take.
PROVEN, PROVEN_S = 28, 10.0

#: Parallelism of the made problems: a chain of components, every executor of one to every executor of the next, whose
#: shares are like those of words in a text for the last.
SHAPES = ((5, 8, 12, 3), (4, 8, 8, 8), (7, 7, 7, 7), (10, 3, 2, 13), (2, 12, 12, 2), (14, 14))


@dataclass(frozen=True)
class Proof:
    """What is proven of the answer to a problem."""

    name: str
    executors: int
    cost: float
    bound: float
    gap: float
    optimal: bool
    flows: float
    seconds: float
    best_known: float | None

    def __str__(self) -> str:
        proven = "proven optimal" if self.optimal else f"{self.cost:,.1f} ≥ {self.bound:,.1f}, gap {self.gap:.1%}"
        return f"{proven} ({self.seconds:.1f} s)"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_cases_argument(parser)
    parser.add_argument(
        "--search", type=float, default=2.0, help="seconds to search; for more than 1,000 executors, for each 1,000"
    )
    parser.add_argument("--seconds", type=float, default=10.0, help="to prove")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    proofs, rows = [], []
    for problem, best in problems(options.cases):
        proof = prove(problem, best, options)
        proofs.append(proof)
        asked = f"proven optimal in ≤ {PROVEN_S:g} s" if proof.executors <= PROVEN else "a proven bound"
        rows.append((f"{proof.name}, {proof.executors} executors", asked, str(proof)))
        print(*rows[-1], flush=True)
    details = {"proofs": [asdict(proof) for proof in proofs]}
    write_results(
        "optimizer-bound", "Cost of the optimizer's placements, and what none can cost less than", rows, details
    )


def problems(cases: Path) -> Iterator[tuple[Problem, float | None]]:
    """Those of 28 executors that are made here, then the cases with the cost of the best known placement."""
    for number, shape in enumerate(SHAPES):
        yield made(number, shape), None
    for path in case_files(cases):
        yield read_case(path)


def made(seed: int, shape: tuple[int, ...]) -> Problem:
    """A chain of components on five nodes, about two thirds full, its workers about as full as they may be."""
    rng = np.random.default_rng(seed)
    components = tuple(Component(f"c{n}", "bolt" if n else "spout", count) for n, count in enumerate(shape))
    total, workers = sum(shape), 4 + seed % 3
    most = -(-total * 5 // (4 * workers))
    topology = Topology(
        "chain", "chain", workers, components, default_executor_runs(components), conf={MAX_EXECUTORS_PER_WORKER: most}
    )
    members = [np.flatnonzero(topology.executor_component == c) for c in range(len(shape))]
    sources, targets, rates = [], [], []
    for before, after in pairwise(members):
        share = rng.permutation(1 / np.arange(1, len(after) + 1)) if after is members[-1] else np.ones(len(after))
        sources.append(np.repeat(before, len(after)))
        targets.append(np.tile(after, len(before)))
        rates.append(1000 * np.tile(share / share.sum(), len(before)) * rng.uniform(0.85, 1.15, len(sources[-1])))
    cpu_hz = rng.uniform(0.2e9, 1.0e9, total)
    nodes_hz = rng.choice([4.0, 4.8, 6.4], 5) * 1e9
    nodes_hz *= 1.6 * cpu_hz.sum() / nodes_hz.sum()
    supervisors = tuple(
        Supervisor(f"s{n}", f"h{n}", (6700, 6701, 6702, 6703), hz, resources={"memory.mb": 8192.0})
        for n, hz in enumerate(nodes_hz.tolist())
    )
    load = TopologyLoad(
        cpu_hz=cpu_hz,
        memory_mb=np.full(total, 128.0),
        pair_source=np.concatenate(sources).astype(np.int32),
        pair_target=np.concatenate(targets).astype(np.int32),
        pair_tps=np.concatenate(rates),
        flow_source=np.empty(0, np.int32),
        flow_component=np.empty(0, np.int32),
        flow_tps=np.empty(0),
        flow_grouping=(),
    )
    name = f"chain {'-'.join(map(str, shape))}, {workers} workers"
    return Problem(supervisors, (topology,), name=name, load=LoadProfile({"chain": load}))


def prove(problem: Problem, best: float | None, options: argparse.Namespace) -> Proof:
    """Search, then prove."""
    search = max(options.search, options.search * problem.num_executors / 1000)
    answer = make_scheduler("optimizer", {"time_budget_s": search, "seed": options.seed}).schedule(problem)
    slots = answer.slot_of_executor
    assert violations(problem, slots) == []
    bound_cost(problem, slots, 0.0)  # compiled from here on
    begin = time.perf_counter()
    bound = bound_cost(problem, slots, options.seconds)
    seconds = time.perf_counter() - begin
    figures = bound.figures(problem, slots)
    assert best is None or bound.cost <= best * (1 + 1e-9)
    return Proof(name=problem.name, executors=problem.num_executors, seconds=seconds, best_known=best, **figures)


if __name__ == "__main__":
    main()
