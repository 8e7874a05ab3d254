"""How soon a slow node is found, and how often one is taken for slow that is not, in simulated time.

    python -m benchmarks.service.slow_nodes [--node-hours 10000] [--trials 200]

Windows are made, not measured, but their noise is: each node draws what its components' tuples take in a second, apart
from the mean, from the records of one start on a real cluster (``docs/results/prediction-cells``), five for a window.
On top of that, where such short records cannot tell: a part of its own that comes and goes within minutes (deviation
`WANDERS`), windows with a long pause (one in `PAUSES`), loads that become harder or easier everywhere each 10 minutes,
and executors that change places each half hour. With the defaults it takes some eight minutes of a core.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.kit.results import ROOT, write_results
from stormwright.controller.safety.slowness import CPU, LATE_WINDOWS, TIME, WINDOW_S, SlowNodes, WorkSample
from stormwright.model.arrays import FloatArray

#: Code that the page measures.
MEASURES = ("src/stormwright/controller/safety/slowness.py",)

CELLS = ROOT / "docs" / "results" / "prediction-cells"

#: Nodes of the simulated cluster, and components on each.
NODES, COMPONENTS = 50, 2

_OF = [("t", f"c{component}") for component in range(COMPONENTS)]

#: What is assumed beyond what was recorded.
WANDERS, WANDERS_S, PAUSES, PAUSE = 0.03, 300.0, 300, 1.0
LOAD_S, PLACES_S = 600.0, 1800.0

#: Fewer seconds of a component on a node in a stretch tell nothing of its noise.
_MIN_SECONDS = 6

#: How many times as much a tuple takes on the slow node.
SLOWER = (1.3, 1.5, 2.0, 3.0)


def noise_of(cell: Path) -> FloatArray:
    """Logs of what tuples take in a second beside their mean, by `CPU` and `TIME`, shape (n, 2)."""
    found = []
    for stretch in json.loads(gzip.decompress(cell.read_bytes()))["stretches"]:
        sums: defaultdict[tuple[str, str], dict[int, tuple[int, int, int]]] = defaultdict(dict)
        for record in stretch["records"]:
            second = record["start_ms"] // 1000
            for each in record["executors"]:
                if each["type"] == "bolt" and each["received"] >= 20 and each["cpu_ns"]:
                    took = max(each["execute_ns"] - (each.get("waited_ns") or 0), each["cpu_ns"])
                    one = (each["cpu_ns"], took, each["received"])
                    at = sums[each["component"], record["worker"]["host"]]
                    at[second] = tuple(a + b for a, b in zip(one, at.get(second, (0, 0, 0)), strict=True))
        for seconds in sums.values():
            if len(seconds) >= _MIN_SECONDS:
                logs = np.log([[cpu / count, took / count] for cpu, took, count in seconds.values()])
                # What is taken from the mean of n has a deviation that is smaller by the root of (n - 1) / n.
                found.append((logs - logs.mean(axis=0)) * np.sqrt(len(logs) / (len(logs) - 1)))
    return np.concatenate(found) if found else np.empty((0, 2))


@dataclass
class Cluster:
    """A cluster in simulated time; `slow` are factors of nodes."""

    pools: Sequence[FloatArray]
    rng: np.random.Generator
    slow: Mapping[int, float]
    measure: int = CPU

    def __post_init__(self) -> None:
        drawn = self.rng.integers(len(self.pools), size=NODES)
        self._all, sizes = np.exp(np.concatenate(self.pools)), np.array([len(pool) for pool in self.pools])
        self._first, self._size = (np.cumsum(sizes) - sizes)[drawn], sizes[drawn]
        self._names = [f"n{node}" for node in range(NODES)]
        self._wander = self.rng.normal(0, WANDERS, (NODES, 2))
        self._load = np.zeros((COMPONENTS, 2))
        self._tasks = np.zeros(NODES, dtype=int)
        self._skew = self.rng.normal(0, 0.3, (NODES, COMPONENTS, 2))
        self._window = 0

    def window(self) -> dict[str, list[WorkSample]]:
        rng, keeps = self.rng, float(np.exp(-WINDOW_S / WANDERS_S))
        self._window += 1
        self._wander = keeps * self._wander + rng.normal(0, WANDERS * np.sqrt(1 - keeps**2), (NODES, 2))
        if self._window % int(LOAD_S / WINDOW_S) == 0:
            self._load = rng.normal(0, 0.3, (COMPONENTS, 1)) * np.ones(2)
        moved = np.flatnonzero(rng.random(NODES) < WINDOW_S / PLACES_S)
        self._tasks[moved] += 1
        self._skew[moved] = rng.normal(0, 0.3, (len(moved), COMPONENTS, 2))
        drawn = self._size[:, None, None] * rng.random((NODES, COMPONENTS, WINDOW_S))
        noise = np.log(self._all[self._first[:, None, None] + drawn.astype(int)].mean(axis=2))
        noise[rng.random(NODES) < 1 / PAUSES] += PAUSE
        logs = self._skew + self._load + self._wander[:, None, :] + noise
        for node, factor in self.slow.items():
            logs[node, :, CPU if self.measure == CPU else TIME] += np.log(factor)
            if self.measure == CPU:
                logs[node, :, TIME] += np.log(factor)
        peers = [(cpu, time) for cpu, time in np.median(logs, axis=0).tolist()]
        tasks = [frozenset([number]) for number in self._tasks.tolist()]
        return {
            name: [
                WorkSample(_OF[component], its, (cpu, time), peers[component], COMPONENTS - component)
                for component, (cpu, time) in enumerate(own)
            ]
            for name, its, own in zip(self._names, tasks, logs.tolist(), strict=True)
        }


def false_alarms(pools: Sequence[FloatArray], node_hours: float) -> int:
    """How many of nodes that are as they were."""
    cluster, detector, found = Cluster(pools, np.random.default_rng(1), {}), SlowNodes(), 0
    for _ in range(round(node_hours * 3600 / WINDOW_S / NODES)):
        found += len(detector.take(cluster.window()))
    return found


def found_after_s(pools: Sequence[FloatArray], factor: float, measure: int, trials: int) -> Iterator[float]:
    """Seconds from when a node became slow to when it is found; infinite where it is not within five minutes."""
    for trial in range(-(-trials // 5)):
        rng = np.random.default_rng(1000 + trial)
        cluster, detector = Cluster(pools, rng, {}, measure), SlowNodes()
        for _ in range(200):
            detector.take(cluster.window())
        # Five of fifty: more at once would be the peers.
        cluster.slow, begun = dict.fromkeys(range(5), factor), rng.random(5) * WINDOW_S
        left = dict(zip((f"n{node}" for node in range(5)), begun.tolist(), strict=True))
        for number in range(1, 61):
            for each in detector.take(cluster.window()):
                if each.node in left:
                    # A window is judged once the next of it is over, and has begun a little before or after.
                    yield (number + LATE_WINDOWS) * WINDOW_S + left.pop(each.node)
        yield from [float("inf")] * len(left)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--node-hours", type=float, default=10_000.0)
    parser.add_argument("--trials", type=int, default=200)
    told = parser.parse_args()
    pools = [pool for cell in sorted(CELLS.glob("*.json.gz")) if len(pool := noise_of(cell)) >= 100]
    deviations = np.array([pool.std(axis=0) for pool in pools])
    rows = []
    for of, name in ((CPU, "CPU"), (TIME, "time")):
        low, middle, high = np.percentile(deviations[:, of], [10, 50, 90])
        rows.append(
            (
                f"recorded noise of {name} per tuple in a second, {len(pools)} starts",
                "",
                f"{middle:.2f} ({low:.2f} to {high:.2f})",
            )
        )
    for measure, name in ((CPU, "CPU per tuple"), (TIME, "time per tuple alone")):
        for factor in SLOWER:
            seconds = np.array(list(found_after_s(pools, factor, measure, told.trials)))
            soon = float(np.mean(seconds <= 60))
            middle, late = (f"{np.percentile(seconds, q, method='nearest'):.0f} s" for q in (50, 95))
            rows.append(
                (
                    f"a node whose {name} is {factor:g}-fold, found within 60 s",
                    "all",
                    f"{soon:.1%} of {len(seconds)}; median {middle}, p95 {late}",
                )
            )
    alarms = false_alarms(pools, told.node_hours)
    rows.append((f"false alarms in {told.node_hours:,.0f} node-hours", "≤ 1 in 10,000", str(alarms)))
    write_results(
        "slow-nodes", "Slow nodes: how soon they are found, and how often without cause", rows, {"pools": len(pools)}
    )


if __name__ == "__main__":
    main()
