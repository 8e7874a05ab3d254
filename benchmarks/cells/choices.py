"""What schedulers choose from what Even showed of a topology under a limit, and which of it was measured already."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np

from benchmarks.cells.chosen import NODES, PLACEMENTS, TOPOLOGIES, Limit, Placement, Start
from benchmarks.cells.fitted import Fitted, usable_cores
from benchmarks.cells.measured import Measured, Stretch
from stormwright.model import LoadProfile, Problem
from stormwright.model.arrays import IntArray
from stormwright.predict.answer import predict
from stormwright.predict.calibration.calibration import calibrated, learn
from stormwright.predict.calibration.document import costs_from_dict, costs_to_dict
from stormwright.predict.calibration.evidence import Evidence
from stormwright.predict.calibration.windows import Windows
from stormwright.predict.changes import with_rates
from stormwright.predict.costs import Costs
from stormwright.schedulers import make_scheduler


class RequestLimits(NamedTuple):
    """Who is asked, with which parameters, and at which part of the rate that Even reached."""

    scheduler: str
    settings: Mapping[str, Any]
    rate: float = 1.0


#: Each is asked as by a service, while everything runs as Even has placed it.
ASKED: Mapping[str, RequestLimits] = {
    "throughput": RequestLimits("optimizer", {"objective": "throughput"}),
    "nodes": RequestLimits("optimizer", {"objective": "nodes", "headroom_percent": 5.0}, 0.4),
    "online": RequestLimits("online", {}),
}


@dataclass(frozen=True)
class Choice:
    """What was chosen.

    Parameters
    ----------
    topology, limit, asked
        Of what, under which limit, and by whom.
    slots
        Slot of every executor.
    placement
        Name: of a placement by hand where that is the same but for the numbers of nodes, else made of what it is.
    nodes
        On how many it is.
    predicted_tps, even_tps
        Highest rate of it and of Even's placement, as predicted from what Even showed.
    wanted_tps
        Trees/s that it has to hold.
    """

    topology: str
    limit: Limit
    asked: str
    slots: tuple[int, ...]
    placement: str
    nodes: int
    predicted_tps: float
    even_tps: float
    wanted_tps: float

    def as_placement(self) -> Placement:
        """For a start."""
        return Placement(lambda _: np.array(self.slots, np.int32), len(set(self.slots)))


def choices(found: Sequence[Measured]) -> Iterator[Choice]:
    """All of them, for every topology that was measured under Even."""
    for even in (each for each in found if each.start.topology in TOPOLOGIES):
        problem = replace(even.problem, load=None, current={})
        by_hand = {_key(problem, each.rule(problem)): name for name, each in PLACEMENTS.items()}
        costs = product_costs(even)
        for limit in even.start.limits:
            known = shown(even, limit, costs)
            for name, asked in ASKED.items():
                at = with_rates(known, np.full(1, asked.rate))
                slots = make_scheduler(asked.scheduler, asked.settings).schedule(at)
                key = _key(problem, slots.slot_of_executor)
                placement = by_hand.get(key, f"chosen-{crc32(repr(key).encode()):08x}")
                then, now = (predict(known, each).topologies[0] for each in (slots.slot_of_executor, None))
                yield Choice(
                    topology=even.start.topology,
                    limit=limit,
                    asked=name,
                    slots=tuple(slots.slot_of_executor.tolist()),
                    placement=placement,
                    nodes=len(set(problem.slot_node[slots.slot_of_executor].tolist())),
                    predicted_tps=then.reachable_tps.value,
                    even_tps=now.reachable_tps.value,
                    wanted_tps=asked.rate * even.at(limit).acked_tps,
                )


def shown(even: Measured, limit: Limit, costs: Mapping[str, Any]) -> Problem:
    """What a service would know after the stretch with as many trees as can be."""
    problem = even.under(limit, usable_cores(even.at(limit)))
    load = problem.load or LoadProfile({})
    return problem.with_load(replace(load, costs=costs, start_ms=0, end_ms=1))


def product_costs(even: Measured) -> Mapping[str, Any]:
    """Costs as a service fits them to the records of this start, and of no other one."""
    windows, known = Windows(), Evidence()
    for stretch in even.stretches:
        windows.add(stretch.records)
    learn(known, windows.closed(all_of_them=True))
    return costs_to_dict(calibrated(known))


def service_fit() -> Callable[[Measured, Stretch], Fitted]:
    """What a service would fit, with the quota, which probes of when these records were made did not tell."""
    known: dict[Start, Costs] = {}

    def fit(source: Measured, at: Stretch) -> Fitted:
        if source.start not in known:
            known[source.start] = costs_from_dict(product_costs(source)).costs
        quota = {"quota_period_ms": at.quota_period_ms, "machine_cores": at.machine_cores}
        return Fitted(replace(known[source.start], **quota), 0.0)

    return fit


def _key(problem: Problem, slots: IntArray) -> tuple[tuple[int, ...], ...]:
    """How many executors of each component every worker has, by node; the same whatever nodes are called."""
    component = problem.topologies[0].executor_component
    workers: dict[int, tuple[int, ...]] = {
        int(slot): tuple(np.bincount(component[slots == slot], minlength=int(component.max()) + 1).tolist())
        for slot in np.unique(slots)
    }
    return min(
        tuple(sorted((order[problem.slot_node[slot]], *counts) for slot, counts in workers.items()))
        for order in permutations(range(NODES))
    )
