"""Open data: placements of Storm topologies that were measured on real clusters, with all records of their workers.

::

    import stormwright as sw

    cells = sw.datasets.placements("storm-placements.zip")
    print(cells.to_frame().groupby(["block", "variant"]).acked_tps.mean())
    cell = cells[0]
    print(sw.predict(cell.problem, cell.assignment))

The archive has a description, a licence, and a table of the means of all cells to compare with. It is
``docs/datasets/storm-placements.zip`` of the repository.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np

from stormwright.base.tables import Tabular
from stormwright.errors import Fault, InputError
from stormwright.formats import problem_from_dict
from stormwright.model import Assignment, Problem, WorkerSlot

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

#: In the archive.
CELLS, PROBLEMS, RECORDS, BASELINE, README = "cells.jsonl", "problems", "records.parquet", "baseline.csv", "README.md"

#: Column of the records with the cell that they are of.
CELL = "cell"


@dataclass(frozen=True, eq=False)
class MeasuredPlacement:
    """A placement that ran on a real cluster.

    Parameters
    ----------
    key
        Key of the cell.
    experiment, block, variant, start
        Name of the experiment and of its block of topologies, name of the scheduler's variant, and number of the start
        from 0.
    scheduler, settings
        Scheduler of the placement, and its parameters.
    topologies, conf
        Kinds of the topologies with their arguments, and their configuration.
    cores, link
        Limits of each node: cores, and speed in ``tc`` syntax.
    rate_tps
        Trees/s that spouts began; 0 for as many as possible.
    figures
        Figure → means of the start, in its unit: ``acked_tps``, ``latency_ms``, ``inter_node_tps``, …
    slots
        Node (index in the problem) and port of each executor, topology by topology.
    """

    key: str
    experiment: str
    block: str
    variant: str
    start: int
    scheduler: str
    settings: Mapping[str, Any]
    topologies: Sequence[str]
    conf: Mapping[str, Any]
    cores: float
    link: str
    rate_tps: float
    figures: Mapping[str, float]
    slots: Sequence[tuple[int, int]]
    _dataset: MeasuredPlacements = field(repr=False)
    _problem: str = field(repr=False)

    @cached_property
    def problem(self) -> Problem:
        """The problem, with the load measured under the first variant of the block, in the same start."""
        return self._dataset.problem(self._problem)

    @property
    def assignment(self) -> Assignment:
        """The placement that was measured."""
        nodes, index = self.problem.supervisors, self.problem.slot_index
        slots = [index[WorkerSlot(nodes[node].id, port)] for node, port in self.slots]
        return Assignment(np.array(slots, np.int32))

    def records(self) -> pa.Table:
        """Return the records of the performance log during the measurement.

        Returns
        -------
        table
            A row for each worker and half second: every tuple between two tasks is counted in ``pairs``, sizes are
            sampled. The fields are those of the performance log (``docs/schemas``).
        """
        return self._dataset.records(self.key)


class MeasuredPlacements(Tabular, Sequence[MeasuredPlacement]):
    """All cells of an archive; a sequence, and a frame of their figures.

    Parameters
    ----------
    path
        Zip archive of measured placements to open.

    Raises
    ------
    InputError
        It cannot be read, or is no such archive.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            with zipfile.ZipFile(path) as archive:
                documents = [json.loads(line) for line in archive.read(CELLS).splitlines()]
                self.description = archive.read(README).decode("utf-8")
        except (OSError, zipfile.BadZipFile, KeyError, ValueError) as error:
            message = f"is no archive of measured placements ({error}); it is docs/datasets of the repository"
            raise InputError("datasets", [Fault(message, str(path))]) from error
        self._cells = [_cell(document, self) for document in documents]

    def __len__(self) -> int:
        return len(self._cells)

    def __getitem__(self, number: Any) -> Any:
        return self._cells[number]

    def __iter__(self) -> Iterator[MeasuredPlacement]:
        return iter(self._cells)

    def problem(self, name: str) -> Problem:
        """Return a problem by its name in the archive."""
        return problem_from_dict(json.loads(self._read(f"{PROBLEMS}/{name}.json")), name)

    def records(self, key: str) -> pa.Table:
        """Return the records of a cell."""
        import pyarrow.parquet as pq

        return pq.read_table(io.BytesIO(self._read(RECORDS)), filters=[(CELL, "=", key)])

    def baseline(self) -> pd.DataFrame:
        """Return the means of figures over the starts of each variant, with 95 % intervals."""
        import pandas as pd

        return pd.read_csv(io.BytesIO(self._read(BASELINE)))

    def tables(self) -> dict[str, list[dict[str, Any]]]:
        """Return the cells with their figures as a table."""
        names = dict.fromkeys(name for cell in self for name in cell.figures)
        rows = []
        for cell in self:
            own = ("key", "experiment", "block", "variant", "start", "scheduler", "cores", "link", "rate_tps")
            figures = {name: cell.figures.get(name) for name in names}
            rows.append({name: getattr(cell, name) for name in own} | figures)
        return {"cells": rows}

    def _read(self, name: str) -> bytes:
        with zipfile.ZipFile(self._path) as archive:
            return archive.read(name)


def _cell(document: Mapping[str, Any], dataset: MeasuredPlacements) -> MeasuredPlacement:
    own = {name: value for name, value in document.items() if name not in ("problem", "figures", "slots")}
    return MeasuredPlacement(
        **own,
        figures={name: fmean(values) for name, values in document["figures"].items() if values},
        slots=[(node, port) for node, port in document["slots"]],
        _dataset=dataset,
        _problem=document["problem"],
    )


def placements(path: str | Path | None = None) -> MeasuredPlacements:
    """Return the placements of Storm topologies that were measured on real clusters.

    Parameters
    ----------
    path
        The archive; by default that of the clone from which stormwright is imported.

    Raises
    ------
    InputError
        It cannot be read.
    """
    clone = Path(__file__).resolve().parents[2] / "docs" / "datasets" / "storm-placements.zip"
    return MeasuredPlacements(Path(path) if path is not None else clone)
