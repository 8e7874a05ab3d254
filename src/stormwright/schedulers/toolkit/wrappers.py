"""Wrappers of schedulers: their base class, and those for isolated topologies and weights of nodes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from stormwright.model import UNPLACED, Assignment, Problem, Scheduler, Unplaced
from stormwright.model.arrays import IntArray, frozen
from stormwright.model.constraints.isolation import isolated
from stormwright.model.topology_config import MACHINES, WEIGHT
from stormwright.schedulers.toolkit.configured_values import node_values
from stormwright.schedulers.toolkit.limits import num_workers
from stormwright.schedulers.toolkit.params import Params
from stormwright.schedulers.toolkit.traits import Traits


class WrappedScheduler:
    """Base class of schedulers that run another one: with its parameters, and the traits that `inherited` lists.

    `make_scheduler` puts up to four around a scheduler, from the inside to the outside:

    1. `PluginScheduler` guards a scheduler of another package.
    2. `IsolatingScheduler` gives isolated topologies hosts of their own.
    3. `NodeWeightScheduler` applies the weights of nodes.
    4. `MultiTenantScheduler` serves topologies in the configured order, within the limits of their users.

    `FromScratchScheduler` is around them if the current placement is to be ignored. A `ProcessScheduler`, which runs
    them in another process, gets the same traits from there.

    Parameters
    ----------
    scheduler
        Scheduler that the wrapper calls, and whose traits in `inherited` it gets.
    params
        Its parameters; by default its attribute `params`, which schedulers of other packages need not have.
    traits
        Traits of its class, for those that it does not declare itself.
    """

    #: Traits that a wrapper has from the wrapped scheduler; the others are only asked of its class (`traits_of`).
    inherited: ClassVar[tuple[str, ...]] = ("uses_forecast", "heeds_requests", "moves_running", "stays_near", "adapts")

    def __init__(self, scheduler: Scheduler, params: Params | None = None, traits: Traits | None = None) -> None:
        self.scheduler = scheduler
        self.params: Any = getattr(scheduler, "params", None) if params is None else params
        vars(self).update(self.inherited_traits(scheduler, traits))

    @classmethod
    def inherited_traits(cls, scheduler: object, traits: Traits | None = None) -> dict[str, Any]:
        """Return the traits that a wrapper of this class inherits, by name."""
        of_class = traits or Traits()
        return {name: getattr(scheduler, name, getattr(of_class, name)) for name in cls.inherited}


class NodeWeightScheduler(WrappedScheduler):
    """Runs a scheduler with the CPU of every node scaled by its weight over the largest weight.

    A node's weight is ``stormwright.weight`` in its `supervisor.scheduler.meta`, a number of at least 0; 1 by default.
    Weights are soft: if something does not fit, the scheduler runs again with all of the CPU.

    Raises
    ------
    InputError
        On scheduling: weights that are not numbers or below 0; all faults at once.
    """

    def schedule(self, problem: Problem) -> Assignment:
        """Place everything."""
        weighted = _weighted(problem)
        if weighted is problem:
            return self.scheduler.schedule(problem)
        answer = self.scheduler.schedule(weighted)
        if np.all(answer.slot_of_executor != UNPLACED):
            return answer
        whole = self.scheduler.schedule(problem)
        return replace(whole, seconds=answer.seconds + whole.seconds)


def _weighted(problem: Problem) -> Problem:
    """Return the problem with nodes' CPU scaled by weights; unchanged if these are equal."""
    weights = [meta.get(WEIGHT, 1.0) for meta in node_values(problem, [WEIGHT])]
    most = max(weights, default=0.0)
    if most <= 0 or min(weights) == most:
        return problem
    parts = [weight / most for weight in weights]
    # 0 times infinite CPU is not a number.
    cpu_hz = [node.cpu_hz * part if part else 0.0 for node, part in zip(problem.supervisors, parts, strict=True)]
    nodes = zip(problem.supervisors, cpu_hz, strict=True)
    return replace(problem, supervisors=tuple(replace(node, cpu_hz=left) for node, left in nodes))


class IsolatingScheduler(WrappedScheduler):
    """Runs a scheduler for each isolated topology on its own hosts, and for the others on the rest.

    1. An isolated topology gets as many hosts as the cluster's configuration says, at most one per worker: those that
       it runs on, then unused hosts, those with most slots first. Ties go to the lower host name, as in
       IsolationScheduler of Storm 3 (before, their order is random). Isolated topologies are served in the problem's
       order.
    2. If there are too few such hosts it is left out. Hosts on which it does not fit go to others.
    3. Nothing else is placed on its hosts. Running executors stay, so a host that is already shared stays shared, and
       gets no more of either.
    """

    def schedule(self, problem: Problem) -> Assignment:
        """Place every part."""
        machines = isolated(problem)
        if not machines:
            return self.scheduler.schedule(problem)
        hosts = {node.host for node in problem.supervisors}
        slots = np.full(problem.num_executors, UNPLACED, dtype=np.int32)
        unplaced: list[Unplaced] = []
        status: dict[str, str] = {}
        seconds = 0.0
        closed = _hosts_of(problem, problem.current_slot, list(machines))
        rest = [index for index in range(len(problem.topologies)) if index not in machines]
        # Some schedulers fail without topologies.
        for index, count in [*machines.items(), *([(UNPLACED, 0)] if rest else [])]:
            own = rest if index == UNPLACED else [index]
            open_hosts = hosts - closed if index == UNPLACED else _hosts_for(problem, index, count, closed)
            answer = self.scheduler.schedule(_part(problem, own, hosts - open_hosts))
            for topology, part in zip(own, _split(problem, own, answer), strict=True):
                slots[problem.executors_of(topology)] = part
            if index != UNPLACED:
                closed |= _hosts_of(problem, slots, [index])
            why = f"{len(open_hosts)} of {len(hosts)} hosts are open to it: {MACHINES}"
            unplaced += [replace(executor, reasons=(*executor.reasons, why)) for executor in answer.unplaced]
            status |= {topology: f"{text}; {why}" for topology, text in answer.status.items()}
            seconds += answer.seconds
        slots = frozen(slots, np.int32, own=True)
        return replace(answer, slot_of_executor=slots, unplaced=tuple(unplaced), status=status, seconds=seconds)


def _hosts_of(problem: Problem, slots: IntArray, topologies: list[int]) -> set[str]:
    """Return the hosts with workers of the topologies."""
    own = np.isin(problem.executor_topology, topologies) & (slots != UNPLACED)
    return {problem.supervisors[node].host for node in np.unique(problem.slot_node[slots[own]]).tolist()}


def _hosts_for(problem: Problem, topology: int, count: int, closed: set[str]) -> set[str]:
    """Return the hosts of an isolated topology; only its present ones if there are too few; rule 1."""
    others = [index for index in range(len(problem.topologies)) if index != topology]
    runs_on = _hosts_of(problem, problem.current_slot, [topology])
    alone = runs_on - _hosts_of(problem, problem.current_slot, others)
    busy = _hosts_of(problem, problem.current_slot, [*others, topology]) | closed
    ports: dict[str, int] = {}
    for node, usable in zip(problem.supervisors, problem.node_usable.tolist(), strict=True):
        if usable and node.ports and node.host not in busy:
            ports[node.host] = ports.get(node.host, 0) + len(node.ports)
    missing = max(min(count, num_workers(problem.topologies[topology])) - len(runs_on), 0)
    roomiest = sorted(ports, key=lambda host: (-ports[host], host))
    return alone | set(roomiest[:missing]) if len(roomiest) >= missing else alone


def _part(problem: Problem, topologies: list[int], closed: set[str]) -> Problem:
    """Return the problem of some topologies, with some hosts closed."""
    chosen = tuple(problem.topologies[index] for index in topologies)
    return replace(
        problem,
        topologies=chosen,
        current={of.id: problem.current[of.id] for of in chosen if of.id in problem.current},
        conf={key: value for key, value in problem.conf.items() if key != MACHINES},
        blacklisted_hosts=problem.blacklisted_hosts | closed,
    )


def _split(problem: Problem, topologies: list[int], answer: Assignment) -> list[IntArray]:
    """Return the slots of each topology of a part."""
    sizes = [problem.topologies[index].num_executors for index in topologies]
    return np.split(answer.slot_of_executor, np.cumsum(sizes)[:-1])
