"""The virtual cluster, tuple by tuple, against what a real one did, beside what is predicted of it.

    python benchmarks/simulator_cells.py [--seconds 4] [--only TEXT] [--source even]

It takes the recorded cells of `prediction_cells.py` (see there), and so needs no cluster: the load and the costs come
from the records of one placement of each topology and limit, and all the others are both predicted and simulated with
them: once with as many trees as may be pending, once at the rate at which latency was measured. A quarter of the time
that is simulated is for queues to fill and does not count. Nothing is fitted to the cells that are simulated.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from cells.chosen import starts
from cells.compare import Cell, assumed_at, cell_of, pairs
from cells.figures import spread
from cells.fitted import Fitted, fitting
from cells.measured import Measured, Stretch
from cells.running import file_of
from results import ROOT, write_results

from stormwright.model import Problem
from stormwright.predict.answer import Assumptions
from stormwright.predict.flow.profile import Profile
from stormwright.simulator.storm.counting import Taken, quantile_s
from stormwright.simulator.storm.engine import Events
from stormwright.simulator.storm.start import Settings

RECORDS = ROOT / "docs" / "results" / "prediction-cells"

#: Of the time that is simulated, what does not count.
_FILLS = 0.25


@dataclass(frozen=True)
class Simulated:
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
    for source, target, problem, limit, known in pairs(measured, [options.source], fitting(measured)):
        cell = cell_of(source, target, problem, limit, known, True)
        full, limited = target.at(limit), target.at(limit, limited=True)
        most = _run(source, target, problem, known, full, options.seconds, saturated=True)
        less = _run(source, target, problem, known, limited, options.seconds, saturated=False)
        times = (1e3 * _mean_s(less), 1e3 * quantile_s(less.latency[0], 0.99))
        found.append(Simulated(cell, most.topologies["completed"][0] / most.now_s, times))
        print(cell.topology, cell.placement, limit, round(cell.measured_tps), round(found[-1].trees_per_s), flush=True)
    took_s = time.process_time() - begun_s
    rows = [*_rows(found), ("CPU for all of it, predictions included", "", f"{took_s:,.0f} s")]
    title = "The virtual cluster against a real one, tuple by tuple"
    write_results("simulator-cells", title, rows, {"cells": [each.as_dict() for each in found]})


def _run(
    source: Measured,
    target: Measured,
    problem: Problem,
    known: Fitted,
    stretch: Stretch,
    seconds: float,
    *,
    saturated: bool,
) -> Taken:
    assumed: Assumptions = assumed_at(source, stretch.limit, stretch, known, True)
    profile = Profile.of(problem)
    settings = Settings(assumed.costs, assumed.corrections, saturated=saturated)
    of = Events(problem, target.slots_in(problem), settings, profile)
    if not saturated:
        of.rate(0, stretch.acked_tps / float(profile.rate_tps[0]))
    of.until(_FILLS * seconds)
    before = of.seen
    of.until(seconds)
    return of.seen.since(before)


def _mean_s(seen: Taken) -> float:
    return float(seen.topologies["latency_s"][0] / max(seen.topologies["completed"][0], 1))


def _rows(found: Sequence[Simulated]) -> list[tuple[str, str, str]]:
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
