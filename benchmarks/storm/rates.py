"""What rates below the highest one tell: CPU of nodes, and the highest rate, predicted from a load at another rate.

    python -m benchmarks.storm.rates run [--only TEXT] [--minutes 60] [--starts 3]
    python -m benchmarks.storm.rates compare

Each topology runs under Storm's EvenScheduler on three nodes with their own CPU and links; first with all trees pending,
then its spouts are held to parts of that rate, highest first. `compare` predicts again from the stored loads, with the
code as it is, and needs no cluster.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

from benchmarks.cells.interleaved import Bench, Cell, stored
from benchmarks.cells.threads import times
from benchmarks.kit.results import DIRECTORY, show_progress
from stormwright.model import Problem

#: Code that the page measures.
MEASURES = ("src/stormwright/predict", "src/stormwright/pipeline/measurement")

RECORDS = DIRECTORY / "storm-rates"

#: Seconds: age of workers at the first measurement, until another rate has settled, and measured.
YOUNG_S, SETTLE_S, MEASURE_S = 60.0, 6.0, 12.0

#: Parts of the highest rate; it is measured once more at the end, as the code of workers warms up meanwhile.
PARTS = (1.0, 0.8, 0.6, 0.4, 0.2, 0.1, 1.0)

_C1, _DEFAULT = "first compiler", "default"

#: Half of them were not looked at while the model was made.
CELLS = (
    Cell(("word-count",), 0.4, "25mbit", _C1, developed_on=True),
    Cell(("diamond:bytes=300",), 0.4, "25mbit", _DEFAULT, developed_on=True),
    Cell(("exclamation",), 0.4, "40mbit", _DEFAULT, developed_on=True),
    Cell(("linear:bytes=100,work_us=20",), 0.4, "25mbit", _C1),
    Cell(("page-load:bytes=200,work_us=30",), 0.4, "25mbit", _DEFAULT),
    Cell(("processing:bytes=200,work_us=5",), 0.4, "25mbit", _C1),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("run", "compare"))
    parser.add_argument("--only", default="", help="only cells with this in their name")
    parser.add_argument("--minutes", type=float, default=600.0, help="begin no start later than that")
    parser.add_argument("--starts", type=int, default=1)
    options = parser.parse_args()
    show_progress()
    RECORDS.mkdir(parents=True, exist_ok=True)
    until_s = time.monotonic() + 60 * options.minutes
    with Bench.up() as bench:
        for number in range(options.starts):
            for cell in CELLS:
                if options.only in cell.name and time.monotonic() < until_s:
                    stored(_file(cell, number), lambda cell=cell: _start(bench, cell))  # type: ignore[misc]


def _file(cell: Cell, number: int) -> Path:
    return RECORDS / f"{cell.name}.{number}.json.gz"


# Running ------------------------------------------------------------------------------------------


def _start(bench: Bench, cell: Cell) -> dict[str, Any]:
    """Make one start: what was measured at each part of the highest rate."""
    stretches = []
    with bench.running(cell, None, paced=True) as problem:
        begun_s = time.monotonic()
        bench.limit(cell.cores, cell.link, 1)
        time.sleep(max(begun_s + YOUNG_S - time.monotonic(), 0.0))
        for part in PARTS:
            highest = stretches[0]["tps"][0] if stretches else 0.0
            bench.hold(part * highest if part < 1 else 0.0)
            time.sleep(SETTLE_S)
            stretches.append({"part": part, **_measured(bench, cell, problem)})
    return {"stretches": stretches}


def _measured(bench: Bench, cell: Cell, problem: Problem) -> dict[str, Any]:
    first, first_s = times(bench.cluster), time.monotonic()
    found = bench.measured(problem, cell.cores, MEASURE_S)
    last, seconds = times(bench.cluster), time.monotonic() - first_s
    threads = {
        node: [
            [*key, kind, *((now - then) / seconds for now, then in zip(spent, first[node].get(key, ("", (0, 0, 0)))[1]))]
            for key, (kind, spent) in there.items()
        ]
        for node, there in last.items()
    }
    return {**found, "threads": threads}


if __name__ == "__main__":
    main()
