"""Model-driven scheduling: as many executors of a component as fill a core share a worker of their own."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stormwright.model import UNPLACED, Assignment, Problem
from stormwright.model.arrays import FloatArray
from stormwright.model.constraints.constraint import RELATIVE_TOLERANCE
from stormwright.schedulers.placement.placing import FreeResources, Placing
from stormwright.schedulers.templates.waiting import Rule, place_waiting
from stormwright.schedulers.toolkit.params import NoParams
from stormwright.schedulers.toolkit.traffic import breadth_first, by_component


class ModelDrivenScheduler:
    """Gives executors of a component that fill a core a worker of their own; the others share workers by best fit.

    After A. Shukla, Y. Simmhan, "Model-driven scheduling for distributed stream processing systems", Journal of
    Parallel and Distributed Computing 117, 2018, pages 98 to 114, https://doi.org/10.1016/j.jpdc.2018.02.003, of which
    only the abstract and descriptions by others were available.

    1. A performance model of each component says with how many threads one slot reaches its peak rate. That many are a
       full bundle (model based allocation); the rest of a component, fewer threads, is a partial bundle.
    2. Each full bundle gets a slot of its own (slot aware mapping).
    3. Partial bundles share slots: each goes to the slot with the least free CPU in which it fits.
    4. Slots of nodes that are used already come first.

    Assumptions:

    1. The number of executors is given, which in the paper follows from the model and the rate; so only its mapping is
       applied. As model serves the measured CPU: a slot reaches its peak once its executors fill a core, so a full
       bundle has ⌊core / mean CPU of the component's executors⌋ executors, at least 1. The core is the slowest of all
       nodes. What threads cost each other, which the paper measures, is ignored.
    2. Components breadth first from the spouts, their executors in order; first all full bundles, then partial ones.
    3. Exactly the requested number of workers. If there are more full bundles than workers, less one for what is left,
       the last ones are treated like partial ones. A partial bundle that fits no shared worker opens one; if none is
       left, it joins the shared worker with least CPU, executor by executor. If workers are left over, the one with
       most executors is halved.
    4. A further node is the one with most free CPU; one too full for a worker is skipped.
    5. Only executors without a slot are placed.

    Ties go to the lower index of executor, worker and node.

    When to use
    -----------
    CPU was measured, some components need several cores, and a worker should not mix these with others.

    Ignores
    -------
    Traffic, racks; memory, except as a constraint.

    Honours
    -------
    CPU, memory, executors per worker, streams
    """

    params_type = NoParams
    quick_up_to = 20_000

    def __init__(self, params: NoParams | None = None) -> None:
        self.params = params or NoParams()

    def schedule(self, problem: Problem) -> Assignment:
        """Place the executors without a slot."""
        core_hz = float(problem.node_core_hz.min(initial=np.inf))

        def make_rule(room: FreeResources) -> Rule:
            def place(placing: Placing) -> None:
                used: list[int] = []
                for members in _workers(placing, problem.executor_cpu_hz, core_hz):
                    node = _node(placing, room, members, used)
                    placing.put_worker(members, node)
                    if node != UNPLACED and node not in used:
                        used.append(node)

            return place

        return place_waiting(problem, "model_driven", self.params, make_rule)


def _node(placing: Placing, room: FreeResources, members: list[int], used: list[int]) -> int:
    """Return the node for a worker, -1 if there is none; rule 4 and assumption 4."""
    fits = placing.can_host(members)
    near = next((node for node in used if fits[node]), UNPLACED)
    if near != UNPLACED or not fits.any():
        return near
    return int(np.argmax(np.where(fits, room.cpu_hz, -np.inf)))


@dataclass
class _Worker:
    """A worker under construction and its CPU; `shared` is false for a full bundle."""

    members: list[int]
    cpu_hz: float
    shared: bool


def _workers(placing: Placing, cpu_hz: FloatArray, core_hz: float) -> list[list[int]]:
    """Return the executors of every worker, none empty; rules 1 to 3 and assumptions 1 to 3."""
    count, limit = placing.wanted.workers, placing.limit
    full, partial = bundles(placing, cpu_hz, core_hz)
    alone = min(len(full), count if len(full) <= count and not partial else count - 1)
    workers = [_Worker(bundle, float(cpu_hz[bundle].sum()), shared=False) for bundle in full[:alone]]
    for bundle in [*full[alone:], *partial]:
        needed_hz = float(cpu_hz[bundle].sum())
        roomy = [
            worker
            for worker in workers
            if worker.shared
            and worker.cpu_hz + needed_hz <= core_hz * (1 + RELATIVE_TOLERANCE)
            and len(worker.members) + len(bundle) <= limit
        ]
        if roomy:
            best = max(roomy, key=lambda worker: worker.cpu_hz)
            best.members += bundle
            best.cpu_hz += needed_hz
        elif len(workers) < count:
            workers.append(_Worker(list(bundle), needed_hz, shared=True))
        else:
            for executor in bundle:
                _join(workers, executor, float(cpu_hz[executor]), limit)
    made = [worker.members for worker in workers]
    while len(made) < count:
        largest = max(made, key=len)
        half = -(-len(largest) // 2)
        made.append(largest[half:])
        del largest[half:]
    return made


def _join(workers: list[_Worker], executor: int, cpu_hz: float, limit: int) -> None:
    """Add an executor to the shared worker with least CPU; to any other one if all of these are full in number."""
    free = [worker for worker in workers if len(worker.members) < limit] or workers
    target = min(free, key=lambda worker: (not worker.shared, worker.cpu_hz))
    target.members.append(executor)
    target.cpu_hz += cpu_hz


def bundles(placing: Placing, cpu_hz: FloatArray, core_hz: float) -> tuple[list[list[int]], list[list[int]]]:
    """Return the full and the partial bundles of a topology's executors; rule 1 and assumptions 1 and 2.

    Parameters
    ----------
    placing
        The topology and its executors.
    cpu_hz
        CPU of every executor of the problem, shape (E,).
    core_hz
        Speed of a core.
    """
    offset = int(placing.placement.problem.executor_offset[placing.wanted.topology])
    members = by_component(placing.topology, placing.executors, offset)
    full: list[list[int]] = []
    partial: list[list[int]] = []
    for component in breadth_first(placing.topology):
        own = members[component]
        total_hz = float(cpu_hz[own].sum())
        most = len(own) + 1 if total_hz <= 0 else core_hz / (total_hz / len(own)) * (1 + RELATIVE_TOLERANCE)
        size = int(max(1, min(most, len(own) + 1, placing.limit)))
        for first in range(0, len(own), size):
            bundle = own[first : first + size]
            (full if len(bundle) == size else partial).append(bundle)
    return full, partial
