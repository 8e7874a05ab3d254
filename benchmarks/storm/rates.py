"""What rates below the highest one tell: CPU of nodes, and the highest rate, predicted from a load at another rate.

    python -m benchmarks.storm.rates run [--only TEXT] [--minutes 60] [--starts 3]
    python -m benchmarks.storm.rates compare

Each topology runs under Storm's EvenScheduler on three nodes with their own CPU and links; first with all trees
pending, then its spouts are held to parts of that rate, highest first, and once more with all trees pending. JVMs
compile once: with the second compiler the highest rate still changes twofold within a start. `compare` predicts again
from the stored loads, with the code as it is, and needs no cluster.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from stormwright_lab.evaluations.lab.steady import with_load

from benchmarks.cells.interleaved import Bench, Cell, parsed_options, stored
from benchmarks.kit.results import DIRECTORY, show_progress, write_results
from stormwright.formats import problem_from_dict
from stormwright.model import Problem
from stormwright.model.requests import CPU
from stormwright.predict.answer import Assumptions, predict
from stormwright.predict.calibration.calibration import calibrated, learn
from stormwright.predict.calibration.document import costs_of, costs_to_dict
from stormwright.predict.calibration.evidence import Evidence
from stormwright.predict.calibration.windows import Windows
from stormwright.predict.fixed_point import learn_scales
from stormwright.predict.flow.profile import Profile

#: Code that the page measures.
MEASURES = ("src/stormwright/predict", "src/stormwright/pipeline/measurement")

RECORDS = DIRECTORY / "storm-rates"

#: Seconds: with CPU to spare, and under the limits, before the first measurement; until another rate has settled, and
#: measured.
WARM_S, YOUNG_S, SETTLE_S, MEASURE_S = 30.0, 45.0, 5.0, 15.0

#: Parts of the highest rate.
PARTS = (1.0, 0.8, 0.6, 0.4, 0.2, 0.1, 1.0)

#: Half of them were not looked at while the model was made.
CELLS = (
    Cell(("word-count",), 0.4, "25mbit", developed_on=True),
    Cell(("diamond:bytes=300",), 0.4, "25mbit", developed_on=True),
    Cell(("exclamation",), 0.4, "40mbit", developed_on=True),
    Cell(("linear:bytes=100,work_us=20",), 0.4, "25mbit"),
    Cell(("page-load:bytes=200,work_us=30",), 0.4, "25mbit"),
    Cell(("processing:bytes=200,work_us=5",), 0.4, "25mbit"),
)

#: Parts of which a figure is asked; what is asked of highest rates, and of the CPU of nodes.
ASKED_PARTS = (0.6, 0.4, 0.2)
ASKED_RATE, ASKED_CPU = "median ≤ 15%, p95 ≤ 35%", "median ≤ 10%, p95 ≤ 20%"


def main() -> None:
    options = parsed_options(__doc__)
    if options.what == "compare":
        compare()
        return
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


def _start(bench: Bench, cell: Cell) -> dict[str, Any]:
    """Make one start: what was measured at each part of the highest rate."""
    stretches = []
    with bench.running(cell, None, paced=True) as problem:
        time.sleep(WARM_S)
        bench.limit(cell.cores, cell.link, 1)
        time.sleep(YOUNG_S)
        for part in PARTS:
            highest = stretches[0]["tps"][0] if stretches else 0.0
            bench.hold(part * highest if part < 1 else 0.0)
            time.sleep(SETTLE_S)
            stretches.append({"part": part, **bench.measured(problem, cell.cores, MEASURE_S)})
    return {"stretches": stretches}


def compare() -> None:
    """Predict from all stored loads, and write the errors."""
    starts = [
        (cell, stored(file, dict)["stretches"]) for cell in CELLS for file in sorted(RECORDS.glob(f"{cell.name}.*.gz"))
    ]
    rows: list[tuple[str, str, str]] = []
    details: list[dict[str, Any]] = []
    for seen in (False, True):
        found = [each for cell, stretches in starts for each in _predictions(cell, stretches, seen)]
        details += found
        for part in PARTS[1:-1]:
            of_part = [each for each in found if each["part"] == part]
            unseen = [each for each in of_part if not each["developed_on"]]
            asked = ASKED_RATE if part in ASKED_PARTS else ""
            once = ", after it was reached once" * seen
            rows.append((f"highest rate, predicted from {part:.0%} of it{once}", asked, _rate_errors(of_part)))
            rows.append(("the same, of topologies that were not looked at", "", _rate_errors(unseen)))
    for part in sorted(set(PARTS)):
        errors = [error for cell, stretches in starts for error in _cpu_errors(cell, stretches, part)]
        rows.append(
            (f"CPU of a node at {part:.0%} of the highest rate, predicted from that", ASKED_CPU, _errors(errors))
        )
    write_results(
        "storm-rates", "Predictions from rates below the highest one, on a real cluster", rows, {"loads": details}
    )


def _predictions(cell: Cell, stretches: Sequence[Mapping[str, Any]], seen: bool) -> Iterator[dict[str, Any]]:
    """Yield the highest rate as predicted from each lower one, and as measured: between that before and after it."""
    evidence = Evidence()
    if seen:
        _learn(evidence, stretches[0])
        full = _known(cell, stretches[0])
        evidence.scales = learn_scales(Profile.of(full), *costs_of(full), {})
    before, after = stretches[0]["tps"][0], stretches[-1]["tps"][0]
    for number, stretch in enumerate(stretches[1:-1], 1):
        (topology,) = predict(_known(cell, stretch, evidence)).topologies
        yield {
            "cell": cell.name,
            "developed_on": cell.developed_on,
            "highest_seen": seen,
            "part": stretch["part"],
            "measured_tps": stretch["tps"][0],
            "predicted_tps": topology.reachable_tps.value,
            "highest_tps": before + (after - before) * number / (len(stretches) - 1),
        }


def _known(cell: Cell, stretch: Mapping[str, Any], evidence: Evidence | None = None) -> Problem:
    """Return a problem with the load of a stretch, and with costs fitted to it, after earlier evidence."""
    placed = problem_from_dict(stretch["problem"])
    problem = with_load(placed, stretch["records"], cell.cores, cell.link, following=True)
    nodes = (replace(each, resources={**each.resources, CPU: 100 * cell.cores}) for each in problem.supervisors)
    problem = replace(problem, supervisors=tuple(nodes))
    if evidence is None or problem.load is None:
        return problem
    own = deepcopy(evidence)
    _learn(own, stretch)
    return problem.with_load(replace(problem.load, costs=costs_to_dict(calibrated(own))))


def _learn(evidence: Evidence, stretch: Mapping[str, Any]) -> None:
    windows = Windows()
    windows.add(stretch["records"])
    learn(evidence, windows.closed(all_of_them=True))


def _cpu_errors(cell: Cell, stretches: Sequence[Mapping[str, Any]], part: float) -> Iterator[float]:
    """Yield the errors of the CPU of nodes at a part of the highest rate, predicted from the load at that rate."""
    full = _known(cell, stretches[0])
    for stretch in stretches[1:]:
        if stretch["part"] == part:
            (topology,) = full.topologies
            predicted = predict(
                full, assumptions=replace(Assumptions.of(full), rate_tps={topology.id: stretch["tps"][0]})
            )
            for node in predicted.nodes:
                used = stretch["machine"]["nodes"][node.host]["cores"] / cell.cores
                yield abs((node.cpu.value + node.spinning) / used - 1)


def _rate_errors(found: Sequence[Mapping[str, Any]]) -> str:
    return _errors([abs(each["predicted_tps"] / each["highest_tps"] - 1) for each in found])


def _errors(errors: Sequence[float]) -> str:
    if not errors:
        return "not measured"
    return f"median {median(errors):.0%}, p95 {np.quantile(errors, 0.95):.0%}, {len(errors)}"


if __name__ == "__main__":
    main()
