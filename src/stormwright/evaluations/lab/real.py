"""The real cluster as a lab: each kind of cell is measured in its own way."""

from __future__ import annotations

from stormwright.evaluations.cells import Cell
from stormwright.evaluations.kept import CellFound
from stormwright.evaluations.lab.cluster import ClusterLab
from stormwright.evaluations.lab.kills import measure_kills
from stormwright.evaluations.lab.moves import measure_moves
from stormwright.evaluations.lab.steady import measure_steady
from stormwright.evaluations.placing import CellPlacement


class RealLab(ClusterLab):
    """A local cluster on which cells of one kind are measured."""

    def __enter__(self) -> RealLab:
        super().__enter__()
        return self

    def measure(self, cell: Cell, placement: CellPlacement | None, rate_tps: float) -> CellFound:
        """See `stormwright.evaluations.run.Lab`.

        Raises
        ------
        ClusterError
            Workers did not report, or nothing went through.
        """
        match cell.block.kind:
            case "steady":
                return measure_steady(self, cell, placement, rate_tps)
            case "kills":
                return measure_kills(self, cell, rate_tps)
            case "moves":
                return measure_moves(self, cell, rate_tps)
