"""What the demonstration comes to: what the optimizer gains over Even on a real Storm cluster, after looking back.

    python -m benchmarks.storm.gain run [--only TEXT] [--warm-up 30] [--measure 30]
    python -m benchmarks.storm.gain compare

Each run boots a cluster of three nodes and runs `stormwright demo` on it: topologies are measured under Even, moved,
measured again when the new workers are as warm as the old ones were, and moved back where that is no better. Topologies
are alone, two together, and three together; one has its spouts limited and is to be quick. `run` makes those that are
not there yet and stores each; `compare` needs no cluster.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import geometric_mean, median
from typing import Any

from benchmarks.kit.results import DIRECTORY, write_results
from benchmarks.kit.runs import Run, make_or_compare
from stormwright.schedulers import make_scheduler
from stormwright.workbench.demo.result import as_dict
from stormwright.workbench.demo.run import demo_cluster, run_demo
from stormwright.workbench.demo.settings import CORES, LINK, DemoSettings
from stormwright.workbench.demo.topologies import parse_submissions

#: Code that the page measures.
MEASURES = (
    "src/stormwright/optimize",
    "src/stormwright/predict",
    "src/stormwright/schedulers/optimizer.py",
    "src/stormwright/controller/policy.py",
    "src/stormwright/controller/objectives",
    "src/stormwright/history/evaluation",
    "src/stormwright/workbench/demo",
)

RUNS = DIRECTORY / "storm-gain"

#: Of the throughput under Even, what counts as not below it.
NOT_BELOW = 0.97


@dataclass(frozen=True)
class Case:
    """Topologies that run together, cores and link of a node, what they are moved for, and how often that is tried."""

    topologies: Sequence[str]
    cores: float = CORES
    link: str = LINK
    objective: str = "throughput"
    runs: int = 1


#: Trees/s of the topology that is to be quick: some 70 % of what it reaches under Even.
LIMITED_TPS = 1500

CASES: Mapping[str, Case] = {
    "word count": Case(["word-count"]),
    "rolling top words": Case(["rolling-top-words"], 0.35, "20mbit"),
    "diamond": Case(["diamond"]),
    "exclamation": Case(["exclamation"], 0.5, "60mbit"),
    "two word counts": Case(["word-count", "word-count"], runs=2),
    "processing, page-load": Case(["processing:bytes=200,work_us=5", "page-load:bytes=200,work_us=30"]),
    "word count, linear, diamond": Case(["word-count", "linear:bytes=100,work_us=20", "diamond:bytes=300"]),
    f"word count of {LIMITED_TPS} trees per s": Case([f"word-count:rate={LIMITED_TPS}"], objective="latency"),
}


def main() -> None:
    make_or_compare(__doc__, RUNS, wanted, compare, seconds=30)


def wanted(only: str) -> Iterator[Run]:
    """Those of the cases with this in their name."""
    for name, case in CASES.items():
        for number in range(case.runs if only in name else 0):
            file = f"{name.replace(', ', '-').replace(' ', '-')}.{number}.json"
            yield Run(file, {"case": name}, partial(run, case))


def run(case: Case, warm_up_s: float, measure_s: float) -> dict[str, Any]:
    """One run on a cluster of its own."""
    scheduler = make_scheduler("optimizer", {"objective": case.objective})
    cluster = demo_cluster(link=case.link, cores_per_node=case.cores)
    submissions = parse_submissions(list(case.topologies))
    settings = DemoSettings(cluster, submissions, scheduler, "optimizer", warm_up_s, measure_s, look_back=True)
    result = run_demo(settings)
    return as_dict(result)


def compare() -> None:
    """All runs that there are."""
    found = [json.loads(file.read_text(encoding="utf-8")) for file in sorted(RUNS.glob("*.json"))]
    quick = [each for each in found if CASES[each["case"]].objective == "latency"]
    more = [each for each in found if each not in quick]
    rows = []
    for name in dict.fromkeys(each["case"] for each in more):
        own = [each for each in more if each["case"] == name]
        shown = f"{_show([e['throughput_ratio'] for e in own])}: {', '.join(e['verdict'] for e in own)}"
        rows.append((f"throughput at the end / under Even: {name}", "better, not moved or rolled back", shown))
        said = "; ".join(each["text"] for e in own for each in e["decisions"])
        rows.append((f"decisions: {name}", "", said))
    gains = [each["throughput_ratio"] for each in more]
    topologies = [topology for each in found if each["moves"] for topology in each["topologies"]]
    rows += [
        ("throughput at the end / under Even, all runs, geometric mean", "≥ 1.5", f"{geometric_mean(gains):.2f}"),
        ("of runs with a move", "", _mean([each["throughput_ratio"] for each in more if each["moves"]])),
        (
            "of runs without a move: drift, as JVMs warm up and the speed of the machine changes",
            "",
            _mean([each["throughput_ratio"] for each in more if not each["moves"]]),
        ),
        (
            f"runs not below {NOT_BELOW} (two starts of one placement differ by 8 % in the median)",
            "all",
            f"{sum(gain >= NOT_BELOW for gain in gains)} of {len(gains)}",
        ),
        (
            "longest time without an acked tuple during a move, median, worst",
            "≤ 8 s",
            f"{median(s := [t['longest_time_without_ack_s'] for t in topologies]):.1f} s, {max(s):.1f} s",
        ),
        ("tuple trees failed or lost, all runs", "0", str(sum(each["lost"] for each in found))),
    ]
    if quick:
        ratios = _show([_latency(each) for each in quick])
        rows.append(("mean latency after / under Even, limited spouts", "≤ 0.75", ratios))
    title = "The demonstration on a real cluster of three nodes, looking back"
    write_results("storm-gain", title, rows, {"runs": found})


def _mean(ratios: Sequence[float]) -> str:
    return f"{geometric_mean(ratios):.2f} ({len(ratios)} runs)" if ratios else "none"


def _show(ratios: Sequence[float]) -> str:
    return f"{median(ratios):.2f}" + (f" (runs: {', '.join(f'{r:.2f}' for r in ratios)})" if len(ratios) > 1 else "")


def _latency(found: Mapping[str, Any]) -> float:
    (topology,) = found["topologies"]
    return float(topology["after"]["mean_latency_ms"] / topology["before"]["mean_latency_ms"])


if __name__ == "__main__":
    main()
