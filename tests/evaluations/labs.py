"""A lab without a cluster: what cells find follows from where executors are."""

from __future__ import annotations

from dataclasses import replace
from types import TracebackType

import numpy as np
from stormwright_lab.evaluations.cell_store import CellOutcome
from stormwright_lab.evaluations.cells import Cell
from stormwright_lab.evaluations.definitions import (
    Block,
    BlockKind,
    OrderClaim,
    Paper,
    PublishedRow,
    ReportedFigure,
    Variant,
)
from stormwright_lab.evaluations.placing import CellPlacement, named

from stormwright.errors import ClusterError
from stormwright.formats import problem_to_dict
from stormwright.model import Problem
from stormwright.schedulers import make_scheduler
from stormwright.workbench.generated_problems import top_storm

BLOCK = Block(
    "words",
    ("word-count",),
    {"default": Variant("even"), "packed": Variant("top_storm"), "as default": Variant("even")},
    share=0.5,
    repeats=1,
)

PAPER = Paper(
    "stand-in",
    "A stand-in",
    "nobody",
    "not at all",
    rows=(
        PublishedRow("Fig. 1", "fewer nodes", (OrderClaim("words", "nodes", "packed", "default", more=False),)),
        PublishedRow(
            "Fig. 2",
            "more throughput",
            (OrderClaim("words", "acked_tps", "packed", "default", more=True, published=1.4),),
        ),
        PublishedRow("Fig. 3", "throughput", (ReportedFigure("words", "acked_tps"),)),
        PublishedRow("Fig. 4", "an illustration", why_not="Nothing is claimed."),
    ),
    blocks=(BLOCK,),
)


def problem() -> Problem:
    """A word count, on five nodes whose hosts are addresses."""
    of = top_storm("word-count", 3)
    hosts = [f"198.18.0.{number}" for number in (12, 9, 13, 11, 10)]
    nodes = (replace(node, host=host) for node, host in zip(of.supervisors, hosts, strict=True))
    return replace(of, supervisors=tuple(nodes))


class StandIn:
    """A lab that logs the requests to it.

    Parameters
    ----------
    log
        Gets "up", "down" and the names of variants measured.
    failing
        Variant → how often it fails before it works.
    stopping
        Variant during which somebody presses Ctrl-C.
    """

    def __init__(self, log: list[str], failing: dict[str, int] | None = None, stopping: str = "") -> None:
        self._log, self._failing, self._stopping = log, failing if failing is not None else {}, stopping
        self.rates: list[float] = []

    def __call__(self, kind: BlockKind) -> StandIn:
        self._log.append(f"make {kind}")
        return self

    def __enter__(self) -> StandIn:
        self._log.append("up")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._log.append("down")

    def measure(self, cell: Cell, placement: CellPlacement | None, rate_tps: float) -> CellOutcome:
        self._log.append(cell.variant)
        self.rates.append(rate_tps)
        if cell.variant == self._stopping:
            raise KeyboardInterrupt
        if self._failing.get(cell.variant, 0):
            self._failing[cell.variant] -= 1
            raise ClusterError("no worker reported")
        of = problem()
        if placement is None:
            placement = named(of, make_scheduler("even").schedule(of).slot_of_executor)
        else:
            assert rate_tps == 500.0
        nodes = float(len({node for own in placement for node, _ in own}))
        tps = 1000 + 100 * (5 - nodes) + np.arange(4.0)
        figures = {"nodes": [nodes] * 4, "acked_tps": tps.tolist()}
        shown = problem_to_dict(of) if cell.is_first else None
        return CellOutcome(figures, {"fullest": "nothing"}, placement, shown, 500.0)
