"""What is wanted of placements, and which ones are not tried."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from stormwright.controller.aims.outlook import TRAFFIC
from stormwright.model import Problem
from stormwright.model.arrays import IntArray
from stormwright.predict.answer import Assumptions
from stormwright.schedulers.kit.triggers import ONLINE, Adaptation

#: A problem, the slots that are wanted, what those are worth, and trees/s as measured, by topology id → why topologies
#: do not go there (`stormwright.controller.aims.refused.RefusedPlacements.stay`).
Refuses = Callable[[Problem, IntArray, Mapping[str, float], Mapping[str, float]], Mapping[str, str]]


@dataclass(frozen=True)
class PlacementAim:
    """What is wanted of placements.

    Parameters
    ----------
    objective
        One of `stormwright.controller.aims.outlook.OBJECTIVES`.
    assumptions
        What predictions take for given; None for their own defaults.
    refuses
        Tells which placements are not tried.
    adapts
        When it is looked, and with objective traffic what that is to gain; by default as Aniello et al. do.
    """

    objective: str = TRAFFIC
    assumptions: Assumptions | None = None
    refuses: Refuses = lambda *_: {}
    adapts: Adaptation = ONLINE
