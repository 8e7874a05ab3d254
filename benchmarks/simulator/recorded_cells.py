"""The virtual cluster, tuple by tuple, against what a real one did, beside what is predicted of it.

    python -m benchmarks.simulator.recorded_cells [--seconds 4] [--only TEXT] [--source even]

It takes the recorded cells of `prediction/real_cells.py` (see there), and so needs no cluster: the load and the costs
come from the records of one placement of each topology and limit, and all the others are both predicted and simulated
with them: once with as many trees as may be pending, once at the rate at which latency was measured. A quarter of the
time that is simulated is for queues to fill and does not count. Nothing is fitted to the cells that are simulated: what
the simulator takes of the CPU for waking comes off the costs by simulating the source itself (`cells/simulated.py`).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.cells.chosen import Limit, starts
from benchmarks.cells.compare import Cell, assumed_at, cell_of, pairs
from benchmarks.cells.figures import spread
from benchmarks.cells.fitted import Fitted, fitting
from benchmarks.cells.measured import Measured
from benchmarks.cells.running import file_of
from benchmarks.cells.simulated import as_simulated, simulated, with_factors
from benchmarks.kit.results import ROOT, write_results
from stormwright.perflog.schema import LATENCY_EDGES_MS
from stormwright.predict.costs import Correction
from stormwright.simulator.storm.counting import EngineTotals, by_performance_log
from stormwright.simulator.storm.engine import Events

#: Code that the page measures.
MEASURES = (
    "src/stormwright/simulator",
    "src/stormwright/predict",
)

RECORDS = ROOT / "docs" / "results" / "prediction-cells"

#: Of the time that is simulated, what does not count.
_FILLS = 0.25


@dataclass(frozen=True)
class SimulatedNetwork:
    """A cell beside what was simulated of it: trees/s, and mean and 99th percentile of latency at the limited rate."""

    cell: Cell
    trees_per_s: float
    limited_ms: tuple[float, float]

    @property
    def rate_error(self) -> float:
        """In parts of what was measured."""
        return abs(self.trees_per_s / self.cell.measured_tps - 1)

    @property
    def latency_error(self) -> float | None:
        """Of the mean, in parts of what was measured."""
        measured = self.cell.measured_ms
        return None if measured is None else abs(self.limited_ms[0] / measured[0] - 1)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        simulated = {"trees_per_s": round(self.trees_per_s, 1), "latency_ms": np.round(self.limited_ms, 3).tolist()}
        return {**self.cell.as_dict(), "simulated": simulated}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=4.0, help="of virtual time, for each rate")
    parser.add_argument("--only", default="", help="only topologies with this in their name")
    parser.add_argument("--source", default="even", help="placement to take load and costs from")
    options = parser.parse_args()
    files = [file_of(RECORDS, start) for start in starts() if options.only in start.topology or "cal" in start.topology]
    measured = [Measured.read(file) for file in files if file.exists()]
    begun_s, found = time.process_time(), []
    told: dict[tuple[str, Limit], tuple[Fitted, Correction]] = {}
    for source, target, problem, limit, known in pairs(measured, [options.source], fitting(measured)):
        cell = cell_of(source, target, problem, limit, known, by_speed=False)
        if (source.topology, limit) not in told:
            told[source.topology, limit] = as_simulated(source, problem, known, source.at(limit))
        costs, factors = told[source.topology, limit]
        slots, counts = target.slots_in(problem), []
        for stretch in (target.at(limit), target.at(limit, limited=True)):
            assumed = with_factors(assumed_at(source, limit, stretch, costs, by_speed=False), source.topology, factors)
            rate_tps = stretch.acked_tps if stretch.asked_tps else 0.0
            of = simulated(problem, slots, assumed, rate_tps, _FILLS * options.seconds)
            counts.append(_run(of, options.seconds))
        most, less = counts
        times = (1e3 * _mean_s(less), _late_ms(less))
        found.append(SimulatedNetwork(cell, most.topologies["completed"][0] / most.now_s, times))
        print(cell.topology, cell.placement, limit, round(cell.measured_tps), round(found[-1].trees_per_s), flush=True)
    took_s = time.process_time() - begun_s
    rows = [*_rows(found), ("CPU for all of it, predictions included", "", f"{took_s:,.0f} s")]
    title = "The virtual cluster against a real one, tuple by tuple"
    write_results("simulator-cells", title, rows, {"cells": [each.as_dict() for each in found]})


def _run(of: Events, seconds: float) -> EngineTotals:
    """What is counted until then."""
    before = of.counts
    of.until(seconds)
    return of.counts.since(before)


def _mean_s(counts: EngineTotals) -> float:
    return float(counts.topologies["latency_s"][0] / max(counts.topologies["completed"][0], 1))


def _late_ms(counts: EngineTotals) -> float:
    """The 99th percentile as it is read from the performance log, as what was measured is: the middle of its bucket."""
    (latency,) = by_performance_log(counts.latency)
    edges = np.array([LATENCY_EDGES_MS[0] / 2, *LATENCY_EDGES_MS, 2 * LATENCY_EDGES_MS[-1]])
    bucket = int(np.searchsorted(np.cumsum(latency), 0.99 * latency.sum()))
    return float(np.sqrt(edges[bucket] * edges[bucket + 1]))


def _rows(found: Sequence[SimulatedNetwork]) -> list[tuple[str, str, str]]:
    predicted = [abs(each.cell.latency_error) for each in found if each.cell.latency_error is not None]
    simulated = [each.latency_error for each in found if each.latency_error is not None]
    known = [error for error in predicted if np.isfinite(error)]
    p99 = [(each.limited_ms[1], each.cell.measured_ms[1]) for each in found if each.cell.measured_ms is not None]
    near = sum(max(one / other, other / one) <= 1.5 for one, other in p99 if one > 0)
    by_prediction = [
        (e.cell.predicted_ms[1], e.cell.measured_ms[1]) for e in found if e.cell.predicted_ms and e.cell.measured_ms
    ]
    near_predicted = sum(max(one / other, other / one) <= 1.5 for one, other in by_prediction)
    return [
        ("cells", "", str(len(found))),
        ("throughput error, simulated", "median ≤ 5 %", spread(each.rate_error for each in found)),
        ("throughput error, predicted", "", spread(abs(each.cell.rate_error) for each in found)),
        ("mean latency error at the limited rate, simulated", "median ≤ 10 %", spread(simulated)),
        (
            "mean latency error at the limited rate, predicted",
            "",
            f"{spread(known)}; {len(predicted) - len(known)} none",
        ),
        ("99th percentile within 1.5 ×, simulated", "all", f"{near} of {len(p99)}"),
        ("99th percentile within 1.5 ×, predicted", "", f"{near_predicted} of {len(by_prediction)}"),
    ]


if __name__ == "__main__":
    main()
