"""Binpack: each executor goes to the fullest node that still takes it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stormwright.model import Assignment, Problem
from stormwright.model.arrays import FloatArray
from stormwright.schedulers.placement.placing import Placing
from stormwright.schedulers.placement.scores import part_used
from stormwright.schedulers.templates.waiting import by_score, place_waiting
from stormwright.schedulers.toolkit.params import Params


@dataclass(frozen=True, kw_only=True)
class BinpackParams(Params):
    """Parameters of the scheduler."""


class BinpackScheduler:
    """Puts each executor on the fullest node that can take it, so that few nodes are used.

    Generic: best fit. A node is as full as the larger of the used parts of its CPU and its memory, those of all
    topologies together.

    As many workers as a topology wants may need more nodes than its executors would: where a node has no slot for a
    further worker, the rest goes elsewhere. Ties go to the lower index of node.

    When to use
    -----------
    Nodes are to be freed: to be switched off, or kept whole for the next topology. Nodes then run close to their
    limits, so the loads should be known well.

    Ignores
    -------
    Traffic, streams, racks, and how evenly nodes are loaded.

    Honours
    -------
    CPU, memory, executors per worker
    """

    params_type = BinpackParams
    quick_up_to = 20_000

    def __init__(self, params: BinpackParams | None = None) -> None:
        self.params = params or BinpackParams()

    def schedule(self, problem: Problem) -> Assignment:
        """Place what has no slot."""
        return place_waiting(problem, "binpack", self.params, by_score(_emptiness))


def _emptiness(placing: Placing, _: int) -> FloatArray:
    """How full every node is, fullest lowest."""
    room = placing.room
    cpu, memory = part_used(room.capacity_hz, room.cpu_hz), part_used(room.capacity_mb, room.memory_mb)
    emptiness: FloatArray = -np.maximum(cpu, memory)
    return emptiness
