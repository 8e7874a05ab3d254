"""What a change would bring, beside what is predicted of today."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from stormwright.defaults import DECIDING
from stormwright.errors import Fault, InputError
from stormwright.model import UNPLACED, Problem
from stormwright.model.arrays import IntArray
from stormwright.predict.answer import Assumptions, predict
from stormwright.predict.changed import with_links, with_nodes, with_parallelism, with_rates, without_node
from stormwright.predict.flow.profile import Profile
from stormwright.predict.told.prediction import Prediction
from stormwright.schedulers.kit.resolve import resolve_scheduler
from stormwright.schedulers.kit.warm_up import warm_up


@dataclass(frozen=True)
class Changes:
    """What is to be different; all of it together.

    Parameters
    ----------
    rates
        Topology (id or name; empty for all) → factor of its rate.
    add_nodes
        Nodes more, like the one with most CPU.
    kill_nodes
        Supervisor ids or hosts.
    parallelism
        Topology (id or name; empty for any) and component → executors.
    link_bps
        Speed of all links in bits per second.
    scheduler, settings
        Who places what runs then, and its parameters as ``KEY=VALUE``; without one, `online` does where the nodes or
        executors are other ones, and else everything stays where it is.
    """

    rates: Mapping[str, float] = field(default_factory=dict)
    add_nodes: int = 0
    kill_nodes: tuple[str, ...] = ()
    parallelism: Mapping[tuple[str, str], int] = field(default_factory=dict)
    link_bps: float | None = None
    scheduler: str | None = None
    settings: tuple[str, ...] = ()

    @property
    def needs_placing(self) -> bool:
        """Whether what runs cannot all stay where it is, or has somewhere new to go."""
        return bool(self.add_nodes or self.kill_nodes or self.parallelism or self.scheduler)


@dataclass(frozen=True)
class WhatIf:
    """What is predicted of today, and of what would be.

    Parameters
    ----------
    today
        None where nothing runs.
    then
        Under the changes.
    problem, slot_of_executor
        What would be, and where its executors would run.
    scheduler
        Who placed them; empty where they stay.
    moved
        Executors that would run elsewhere, of topologies that have as many as today.
    """

    today: Prediction | None
    then: Prediction
    problem: Problem
    slot_of_executor: IntArray
    scheduler: str
    moved: int

    def as_dict(self) -> dict[str, Any]:
        """Itself for JSON."""
        return {
            "today": self.today.as_dict() if self.today else None,
            "then": self.then.as_dict(),
            "scheduler": self.scheduler or None,
            "moved": self.moved,
        }


def what_if(problem: Problem, changes: Changes, assumptions: Assumptions | None = None) -> WhatIf:
    """What is predicted with some changes, beside today.

    Parameters
    ----------
    problem
        With a load, measured under its current placement.
    changes
        What is to be different.
    assumptions
        Costs and the like, for both.

    Raises
    ------
    InputError
        A topology, component or node that is named is not there; nothing runs, and nobody is named to place it.
    """
    assumptions = assumptions or Assumptions()
    factors, wanted = _checked(problem, changes)
    runs = bool(np.any(problem.current_slot != UNPLACED))
    profile = Profile.of(problem)
    today = predict(problem, assumptions=assumptions, profile=profile) if runs else None
    changed = problem
    if wanted:
        changed = with_parallelism(problem, profile, assumptions.costs, wanted)
        profile = Profile.of(changed)
    for node in changes.kill_nodes:
        changed = without_node(changed, node)
    if changes.add_nodes:
        changed = with_nodes(changed, changes.add_nodes)
    if changes.link_bps is not None:
        changed = with_links(changed, changes.link_bps)
    slots, scheduler = _placed(changed, changes, factors)
    rates = {t.id: rate * by for t, rate, by in zip(changed.topologies, profile.rate_tps, factors, strict=True) if rate}
    then = predict(changed, slots, replace(assumptions, rate_tps={**rates, **assumptions.rate_tps}), profile)
    return WhatIf(today, then, changed, slots, scheduler, _moved(problem, changed, slots))


def _placed(problem: Problem, changes: Changes, factors: list[float]) -> tuple[IntArray, str]:
    if not changes.needs_placing:
        if np.all(problem.current_slot == UNPLACED):
            message = "nothing runs in this problem: name a scheduler that places it first (--scheduler)"
            raise InputError("what if", [Fault(message, "$")])
        return problem.current_slot, ""
    name = changes.scheduler or DECIDING
    scheduler = resolve_scheduler(name, changes.settings, None)
    warm_up(scheduler)
    return scheduler.schedule(with_rates(problem, np.array(factors))).slot_of_executor, name


def _moved(before: Problem, after: Problem, slots: IntArray) -> int:
    """Executors that run somewhere else than they do, of topologies with as many as before."""
    moved = 0
    for index, topology in enumerate(before.topologies):
        now, then = before.current_slot[before.executors_of(index)], slots[after.executors_of(index)]
        if topology.num_executors == after.topologies[index].num_executors:
            names = [before.slots[s] if s != UNPLACED else None for s in now.tolist()]
            moved += sum(
                was is not None and (s == UNPLACED or after.slots[s] != was)
                for was, s in zip(names, then.tolist(), strict=True)
            )
    return moved


def _checked(problem: Problem, changes: Changes) -> tuple[list[float], dict[int, dict[int, int]]]:
    """Factor of every topology's rate, and executors wanted by topology and component."""
    faults: list[Fault] = []
    factors = [1.0] * len(problem.topologies)
    for name, factor in changes.rates.items():
        found = _topologies(problem, name, faults)
        for index in found:
            factors[index] *= factor
    wanted: dict[int, dict[int, int]] = {}
    for (name, component), executors in changes.parallelism.items():
        having = [i for i in _topologies(problem, name, faults) if component in problem.topologies[i].component_index]
        if not having:
            faults.append(Fault("no such component", component))
        for index in having:
            wanted.setdefault(index, {})[problem.topologies[index].component_index[component]] = executors
    known = {name for one in problem.supervisors for name in (one.id, one.host)}
    faults += [Fault("no such node", node) for node in changes.kill_nodes if node not in known]
    if not changes.add_nodes and all({one.id, one.host} & set(changes.kill_nodes) for one in problem.supervisors):
        faults.append(Fault("no node would be left", "$"))
    if faults:
        raise InputError("what if", faults)
    return factors, wanted


def _topologies(problem: Problem, name: str, faults: list[Fault]) -> list[int]:
    found = [i for i, topology in enumerate(problem.topologies) if name in ("", topology.id, topology.name)]
    if not found:
        faults.append(Fault("no such topology", name))
    return found
