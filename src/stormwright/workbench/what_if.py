"""Predictions under hypothetical changes, compared with today."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from stormwright.base.tables import Tabular, paragraph
from stormwright.defaults import DEFAULT_SCHEDULER, REPAIR_SCHEDULER
from stormwright.errors import Fault, InputError, suggestion_for
from stormwright.model import UNPLACED, Assignment, Problem
from stormwright.model.arrays import IntArray
from stormwright.model.constraints.violations import broken_limits
from stormwright.model.humanize import counted, listed
from stormwright.model.link_speed import link_bits_per_s
from stormwright.predict.answer import Assumptions, predict
from stormwright.predict.changes import (
    rebalanced,
    tasks_of,
    with_links,
    with_nodes,
    with_parallelism,
    with_rates,
    without_node,
)
from stormwright.predict.flow.profile import Profile
from stormwright.predict.prediction import Prediction
from stormwright.schedulers import Scheduler
from stormwright.schedulers.toolkit.from_scratch import always, apply_from_scratch
from stormwright.schedulers.toolkit.limits import max_executors_per_worker
from stormwright.schedulers.toolkit.plugin_guard import checked
from stormwright.schedulers.toolkit.resolve import resolve_scheduler, scheduler_keeping_running
from stormwright.schedulers.toolkit.traits import warm_up

# Changes as text ----------------------------------------------------------------------------------
# Parsing of changes from the command line and from the dashboard's form.

_RATE = re.compile(r"(?P<of>(?P<topology>.+)=)?(?P<times>[x×*])?(?P<factor>\d+(?:\.\d+)?)", re.ASCII)
_PARALLELISM = re.compile(r"(?:(?P<topology>.+)/)?(?P<component>[^/=]+)=(?P<count>\d{1,7})", re.ASCII)


def parse_rate(text: str, faults: list[Fault]) -> tuple[str, float]:
    """Return a topology (empty for all) and its rate factor; errors are added to `faults`."""
    match = _RATE.fullmatch(text)
    if match is None or not 0 < float(match["factor"]) <= 1e6:
        faults.append(
            Fault(f"should be a factor above 0 as in ×1.5, of one topology as in NAME=×1.5; got {text}", "--rate")
        )
        return "", 1.0
    if match["times"] is None:
        # Elsewhere (`advise --rate 9000`) a number is trees/s, and a factor of 9000 is a mistake.
        factor = f"{match['of'] or ''}×{match['factor']}"
        faults.append(Fault(f"is a number without ×: write {factor} for a factor of the rate; got {text}", "--rate"))
    return match["topology"] or "", float(match["factor"])


def parse_executors(text: str, faults: list[Fault]) -> tuple[tuple[str, str], int]:
    """Return a topology (empty for any) with component, and executors; errors are added to `faults`."""
    match = _PARALLELISM.fullmatch(text)
    if match is None or int(match["count"]) == 0:
        faults.append(
            Fault(f"should be COMPONENT=N or TOPOLOGY/COMPONENT=N, N at least 1; got {text}", "--parallelism")
        )
        return ("", ""), 1
    return (match["topology"] or "", match["component"]), int(match["count"])


def parse_link(text: str, faults: list[Fault]) -> float:
    """Return bits per second; errors are added to `faults`."""
    speed = link_bits_per_s(text)
    if not speed:
        faults.append(Fault(f"should be a speed above 0 as in 1gbit, 100mbit or 500kbit; got {text}", "--link"))
    return speed


# What if ------------------------------------------------------------------------------------------

#: Upper limits of rate factors, and of nodes or executors to add: larger values are treated as typing errors.
_MAX_FACTOR, _MAX_ADDED = 1e6, 100_000


@dataclass(frozen=True)
class Changes:
    """Changes to evaluate, all of them together.

    Parameters
    ----------
    rates
        Topology (id or name; empty for all) → factor of its rate.
    add_nodes
        Number of additional nodes like the one with most CPU.
    kill_nodes
        Supervisor ids or hosts.
    parallelism
        Topology (id or name; empty for any) and component → executors.
    link_bps
        Speed of all links in bits per second.
    assignment
        Alternative placement of executors.
    scheduler, settings
        Scheduler that places everything from scratch, by name or object, and parameters of a named one as
        ``KEY=VALUE``. Without one, running executors stay; those that a component has in addition go to the workers of
        their topology with fewest executors, and those that lost their node are placed by `online`.
    from_scratch
        Whether the scheduler ignores the current placement; None: yes, unless it is set to stay near it.
    """

    rates: Mapping[str, float] = field(default_factory=dict)
    add_nodes: int = 0
    kill_nodes: tuple[str, ...] = ()
    parallelism: Mapping[tuple[str, str], int] = field(default_factory=dict)
    link_bps: float | None = None
    assignment: Assignment | None = None
    scheduler: str | Scheduler | None = None
    settings: tuple[str, ...] = ()
    from_scratch: bool | None = None


@dataclass(frozen=True, repr=False)
class WhatIf(Tabular):
    """Predictions for today and for the changed cluster.

    Parameters
    ----------
    today
        Prediction for today, or if nothing runs for the given assignment; None without either.
    then
        Prediction under the changes.
    problem, assignment
        Changed problem, and its placement, whose scheduler is empty if executors stay.
    moved
        Executors that would run on another slot, of topologies that have as many as today.
    resubmitted
        Running topologies (ids) with more executors of a component than it has tasks: as tasks never change, they would
        have to be submitted again.
    rebalanced
        Other running topologies (ids) with another number of executors, which ``storm rebalance -e`` changes.
    added
        Executors that were placed evenly in addition.
    """

    today: Prediction | None
    then: Prediction
    problem: Problem
    assignment: Assignment
    moved: int
    resubmitted: tuple[str, ...]
    rebalanced: tuple[str, ...] = ()
    added: int = 0

    empty_columns: ClassVar[Mapping[str, Sequence[str]]] = {
        name: ("when", *columns) for name, columns in Prediction.empty_columns.items()
    }

    @property
    def columns(self) -> dict[str, Prediction]:
        """Return the predictions, ``today`` (if anything runs) and ``then``."""
        return {"today": self.today, "then": self.then} if self.today is not None else {"then": self.then}

    def __str__(self) -> str:
        lines = ((column, line) for column, each in self.columns.items() for line in str(each).splitlines())
        return "\n".join(f"{column}: {line}" for column, line in lines)

    def __repr__(self) -> str:
        return str(self)

    def tables(self) -> dict[str, list[dict[str, Any]]]:
        """Return the tables of both predictions, with a column ``when``."""
        found: dict[str, list[dict[str, Any]]] = {}
        for when, prediction in self.columns.items():
            for name, rows in prediction.tables().items():
                found.setdefault(name, []).extend({"when": when, **row} for row in rows)
        return found

    def _repr_html_(self) -> str:
        """Return both predictions for a notebook."""
        parts = (f"<h4>{column}</h4>{each._repr_html_()}" for column, each in self.columns.items())
        return "".join([*parts, paragraph("; ".join(self.effects()))])

    def effects(self) -> Iterator[str]:
        """Yield the scheduler, the moved and added executors, and the commands that change their number."""
        if self.assignment.scheduler:
            yield f"placed by {self.assignment.scheduler}"
        if self.today and (self.moved or self.assignment.scheduler):
            yield f"{counted(self.moved, 'executor')} would move"
        if self.added:
            yield f"{counted(self.added, 'executor')} added to the workers with fewest of the topology; all others stay"
        if self.rebalanced:
            yield f"`storm rebalance -e` changes the executors of {listed(self.rebalanced)}"
        if self.resubmitted:
            yield f"{listed(self.resubmitted)} would be resubmitted: more executors than tasks, which never change"

    def as_dict(self) -> dict[str, Any]:
        """Return the predictions as JSON."""
        return {
            "today": self.today.as_dict() if self.today is not None else None,
            "then": self.then.as_dict(),
            "scheduler": self.assignment.scheduler or None,
            "moved": self.moved,
            "resubmitted": list(self.resubmitted),
            "rebalanced": list(self.rebalanced),
            "added": self.added,
            "unplaced": [
                {"topology": topology, "executors": count, "reasons": list(reasons)}
                for topology, count, reasons in self.assignment.grouped_reasons()
            ],
        }


def what_if(problem: Problem, changes: Changes, assumptions: Assumptions | None = None) -> WhatIf:
    """Return predictions with some changes, compared with today.

    Parameters
    ----------
    problem
        Problem with a load measured under its current placement.
    changes
        Changes to evaluate together; at least one.
    assumptions
        Costs and other assumptions for both; by default those of the load.

    Raises
    ------
    InputError
        There is no change; a named topology, component or node is unknown; a factor, number or speed is out of range;
        nothing runs and no scheduler is given; or `from_scratch` is combined with a scheduler that is set to stay near
        the current placement.
    """
    assumptions = assumptions or Assumptions.of(problem)
    factors, wanted = _checked(problem, changes)
    runs = bool(np.any(problem.current_slot != UNPLACED))
    profile = Profile.of(problem)
    assumptions = replace(assumptions, measured=profile)  # also for topologies that are changed
    given = changes.assignment
    before = problem.current_slot if runs or given is None else given.slot_of_executor
    placed_today = runs or given is not None
    today = predict(problem, before, assumptions, profile) if placed_today else None
    changed = problem if given is None else problem.with_moved(given.by_topology(problem))
    added, larger = 0, _beyond_tasks(problem, wanted)
    if wanted:
        as_it_is = changed
        changed = with_parallelism(changed, profile, assumptions.costs, {each: wanted[each] for each in larger})
        profile = replace(Profile.of(changed), assumed=profile.assumed) if larger else profile
        if smaller := {each: components for each, components in wanted.items() if each not in larger}:
            changed = rebalanced(changed, profile, assumptions.costs, smaller)
            profile = replace(Profile.of(changed), assumed=profile.assumed)
        slots = _staying(as_it_is, changed, wanted)
        if not changes.scheduler:
            slots, added = _filled_up(changed, slots, sorted(wanted))
        changed = changed.with_moved(Assignment(slots).by_topology(changed))
    for node in changes.kill_nodes:
        changed = without_node(changed, node)
    if changes.add_nodes:
        changed = with_nodes(changed, changes.add_nodes)
    if changes.link_bps is not None:
        changed = with_links(changed, changes.link_bps)
    placed = _placed(changed, changes, factors, sorted(wanted))
    rates = {t.id: rate * by for t, rate, by in zip(changed.topologies, profile.rate_tps, factors, strict=True) if rate}
    requested = replace(assumptions, rate_tps={**rates, **assumptions.rate_tps})
    then = predict(changed, placed.slot_of_executor, requested, profile)
    there = [index for index in sorted(wanted) if np.any(before[problem.executors_of(index)] != UNPLACED)]
    names = [[problem.topologies[index].id for index in there if (index in larger) == more] for more in (True, False)]
    moved = _moved(problem, before, changed, placed.slot_of_executor)
    return WhatIf(today, then, changed, placed, moved, tuple(names[0]), tuple(names[1]), added)


def _beyond_tasks(problem: Problem, wanted: Mapping[int, Mapping[int, int]]) -> set[int]:
    """Return the topologies with a component that is to have more executors than tasks."""
    return {
        index
        for index, components in wanted.items()
        if any(count > tasks_of(problem.topologies[index])[each] for each, count in components.items())
    }


def _staying(before: Problem, after: Problem, changed: Collection[int]) -> IntArray:
    """Return slots of executors after a change of their number: the first of each component stay, new ones have none.

    Parameters
    ----------
    before, after
        The problem with the current placement, and with other numbers of executors.
    changed
        Topologies with other numbers.
    """
    slots: IntArray = np.full(after.num_executors, UNPLACED, np.int32)
    for index, (old, new) in enumerate(zip(before.topologies, after.topologies, strict=True)):
        was, now = before.current_slot[before.executors_of(index)], slots[after.executors_of(index)]
        if index not in changed:
            now[:] = was
            continue
        for component in range(len(old.components)):
            of_old, of_new = (np.flatnonzero(each.executor_component == component) for each in (old, new))
            stay = min(len(of_old), len(of_new))
            now[of_new[:stay]] = was[of_old[:stay]]
    return slots


def _filled_up(problem: Problem, slots: IntArray, changed: Sequence[int]) -> tuple[IntArray, int]:
    """Return slots with executors of changed topologies on their workers, and the number of these executors.

    Each goes to the worker of its topology with fewest executors, then with fewest of its component, then in the order
    of slots. A topology without workers, or with limits that this would break, is returned as it is.
    """
    number = 0
    for index in changed:
        topology, members = problem.topologies[index], problem.executors_of(index)
        own, most = slots[members].copy(), max_executors_per_worker(topology)
        workers = np.unique(own[own != UNPLACED])
        for executor in np.flatnonzero(own == UNPLACED).tolist():
            alike = own[topology.executor_component == topology.executor_component[executor]]
            counts = [(np.count_nonzero(own == w), np.count_nonzero(alike == w), w) for w in workers.tolist()]
            if least := min((count for count in counts if count[0] < most), default=None):
                own[executor] = least[2]
        filled = slots.copy()
        filled[members] = own
        if len(broken_limits(problem, filled)) <= len(broken_limits(problem, slots)):
            number += int(np.count_nonzero(filled != slots))
            slots = filled
    return slots, number


def _placed(problem: Problem, changes: Changes, factors: list[float], changed: Sequence[int]) -> Assignment:
    nothing = bool(np.all(problem.current_slot == UNPLACED))
    lost = any(np.any(problem.current_slot[problem.executors_of(index)] == UNPLACED) for index in changed)
    if not (changes.scheduler or lost or (changes.kill_nodes and np.any(problem.current_slot == UNPLACED))):
        if changes.assignment is not None and not changed:
            return changes.assignment
        if nothing:
            message = (
                "the problem has no current placement: pass a scheduler, as in --scheduler optimizer, "
                "or an assignment, as `stormwright schedule FILE --output ASSIGNMENT` writes it"
            )
            raise InputError("what if", [Fault(message, "$")])
        return Assignment(problem.current_slot)
    requested = changes.scheduler
    if isinstance(requested, str):
        name, scheduler = requested, resolve_scheduler(requested, changes.settings, None)
    else:
        name, scheduler = (
            (type(requested).__name__, requested)
            if requested
            else (DEFAULT_SCHEDULER, resolve_scheduler(DEFAULT_SCHEDULER))
            if nothing and not changes.kill_nodes
            else (REPAIR_SCHEDULER, scheduler_keeping_running(REPAIR_SCHEDULER))
        )
    if requested:
        scheduler = apply_from_scratch(name, scheduler, changes.from_scratch, always)
    warm_up(scheduler)
    return replace(checked(problem, scheduler.schedule(with_rates(problem, np.array(factors))), name), scheduler=name)


def _moved(before: Problem, slots_before: IntArray, after: Problem, slots: IntArray) -> int:
    """Return the number of executors on another slot, over topologies of unchanged size."""
    moved = 0
    for index, topology in enumerate(before.topologies):
        now, then = slots_before[before.executors_of(index)], slots[after.executors_of(index)]
        if topology.num_executors == after.topologies[index].num_executors:
            names = [before.slots[s] if s != UNPLACED else None for s in now.tolist()]
            moved += sum(
                was is not None and s != UNPLACED and after.slots[s] != was
                for was, s in zip(names, then.tolist(), strict=True)
            )
    return moved


def _checked(problem: Problem, changes: Changes) -> tuple[list[float], dict[int, dict[int, int]]]:
    """Return the factor of every topology's rate, and executors wanted by topology and component."""
    faults: list[Fault] = []
    if changes == Changes(settings=changes.settings, from_scratch=changes.from_scratch):
        faults.append(Fault("no change is given: pass one, as in --rate ×1.5", "$"))
    if changes.settings and not changes.scheduler:
        faults.append(Fault("parameters require a scheduler: pass --scheduler", "--set"))
    if changes.from_scratch is not None and not changes.scheduler:
        way = "--from-scratch" if changes.from_scratch else "--keep-running"
        faults.append(Fault("requires --scheduler", way))
    faults += _out_of_range(changes)
    factors = [1.0] * len(problem.topologies)
    for name, factor in changes.rates.items():
        found = _topologies(problem, name, faults)
        for index in found:
            factors[index] *= factor
    wanted: dict[int, dict[int, int]] = {}
    for (name, component), executors in changes.parallelism.items():
        numbers = _topologies(problem, name, faults)
        having = [i for i in numbers if component in problem.topologies[i].component_index]
        if numbers and not having:
            there = {each for i in numbers for each in problem.topologies[i].component_index}
            faults.append(Fault(f"no such component{suggestion_for(component, there)}", component))
        for index in having:
            of_topology, at = wanted.setdefault(index, {}), problem.topologies[index].component_index[component]
            if of_topology.setdefault(at, executors) != executors:
                both = f"both {of_topology[at]} and {executors} executors"
                faults.append(Fault(f"should have one number of executors, got {both}", component))
    called = [
        {name, one.id, one.host} for name, one in zip(problem.cluster.node_names, problem.supervisors, strict=True)
    ]
    known = set().union(*called)
    faults += [
        Fault(f"no such node{suggestion_for(node, known)}", node) for node in changes.kill_nodes if node not in known
    ]
    if not changes.add_nodes and all(names & set(changes.kill_nodes) for names in called):
        faults.append(Fault("no node would be left", "$"))
    if faults:
        raise InputError("what if", faults)
    return factors, _changed(problem, wanted)


def _changed(problem: Problem, wanted: Mapping[int, Mapping[int, int]]) -> dict[int, dict[int, int]]:
    """Return the numbers of executors that differ from those that components have."""
    changed: dict[int, dict[int, int]] = {}
    for index, components in wanted.items():
        has = np.bincount(problem.topologies[index].executor_component, minlength=max(components) + 1)
        if others := {each: count for each, count in components.items() if count != has[each]}:
            changed[index] = others
    return changed


def _out_of_range(changes: Changes) -> Iterator[Fault]:
    for name, factor in changes.rates.items():
        if not 0 < factor <= _MAX_FACTOR:
            yield Fault(f"should be a factor above 0, got {factor:g}", f"rate {name}".rstrip())
    for (_, component), executors in changes.parallelism.items():
        if not 1 <= executors <= _MAX_ADDED:
            yield Fault(f"should be a number of executors from 1 to {_MAX_ADDED:,}, got {executors}", component)
    if not 0 <= changes.add_nodes <= _MAX_ADDED:
        yield Fault(f"should be a number of nodes from 0 to {_MAX_ADDED:,}, got {changes.add_nodes}", "nodes to add")
    if changes.link_bps is not None and not 0 < changes.link_bps < np.inf:
        yield Fault(f"should be a speed above 0, in bits per second, got {changes.link_bps:g}", "links")


def _topologies(problem: Problem, name: str, faults: list[Fault]) -> list[int]:
    found = [i for i, topology in enumerate(problem.topologies) if name in ("", topology.id, topology.name)]
    if not found:
        there = {each for topology in problem.topologies for each in (topology.id, topology.name)}
        faults.append(Fault(f"no such topology{suggestion_for(name, there)}", name))
    return found
