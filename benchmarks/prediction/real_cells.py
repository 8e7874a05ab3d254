"""What is predicted of placements against what they do, on a real cluster whose nodes have their own CPU and links.

    python -m benchmarks.prediction.real_cells run [--records DIRECTORY] [--first 4] [--only TEXT]
    python -m benchmarks.prediction.real_cells compare [--records DIRECTORY] [--source even]
    python -m benchmarks.prediction.real_cells list

A cell is a topology under a placement with nodes held to some cores and links; `cells/chosen.py` has them all. `run`
measures them and keeps raw records, a file for each start of a topology, in DIRECTORY; what is there is not run again.
In one start the limits change while it runs; each is measured with as many trees as go, then at 70 % of that rate.

`compare` needs no cluster: it takes the load from the records of one placement of each topology and limit, predicts all
the others, and writes the errors. Costs are fitted to that placement, and where it leaves CPU to spare on every node to
a topology that is not predicted. The machine is now faster and now slower, which predictions do not know; the errors of
those corrected by its speed, which a fixed loop beside each measurement gives, are shown too.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.cells.choices import service_fit
from benchmarks.cells.chosen import DEVELOPED_ON, LIMITS, NOT_LOOKED_AT, PLACEMENTS, TOPOLOGIES, starts
from benchmarks.cells.compare import Cell, cells
from benchmarks.cells.figures import chance, noise, of_cells, spread
from benchmarks.cells.fitted import fitting
from benchmarks.cells.learned import errors
from benchmarks.cells.measured import Measured
from benchmarks.cells.running import file_of, run
from benchmarks.kit.results import DIRECTORY, show_progress, write_results

#: Code that the page measures.
MEASURES = ("src/stormwright/predict",)

RECORDS = DIRECTORY / "prediction-cells"

#: It sees many runs of a topology where ours sees one.
_PEER = "gradient boosting on flat features, trained on nine tenths of all starts"

ASKED = {
    "throughput error": "median ≤ 5 %, p95 ≤ 15 %, worst ≤ 25 %",
    "throughput q-error": "",
    "mean latency error at the limited rate": "median ≤ 10 %, p95 ≤ 30 %",
    "CPU per node": "median ≤ 5 %",
    "tuples per link": "median ≤ 5 %",
    "bottleneck right": "≥ 95 %",
    "regret": "median 0, worst ≤ 5 %",
    "Kendall tau": "≥ 0.9",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("run", "compare", "list"))
    parser.add_argument("--records", type=Path, default=RECORDS)
    parser.add_argument("--first", type=int, default=None, help="run: only so many starts")
    parser.add_argument("--only", default="", help="only starts with this in their name")
    parser.add_argument(
        "--source", default="even", choices=tuple(PLACEMENTS), help="compare: placement to predict from"
    )
    options = parser.parse_args()
    chosen = [start for start in starts() if options.only in start.name][: options.first]
    if options.what == "list":
        for start in chosen:
            print(start.name, "" if file_of(options.records, start).exists() else "to do")
    elif options.what == "run":
        show_progress()
        run({start: PLACEMENTS[start.placement] for start in chosen}, options.records)
    else:
        files = [file_of(options.records, start) for start in chosen]
        compare([Measured.read(file) for file in files if file.exists()], len(files), options)


def compare(found: Sequence[Measured], of: int, options: argparse.Namespace) -> None:
    """Predict, and write the errors."""
    fit = fitting(found)
    every = list(cells(found, list(PLACEMENTS), fit))
    own = [cell for cell in every if cell.source == options.source]
    by_speed = list(cells(found, [options.source], fit, by_speed=True))
    by_service = list(cells(found, [options.source], service_fit()))
    rows = [(f"{name}, from `{options.source}`", asked, of_cells(own)[name]) for name, asked in ASKED.items()]
    rows += [
        (f"the same, by {word}: {name}", "", of_cells(those)[name])
        for word, those in (
            ("costs as a service fits them", by_service),
            ("predictions corrected by the machine's speed during the predicted run", by_speed),
            ("all placements in turn as the source", every),
        )
        for name in ("throughput error", "throughput q-error", "regret", "Kendall tau")
    ]
    rows += [
        (
            f"throughput error, {by}, of {len(names)} topologies {word}",
            "",
            of_cells(_only(those, names))["throughput error"],
        )
        for word, names in (("developed on", DEVELOPED_ON), ("not looked at", NOT_LOOKED_AT))
        for by, those in (("as above", own), ("costs as a service fits them", by_service))
        if _only(those, names)
    ]
    rows += [(name, "", value) for name, value in {**noise(found), **chance(own, found)}.items()]
    rows.append(("starts that were measured, of those chosen", str(of), str(len(found))))
    rows.append(("cells that were measured, of those chosen", str(_chosen()), str(_measured(found))))
    rows.append((f"the same, by {_PEER}: throughput error", "above ours", spread(errors(found, options.source))))
    title = "Predictions of placements against a real cluster, JVMs with the first compiler only"
    details: dict[str, Any] = {
        "raw records": options.records.name,
        "limits": [str(limit) for limit in LIMITS],
        "topologies": dict(TOPOLOGIES),
        "predicted": [cell.as_dict() for cell in every],
        "measured": [summary for start in found for summary in start.summaries()],
    }
    write_results("prediction-cells", title, rows, details)
    _worst(own)


def _only(those: Sequence[Cell], topologies: Sequence[str]) -> list[Cell]:
    return [cell for cell in those if cell.topology in topologies]


def _chosen() -> int:
    return len(TOPOLOGIES) * len(PLACEMENTS) * len(LIMITS)


def _measured(found: Sequence[Measured]) -> int:
    return sum(len(LIMITS) for each in found if each.start.topology in TOPOLOGIES and each.start.repeat == 0)


def _worst(found: Sequence[Cell]) -> None:
    for cell in sorted(found, key=lambda cell: -cell.q_error)[:10]:
        print(
            f"{cell.topology} {cell.source} → {cell.placement}, {cell.limit}: "
            f"{cell.predicted_tps:,.0f} trees/s predicted, {cell.measured_tps:,.0f} measured, "
            f"limited by {cell.predicted_limit}; full: {', '.join(cell.measured_limits)}"
        )


if __name__ == "__main__":
    main()
