"""Two topologies of a real Storm cluster change places: the longest time without an ack, and tuples lost.

python -m benchmarks.storm.swap [--runs 3] [--workers 2] [--rate 1000] [--warm-up 20] [--measure 20]
"""

from __future__ import annotations

import argparse
from dataclasses import asdict
from statistics import median

from stormwright_lab.exchange import ExchangeResult, run_exchange

from benchmarks.kit.results import show_progress, write_results
from stormwright.schedulers import make_scheduler
from stormwright.storm.local_cluster import LocalCluster
from stormwright.workbench.demo.run import demo_cluster
from stormwright.workbench.demo.settings import DemoSettings
from stormwright.workbench.demo.topologies import parse_submissions

#: Code that the page measures.
MEASURES = (
    "src/stormwright/controller/draining.py",
    "src/stormwright/controller/move.py",
    "src/stormwright/controller/planning",
    "java/src/main/java/stormwright/standby",
    "java/src/main/java/stormwright/bridge",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rate", type=int, default=1000, help="trees a second of each spout executor")
    parser.add_argument("--warm-up", type=float, default=20)
    parser.add_argument("--measure", type=float, default=20)
    options = parser.parse_args()
    show_progress()
    results = [run(options) for _ in range(options.runs)]
    silences = [topology.silence_s for result in results for topology in result.topologies]
    lost = sum(abs(topology.lost) + topology.failed for result in results for topology in result.topologies)
    shown = f"{max(silences):.1f} s (median {median(silences):.1f} s)"
    rows = [
        ("tuple trees failed or lost, all runs", "0", str(lost)),
        ("longest time without an acked tuple while they change places, worst run", "", shown),
    ]
    details = {"runs": [[asdict(topology) for topology in result.topologies] for result in results]}
    title = f"Two word counts of {options.workers} workers change places, {options.rate} trees/s a spout"
    write_results("storm-swap", title, rows, details)


def run(options: argparse.Namespace) -> ExchangeResult:
    """One exchange on a cluster of its own."""
    each = f"rate={options.rate},workers={options.workers}"
    cluster = demo_cluster(slots=4)
    settings = DemoSettings(
        cluster,
        parse_submissions([f"word-count:name=one,{each}", f"word-count:name=other,{each}"]),
        make_scheduler("even"),
        "even",
        options.warm_up,
        options.measure,
    )
    with LocalCluster(cluster) as running:
        return run_exchange(running, settings)


if __name__ == "__main__":
    main()
