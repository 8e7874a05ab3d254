"""The demonstration with each published scheduler on a real Storm cluster: what it moves, and what comes of it.

    python -m benchmarks.schedulers.demo run [--only NAME,NAME] [--warm-up 20] [--measure 20]
    python -m benchmarks.schedulers.demo compare

Each run is `stormwright demo --scheduler NAME`: two word counts under Even on three nodes with CPU and links of their
own, then what the scheduler says, moved without losing a tuple, and measured again when the new workers are as warm.
`run` makes those that are not there yet and keeps each; `compare` needs no cluster.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from benchmarks.kit.results import DIRECTORY, write_results
from benchmarks.kit.runs import Run, make_or_compare
from stormwright.controller.objectives.outlook import THROUGHPUT
from stormwright.schedulers import make_scheduler
from stormwright.schedulers.toolkit.from_scratch import apply_from_scratch, unless_moving
from stormwright.workbench.demo.result import as_dict
from stormwright.workbench.demo.run import fair_cluster, run_demo
from stormwright.workbench.demo.settings import DemoSettings
from stormwright.workbench.demo.topologies import parse_submissions

#: Code that the page measures.
MEASURES = (
    "src/stormwright/schedulers",
    "src/stormwright/controller/move.py",
)

RUNS = DIRECTORY / "demo-schedulers"

#: Those of the papers first, then those they compare with; `even` is what every run begins with.
SCHEDULERS = (
    *("offline", "online", "top_storm", "tag_aware", "r_storm", "t_storm", "d_storm", "p_scheduler", "toss", "metis"),
    *("n_version", "ant_colony", "cost_aware", "genetic", "binpack", "minimum_degree", "least_weighted_delay"),
    *("predictive", "annealing", "learned", "optimizer", "spread", "round_robin", "weighted_round_robin"),
    *("dynamic_weighted_round_robin", "shortest_processing_time", "earliest_available", "least_executors"),
    *("nearest_average_load", "max_min", "min_min", "random"),
)


def main() -> None:
    make_or_compare(__doc__, RUNS, wanted, compare, seconds=20)


def wanted(only: str) -> Iterator[Run]:
    """Those of the schedulers that are named, or of all."""
    for name in only.split(",") if only else SCHEDULERS:
        yield Run(f"{name}.json", {"scheduler": name}, partial(run, name))


def run(name: str, warm_up_s: float, measure_s: float) -> dict[str, Any]:
    """One run on a cluster of its own, with what `stormwright demo` takes by default."""
    scheduler = apply_from_scratch(name, make_scheduler(name, (), objective=THROUGHPUT), None, unless_moving)
    cluster = fair_cluster(nodes=3, slots=6, link=None, cores_per_node=None)
    topologies = parse_submissions(["word-count", "word-count"])
    return as_dict(run_demo(DemoSettings(cluster, topologies, scheduler, name, warm_up_s, measure_s)))


def compare() -> None:
    """All runs that there are."""
    found = {name: json.loads(file.read_text()) for name in SCHEDULERS if (file := RUNS / f"{name}.json").exists()}
    rows = [(name, "moves, measures, 0 lost", _told(each)) for name, each in found.items()]
    lost = sum(each["lost"] for each in found.values())
    rows.append(("tuple trees lost, all runs", "0", str(lost)))
    rows.append(("schedulers tried", str(len(SCHEDULERS)), str(len(found))))
    title = "The demonstration with each scheduler, on a real cluster of three nodes"
    write_results("demo-schedulers", title, rows, {})


def _told(found: Mapping[str, Any]) -> str:
    """What one run came to."""
    topologies, moves = found["topologies"], found["moves"]
    if not moves:
        return f"nothing moved: {found['scheduler_reason']}"
    nodes = [sorted({each[phase]["nodes"] for each in topologies}) for phase in ("before", "after")]
    before, after = (" and ".join(map(str, each)) for each in nodes)
    crossing = [sum(each[phase]["inter_node_per_acked"] for each in topologies) for phase in ("before", "after")]
    silent = max(each["longest_time_without_ack_s"] for each in topologies)
    return (
        f"{found['throughput_ratio']:.2f} × the trees/s, {_times(*crossing)} the tuples between nodes per tree, "
        f"nodes of a topology {before} → {after}, {sum(move['moved_executors'] for move in moves)} executors moved, "
        f"{found['lost']} lost, at most {silent:.1f} s without an ack"
    )


def _times(before: float, after: float) -> str:
    return f"{after / before:.2f} ×" if before else "with none before,"


if __name__ == "__main__":
    main()
