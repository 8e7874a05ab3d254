"""The published evaluations on a real cluster: a verdict for each figure and table.

    python -m benchmarks.storm.experiments run [NAME ...]
    python -m benchmarks.storm.experiments compare

`run` measures the cells of `stormwright experiment` that are not there yet, by default of all experiments, and stores
each at once in ``docs/results/experiments``; Ctrl-C ends it. `compare` needs no cluster: it simulates every cell, too,
and writes the page. Starts take turns: the second start of a cell follows the first starts of all cells of its
experiment.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from stormwright_lab.evaluations.cell_store import CellStore
from stormwright_lab.evaluations.cells import Cell, CellTimes, cells_of
from stormwright_lab.evaluations.definitions import Claim, LimitClaim, OrderClaim
from stormwright_lab.evaluations.intervals import MIN_STARTS
from stormwright_lab.evaluations.lab.cluster import ClusterLab
from stormwright_lab.evaluations.lab.simulated import SimulatedLab
from stormwright_lab.evaluations.papers import PAPERS
from stormwright_lab.evaluations.report import as_dict, write_page
from stormwright_lab.evaluations.run import measurements, run_cells
from stormwright_lab.evaluations.verdict import IN_DIRECTION, IN_MAGNITUDE, OTHERWISE, UNMEASURED, judge

from benchmarks.kit.results import DIRECTORY, show_progress, write_results

#: Code that the page measures.
MEASURES = (
    "lab/src/stormwright_lab/evaluations/intervals.py",
    "lab/src/stormwright_lab/evaluations/lab",
    "lab/src/stormwright_lab/evaluations/papers",
    "lab/src/stormwright_lab/evaluations/placing.py",
    "lab/src/stormwright_lab/evaluations/run.py",
    "lab/src/stormwright_lab/evaluations/verdict.py",
    "src/stormwright/history/evaluation/comparison.py",
    "src/stormwright/simulator/storm",
)

#: Verdict → whether the published order was found.
FOUND = {IN_MAGNITUDE: True, IN_DIRECTION: True, OTHERWISE: False}

CELLS = DIRECTORY / "experiments"


def main() -> None:
    """Run what is left, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("run", "compare"))
    parser.add_argument("names", nargs="*", help=f"of {', '.join(PAPERS)}")
    options = parser.parse_args()
    store = CellStore(CELLS / "cells.jsonl")
    if options.what == "run":
        show_progress()
        run_cells([cell for name in options.names or PAPERS for cell in _cells(name)], store, ClusterLab)
    simulated = CellStore(CELLS / "simulated-cells.jsonl")
    run_cells([cell for name in PAPERS for cell in _cells(name)], simulated, SimulatedLab)
    documents = [_document(name, store, simulated) for name in PAPERS]
    rows = [(f"{d['experiment']}: {_starts(d)}", f"from {MIN_STARTS} starts", _verdicts(d)) for d in documents]
    left = sum(row["verdict"] == UNMEASURED for document in documents for row in document["rows"])
    rows.append(("rows without a verdict and without a reason", "0", str(left)))
    measured = {
        name: {row.where for row in PAPERS[name].rows if any(map(_needs_cluster, row.claims))} for name in PAPERS
    }
    compared = [
        (FOUND.get(row["verdict"]), FOUND.get(row["simulated"]))
        for document in documents
        for row in document["rows"]
        if row["where"] in measured[document["experiment"]]
    ]
    both = [verdicts for verdicts in compared if None not in verdicts]
    equal = sum(real == simulated for real, simulated in both)
    once = sum(verdicts.count(None) == 1 for verdicts in compared)
    rows.append(("measured rows that are decided in virtual time, too: same direction", "", f"{equal} of {len(both)}"))
    rows.append(("measured rows that are decided on the cluster or in virtual time only", "", str(once)))
    write_results("experiments", "The published evaluations on a real cluster", rows, {"papers": documents})


def _needs_cluster(claim: Claim) -> bool:
    return isinstance(claim, OrderClaim | LimitClaim)


def _cells(name: str) -> list[Cell]:
    return cells_of(PAPERS[name], CellTimes())


def _document(name: str, store: CellStore, simulated: CellStore) -> dict[str, Any]:
    paper, cells = PAPERS[name], _cells(name)
    with tempfile.TemporaryDirectory() as pages:
        document = as_dict(paper, write_page(Path(pages) / "page.html", paper, cells, store), cells, store)
    found = measurements(paper, cells, simulated)
    for row, published in zip(document["rows"], paper.rows, strict=True):
        row["simulated"] = judge(published, found).verdict
    return document


def _starts(document: dict[str, Any]) -> str:
    return f"{document['measured']} of {document['cells']} starts" if document["cells"] else "computed, no starts"


def _verdicts(document: dict[str, Any]) -> str:
    counts = Counter(row["verdict"] for row in document["rows"])
    return ", ".join(f"{count} {verdict}" for verdict, count in counts.most_common())


if __name__ == "__main__":
    main()
