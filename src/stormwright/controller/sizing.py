"""The fewest cores with which a topology handles a rate: its executors, and the nodes that they run on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import ceil
from typing import NamedTuple

import numpy as np

from stormwright.controller.autopilot import Slo, WantedCapacity
from stormwright.controller.objectives.outlook import THROUGHPUT
from stormwright.controller.objectives.placements import Placements
from stormwright.controller.propose import Proposals
from stormwright.controller.reconfigure import reconfigured
from stormwright.controller.requests import NoPlan, Place, PlanInputs
from stormwright.errors import InputError
from stormwright.model import UNPLACED, Problem, Scheduler
from stormwright.model.answer import name_slots
from stormwright.model.arrays import IntArray
from stormwright.model.humanize import readable
from stormwright.model.peculiarities import peculiarities
from stormwright.plans.plan import Plan
from stormwright.predict.answer import Assumptions
from stormwright.predict.changes import tasks_of, with_rates
from stormwright.predict.workers import nodes_of

#: Multiples of the executors of bolts that are tried, up to the tasks.
_FACTORS = (0.5, 2.0, 4.0)

#: Part of the wanted rate that is enough, within the errors of predictions.
_ENOUGH = 0.95


class _Size(NamedTuple):
    """Executors and placement of a topology, with the cores of the nodes that it uses and the rate that it reaches."""

    executors: Mapping[str, int]
    slots: IntArray
    cores: float
    reachable_tps: float


def sized(
    problem: Problem, index: int, wanted: WantedCapacity, slo: Slo, scheduler: Scheduler, inputs: PlanInputs
) -> Plan | NoPlan:
    """Return the plan by which a topology gets a wanted capacity with the fewest cores.

    Parameters
    ----------
    problem
        Current problem under the newest load.
    index
        Index of the topology.
    wanted
        Wanted capacity, with its reason.
    slo
        Objective, with the most cores that it may use.
    scheduler
        Places executors without a slot on as few nodes as sustain the load, around all others.
    inputs
        Schedulers and limits of plans.
    """
    topology = problem.topologies[index]
    placements = Placements(problem)
    now_tps = placements.predicted(problem.current_slot).topologies[index].reachable_tps.value
    now = problem.current_slot[problem.executors_of(index)]
    now_cores = _cores(problem, now)
    sizes = list(_sizes(placements, index, wanted, slo, scheduler))
    if not wanted.is_more:
        # Less capacity is worth a pause for fewer cores only.
        sizes = [each for each in sizes if each.cores < now_cores and each.reachable_tps >= _ENOUGH * wanted.tps]
    elif not any(each.reachable_tps >= _ENOUGH * wanted.tps for each in sizes):
        # Whatever is best of what there is.
        most = max((each.reachable_tps for each in sizes), default=0.0)
        sizes = [each for each in sizes if each.reachable_tps >= _ENOUGH * most and each.reachable_tps > now_tps]
    else:
        sizes = [each for each in sizes if each.reachable_tps >= _ENOUGH * wanted.tps]
    if not sizes:
        limit = f" with at most {slo.max_cores:g} cores" if slo.max_cores else ""
        what = "no more can be had" if wanted.is_more else "no fewer cores would do"
        limits = "".join(f"; {each.text}" for each in peculiarities(problem, index)) if wanted.is_more else ""
        return NoPlan("nothing_to_do", f"{wanted.why}: {what}{limit}{limits}")
    best = min(sizes, key=lambda each: (each.cores, len(each.executors), -each.reachable_tps))
    then = reconfigured(problem, {topology.id: best.executors}, {})
    placed = {topology.id: name_slots(then, best.slots)}
    executors = {topology.id: best.executors} if best.executors else {}
    reason = f"{topology.name}: {wanted.why}"
    found = Proposals(problem, (THROUGHPUT,), inputs).of(
        Place(placed, executors, reason=reason, goals=(THROUGHPUT,), origin="service")
    )
    if isinstance(found, NoPlan):
        return found
    gain = f"{readable(best.reachable_tps)} trees/s on {best.cores:.3g} cores of nodes, {now_cores:.3g} now"
    return found.model_copy(update={"gain": gain})


def _sizes(
    placements: Placements, index: int, wanted: WantedCapacity, slo: Slo, scheduler: Scheduler
) -> Iterator[_Size]:
    problem, profile = placements.problem, placements.profile
    topology = problem.topologies[index]
    measured_tps = placements.rate_tps.get(topology.id, 0.0)
    if not measured_tps or profile is None:
        return
    assumptions = Assumptions.of(problem).fixed(profile)
    factors = np.ones(len(problem.topologies))
    factors[index] = wanted.tps / measured_tps
    for executors in _executors(problem, index):
        try:
            then = reconfigured(problem, {topology.id: executors}, {})
        except InputError:  # its tasks are not numbered one after the other
            continue
        slots = scheduler.schedule(with_rates(then, factors)).slot_of_executor
        own = slots[then.executors_of(index)]
        if (own == UNPLACED).any():
            continue
        cores = _cores(then, own)
        if slo.max_cores is not None and cores > slo.max_cores:
            continue
        whole = then.current_slot.copy()
        whole[then.executors_of(index)] = own
        predicted = Placements(then, assumptions).predicted(whole).topologies[index]
        yield _Size(executors, own, cores, predicted.reachable_tps.value)


def _executors(problem: Problem, index: int) -> Iterator[dict[str, int]]:
    """Yield other numbers of executors of bolts, each once; none first."""
    topology = problem.topologies[index]
    counts = topology.executor_counts
    tasks = dict(zip((each.id for each in topology.components), tasks_of(topology).tolist(), strict=True))
    bolts = [each.id for each in topology.components if each.type == "bolt" and not each.id.startswith("__")]
    known: list[dict[str, int]] = [{}]
    yield {}
    for factor in _FACTORS:
        wanted = {each: min(max(ceil(factor * counts[each]), 1), tasks[each]) for each in bolts}
        changed = {each: count for each, count in wanted.items() if count != counts[each]}
        if changed not in known:
            known.append(changed)
            yield changed


def _cores(problem: Problem, slots: IntArray) -> float:
    """Return the cores of the nodes on which some executors run."""
    return float(nodes_of(problem).cores[np.unique(problem.slot_node[slots[slots != UNPLACED]])].sum())
