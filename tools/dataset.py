"""Write the open data set of measured placements from the cells of ``python -m benchmarks.storm.experiments``.

``python tools/dataset.py docs/datasets/storm-placements.zip`` (or ``make dataset``). Records that are no longer beside
the cells are taken from the archive as it was.
"""

from __future__ import annotations

import csv
import io
import json
import sys
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from stormwright_lab.evaluations.cell_store import CellOutcome, CellStore
from stormwright_lab.evaluations.cells import Cell, CellTimes, cells_of
from stormwright_lab.evaluations.definitions import FIGURES
from stormwright_lab.evaluations.intervals import mean_of, samples_of
from stormwright_lab.evaluations.papers import PAPERS
from stormwright_lab.evaluations.placing import by_host, scheduler_input
from stormwright_lab.evaluations.run import SAME, measurements

from stormwright.datasets import BASELINE, CELL, CELLS, PROBLEMS, README, RECORDS
from stormwright.formats import problem_to_dict
from stormwright.model import Problem

ROOT = Path(__file__).resolve().parents[1]
MEASURED = ROOT / "docs" / "results" / "experiments" / "cells.jsonl"

#: Most records in a group of rows: cells are read one by one.
_GROUP = 200


def main(path: Path) -> None:
    """Write the archive."""
    store = CellStore(MEASURED)
    cells = [cell for paper in PAPERS.values() for cell in cells_of(paper, CellTimes()) if _is_placement(cell, store)]
    problems = {cell.first().key: scheduler_input(cell, store) for cell in cells}
    records = _records(cells, store, path)
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(".new")
    with zipfile.ZipFile(new, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        archive.writestr(README, (ROOT / "docs" / "datasets" / "README.md").read_text(encoding="utf-8"))
        archive.writestr("LICENSE.txt", "CC BY 4.0, https://creativecommons.org/licenses/by/4.0/\n")
        lines = [json.dumps(_document(cell, store.found[cell.key], problems[cell.first().key])) for cell in cells]
        archive.writestr(CELLS, "\n".join(lines) + "\n")
        archive.writestr(BASELINE, _baseline(cells, store))
        for name, problem in problems.items():
            archive.writestr(f"{PROBLEMS}/{name}.json", json.dumps(problem_to_dict(problem)))
        parquet = io.BytesIO()
        pq.write_table(records, parquet, compression="zstd", compression_level=19, row_group_size=_GROUP)
        archive.writestr(zipfile.ZipInfo(RECORDS), parquet.getvalue(), zipfile.ZIP_STORED)
    new.replace(path)
    print(f"{len(cells)} cells, {len(problems)} problems, {path.stat().st_size / 1e6:.1f} MB")


def _is_placement(cell: Cell, store: CellStore) -> bool:
    """Return whether a cell was measured itself, and its placement is known."""
    found, first = store.found.get(cell.key), store.found.get(cell.first().key)
    return bool(found and first and first.problem and found.placement and SAME not in found.details)


def _document(cell: Cell, found: CellOutcome, problem: Problem) -> dict[str, Any]:
    order = by_host(problem)
    return {
        "key": cell.key,
        "experiment": cell.paper,
        "block": cell.block.name,
        "variant": cell.variant,
        "start": cell.repeat,
        "scheduler": cell.placed_by.scheduler,
        "settings": dict(cell.placed_by.settings),
        "topologies": list(cell.block.topologies),
        "conf": dict(cell.block.conf),
        "cores": found.details["cores"],
        "link": cell.block.link,
        "rate_tps": found.rate_tps,
        "figures": dict(found.figures),
        "slots": [(order[node], port) for own in found.placement for node, port in own],
        "problem": cell.first().key,
    }


def _records(cells: Sequence[Cell], store: CellStore, old: Path) -> pa.Table:
    """Return the records of all cells, each with the key of its cell."""
    new = {cell.key: records for cell in cells if (records := store.records(cell.key))}
    tables = [
        pa.Table.from_pylist(records).add_column(0, CELL, pa.array([key] * len(records)))
        for key, records in new.items()
    ]
    missing = {cell.key for cell in cells} - new.keys()
    if missing and old.exists():
        with zipfile.ZipFile(old) as archive:
            tables.append(pq.read_table(io.BytesIO(archive.read(RECORDS)), filters=[(CELL, "in", missing)]))
    return pa.concat_tables(tables, promote_options="permissive")


def _baseline(cells: Sequence[Cell], store: CellStore) -> str:
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(["experiment", "block", "variant", "figure", "starts", "mean", "low", "high"])
    writer.writerows(_means(cells, store))
    return text.getvalue()


def _means(cells: Sequence[Cell], store: CellStore) -> Iterator[Sequence[Any]]:
    for paper in PAPERS.values():
        for (block, variant), figures in measurements(paper, cells, store).items():
            for name in FIGURES:
                if samples := samples_of(figures.get(name, ())):
                    mean = mean_of(samples)
                    yield paper.name, block, variant, name, len(samples), mean.value, mean.low, mean.high


if __name__ == "__main__":
    main(Path(sys.argv[1]))
