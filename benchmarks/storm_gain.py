"""What a better placement gains on a real Storm cluster with limited links, and what the move costs.

    python benchmarks/storm_gain.py [--runs 3] [--warm-up 30] [--measure 30]

Each run boots a cluster of its own, measures under Even, moves by `online`, and measures again, so before and after
share one run. Three settings: word count alone; two word counts; word count with its spouts limited to 70 % of what
it reached under Even.
"""

from __future__ import annotations

import argparse
import logging
from statistics import median
from typing import Any

from results import write_results

from stormwright.experiments.demo.result import DemoResult
from stormwright.experiments.demo.run import demo_cluster, run_demo
from stormwright.experiments.demo.settings import DemoSettings
from stormwright.experiments.demo.table import as_dict, crossing_per_tree, network_line
from stormwright.experiments.demo.topologies import Submission, parse_submissions
from stormwright.schedulers import make_scheduler


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--warm-up", type=float, default=30)
    parser.add_argument("--measure", type=float, default=30)
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s  %(message)s")

    def run(submissions: list[Submission]) -> DemoResult:
        settings = DemoSettings(
            demo_cluster(), submissions, make_scheduler("online"), "online", options.warm_up, options.measure
        )
        return run_demo(settings)

    alone = [run(parse_submissions(["word-count"])) for _ in range(options.runs)]
    two = [run(parse_submissions(["word-count", "word-count"])) for _ in range(options.runs)]
    even_tps = median(result.topologies[0].before.acked_tps for result in alone)
    rate = round(0.7 * even_tps)
    limited = [run(parse_submissions([f"word-count:rate={rate}"])) for _ in range(options.runs)]

    everything = [*alone, *two, *limited]
    moved = [topology for result in everything for topology in result.topologies]
    latencies = [_latency_ratio(result) for result in limited]
    crossing = [_crossing_ratio(result) for result in everything]
    lags = [result.pipeline["lag_ms"]["p95"] / 1000 for result in everything]
    rows = [
        ("throughput after / under Even, word count alone, median", "≥ 2.0", _ratios(alone)),
        ("throughput after / under Even, two topologies summed, median", "≥ 1.25", _ratios(two)),
        (f"mean complete latency after / under Even at {rate} trees/s, median", "≤ 0.75", _show(latencies)),
        ("inter-node tuples per tree after / under Even, worst run", "≤ 0.2", f"{max(crossing):.3f}"),
        ("longest time without an acked tuple during a move, worst run", "≤ 8 s", f"{_worst_silence(moved):.1f} s"),
        ("tuple trees failed or lost, all runs", "0", str(sum(result.lost for result in everything))),
        ("record written → in a LoadProfile, p95, worst run", "≤ 5 s", f"{max(lags):.2f} s"),
    ]
    details: dict[str, Any] = {
        "alone": [as_dict(result) for result in alone],
        "two": [as_dict(result) for result in two],
        "limited": [as_dict(result) for result in limited],
    }
    settings = DemoSettings(demo_cluster(), [], make_scheduler("online"), "online")
    write_results("storm-gain", f"Placement on a real cluster, {network_line(settings)}", rows, details)


def _ratios(results: list[DemoResult]) -> str:
    return _show([result.throughput_ratio for result in results])


def _show(ratios: list[float]) -> str:
    return f"{median(ratios):.2f} (runs: {', '.join(f'{ratio:.2f}' for ratio in ratios)})"


def _latency_ratio(result: DemoResult) -> float:
    topology = result.topologies[0]
    return (topology.after.mean_latency_ms or 0.0) / (topology.before.mean_latency_ms or 1.0)


def _crossing_ratio(result: DemoResult) -> float:
    before = crossing_per_tree([topology.before for topology in result.topologies])
    return crossing_per_tree([topology.after for topology in result.topologies]) / before


def _worst_silence(topologies: list[Any]) -> float:
    return max(topology.silence_s for topology in topologies)


if __name__ == "__main__":
    main()
