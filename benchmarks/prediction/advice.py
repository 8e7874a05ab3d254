"""How good advice is on generated topologies: beside an exhaustive search, and over time beside other rules.

    python -m benchmarks.prediction.advice [--cases 25] [--loops 5] [--seed 0]

There is no cluster: what happens is what `predict` says with costs that advisers are not told (theirs are off by a
fifth), and what is measured has noise. `stormwright_lab.evaluations.advice_cases.AdviceWorld` is where a simulator or a
cluster can be put in its place. A restart takes no time here, and a change is there in the next window.

25 cases (linear, diamond, star, word count, page load; as they are, skewed, on two kinds of nodes, with a latency, with
more trees) are sized from one window at half of the rate; the exhaustive search goes up to three executors beyond the
fewest that their own work needs. Over time topologies are three times as large, and everyone begins with an executor of
each component. Rules that say nothing of placement have Storm's EvenScheduler on twelve nodes; DS2 and Dhalion have
twelve workers.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import asdict

import numpy as np
from stormwright_lab.evaluations.advice_cases import cases, traces
from stormwright_lab.evaluations.advice_run import (
    AdviceOutcome,
    AdviserRun,
    compare_with_exhaustive_search,
    over_traces,
    steps_to_target,
    world_of,
)

from benchmarks.kit.results import write_results

#: Code that the page measures.
MEASURES = (
    "src/stormwright/advise",
    "src/stormwright/predict",
    "lab/src/stormwright_lab/evaluations/advice_cases.py",
    "lab/src/stormwright_lab/evaluations/advice_run.py",
    "lab/src/stormwright_lab/evaluations/exhaustive_search.py",
)

#: Advisers, ours first.
ADVISERS = ("stormwright", "DS2", "DS2 with headroom", "Dhalion", "Stela", "AdaStorm")

#: Topologies that are followed over time are so many times as large.
SCALE = 3

#: What stays free by our advice, and how much less may do so in truth.
HEADROOM, SLACK = 0.2, 0.02


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=25, help="that are sized")
    parser.add_argument("--loops", type=int, default=5, help="shapes that are followed over time")
    parser.add_argument("--seed", type=int, default=0, help="of the noise of traces")
    options = parser.parse_args()
    every = cases()
    begun_s = time.perf_counter()
    made = [compare_with_exhaustive_search(case, world_of(case)) for case in every[: options.cases]]
    sizing_s = time.perf_counter() - begun_s
    rows = of_sizes(made)
    # Each shape as it is, and skewed.
    followed = [case for case in cases(SCALE) if case.name.endswith(("alike", "skewed"))][: 2 * options.loops]
    start = [run for case in followed for run in steps_to_target(case, lambda case=case: world_of(case))]
    rows += of_starts(start) if start else []
    over = [
        run
        for case in followed[::2]
        for run in over_traces(case, traces(np.random.default_rng(options.seed)), lambda case=case: world_of(case))
    ]
    rows += of_traces(over) if over else []
    rows.append((f"one core, {len(made)} cases sized, exhaustive search included", "", f"{sizing_s:,.0f} s"))
    details = {"sizes": [asdict(one) for one in made], "starts": [asdict(one) for one in start]}
    write_results(
        "advice",
        "Advice on capacity, in a world that is predicted and not measured (no cluster)",
        rows,
        {**details, "traces": [asdict(one) for one in over]},
    )


def of_sizes(made: Sequence[AdviceOutcome]) -> list[tuple[str, str, str]]:
    """Executors and nodes beside an exhaustive search, and what advice comes to in truth."""
    compared = [one for one in made if one.least_nodes]
    near = sum(one.off <= 1 for one in compared)
    exact = sum(one.off == 0 for one in compared)
    nodes = sum(one.nodes == one.least_nodes for one in compared)
    roomy = sum(one.fullest <= 1 - HEADROOM + SLACK for one in made)
    quick = [one for one in made if one.p95_ms is not None]
    in_time = sum(one.true_p95_ms <= (one.p95_ms or 0.0) for one in quick)
    return [
        ("cases whose every component is within ±1 executor of the exhaustive search", "all", _of(near, compared)),
        ("cases with exactly its executors", "", _of(exact, compared)),
        ("cases with exactly its nodes", "≥ 90 %", _of(nodes, compared)),
        ("cases whose rate is sustained in truth", "≥ 95 %", _of(sum(one.sustained for one in made), made)),
        (f"cases that leave {HEADROOM - SLACK:.0%} free in truth", "", _of(roomy, made)),
        ("cases with a latency that is kept in truth", "≥ 95 %", _of(in_time, quick)),
    ]


def of_starts(start: Sequence[AdviserRun]) -> list[tuple[str, str, str]]:
    """Steps to the whole rate from one executor of each component."""
    rows = []
    for name in ADVISERS:
        own = [run for run in start if run.adviser == name]
        reached = [run.steps for run in own if run.steps is not None]
        one, two = (sum(steps <= most for steps in reached) for most in (1, 2))
        wanted = "one in ≥ 90 %, two in all" if name == "stormwright" else ""
        most = f"at most {max(reached)}" if reached else "never"
        found = f"one in {_of(one, own)}, two in {_of(two, own)}, {most}; never: {len(own) - len(reached)}"
        mean = f"; on average {np.mean([run.restarts for run in own]):.1f} changes in all"
        rows.append((f"steps to the rate, {name}", wanted, found + mean))
    return rows


def of_traces(over: Sequence[AdviserRun]) -> list[tuple[str, str, str]]:
    """Restarts and windows in which the rate was reached, by trace."""
    rows = []
    for trace in (*dict.fromkeys(run.trace for run in over), ""):
        restarts = {}
        for name in ADVISERS:
            own = [run for run in over if run.adviser == name and trace in ("", run.trace)]
            restarts[name] = sum(run.restarts for run in own)
            kept, windows = sum(run.reached_windows for run in own), sum(run.windows for run in own)
            figures = f"{np.mean([run.executors for run in own]):.1f} executors"
            wanted = "rate in ≥ 95 %" if name == "stormwright" else ""
            said = f"{restarts[name]} restarts; rate in {kept / max(windows, 1):.1%} of windows; {figures}"
            rows.append((f"{trace or 'all traces'}, {name}", wanted, said))
        for other in (each for each in ADVISERS if each.startswith("DS2") and not trace and restarts[each]):
            part = restarts["stormwright"] / restarts[other]
            rows.append((f"restarts of stormwright / of {other}", "≤ 40 %", f"{part:.0%}"))
    return rows


def _of(count: int, all_of_them: Sequence[object]) -> str:
    return f"{count} of {len(all_of_them)}"


if __name__ == "__main__":
    main()
