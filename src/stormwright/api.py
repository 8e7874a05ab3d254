"""High-level API for interactive use and notebooks: `import stormwright as sw`."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self, cast

import numpy as np

from stormwright.defaults import DECIDING
from stormwright.errors import Fault, InputError, StormwrightError
from stormwright.explain.drawing import component_colours, component_legend, draw, is_small, placement_svg
from stormwright.link_speed import link_bits_per_s
from stormwright.model import UNPLACED, Assignment, Cost, Problem, cost_of, diff, violations
from stormwright.model.humanize import counted, proof_text, reach_texts
from stormwright.model.problem import assumed_text, size_of, slots_in
from stormwright.schedulers import Scheduler
from stormwright.schedulers.toolkit.from_scratch import apply_from_scratch, never
from stormwright.schedulers.toolkit.plugin_guard import checked
from stormwright.schedulers.toolkit.resolve import choose_schedulers, resolve_scheduler
from stormwright.schedulers.toolkit.traits import warm_up
from stormwright.workbench import comparison as comparing
from stormwright.workbench import ready_problems
from stormwright.workbench import tradeoff_curve as tradeoffs
from stormwright.workbench import what_if as changed
from stormwright.workbench.bounds import AUTO, bound_of, proven_objective
from stormwright.workbench.comparison import Comparison

# Placement ----------------------------------------------------------------------------------------
# A scheduler's answer together with its problem, for inspection.


@dataclass(frozen=True, eq=False, repr=False)
class Placement(Assignment):
    """An `Assignment` together with its problem, with cost, violations and drawing.

    Parameters
    ----------
    problem
        Problem that was placed.
    """

    problem: Problem = None  # type: ignore[assignment]  # the fields before it have defaults; `of` is how one is made

    @classmethod
    def of(cls, problem: Problem, assignment: Assignment) -> Self:
        """Return `assignment` as a placement of `problem`."""
        given = {field.name: getattr(assignment, field.name) for field in fields(Assignment)}
        return cls(**given, problem=problem)

    @cached_property
    def cost(self) -> Cost:
        """Traffic by class of distance, in tuples/s, and weighted."""
        return cost_of(self.problem, self.slot_of_executor)

    @cached_property
    def broken(self) -> list[Any]:
        """Violated constraints; empty if the placement is valid."""
        return list(violations(self.problem, self.slot_of_executor))

    def summary(self) -> str:
        """Return a summary of a few lines of text."""
        return "\n".join(self._lines())

    def _lines(self) -> list[str]:
        problem, slots = self.problem, self.slot_of_executor
        placed = slots[slots != UNPLACED]
        nodes = np.unique(problem.slot_node[placed])
        cost, workers = self.cost, counted(len(np.unique(placed)), "worker")
        across = f"{cost.inter_node + cost.inter_rack:,.1f} tuples/s between nodes"
        near = f"{cost.inter_worker:,.1f} between workers of a node, {cost.same_worker:,.1f} within workers"
        used = f"{len(nodes)} of {counted(len(problem.supervisors), 'node')}"
        lines = [
            f"{self.scheduler or 'a placement'} of {problem.name or 'a problem'}: {size_of(problem)}",
            f"cost {cost.total:,.1f}: {across}, {near}",
            f"{counted(len(placed), 'executor')} in {workers} on {used}",
        ]
        lines += filter(None, [assumed_text(problem)])
        if predicted := self.parameters.get("predicted"):
            lines += ["predicted:", *(f"  {line}" for line in reach_texts(predicted))]
        if self.unplaced:
            lines.append(f"{counted(len(self.unplaced), 'executor')} without a slot:")
            lines += [f"  {count} of {topology}: {'; '.join(why)}" for topology, count, why in self.grouped_reasons()]
        if self.broken:
            lines.append(f"{counted(len(self.broken), 'limit')} broken:")
            lines += [f"  {violation}" for violation in self.broken]
        if np.any(problem.current_slot != UNPLACED):
            changes = diff(problem, problem.current_slot, slots)
            lines.append(
                f"{counted(len(changes.moved_executors), 'executor')} of "
                f"{counted(len(changes.topologies), 'topology')} would move"
            )
        return lines

    def __repr__(self) -> str:
        """Return the summary, for interactive use."""
        return self.summary()

    def _repr_html_(self) -> str:
        """Return the drawing for a notebook, if the placement is small enough."""
        if not is_small(self.problem):
            return f"<pre>{_escaped(self.summary())}</pre>"
        return f"<pre>{_escaped(self.summary())}</pre>{self.svg()}"

    def svg(self) -> str:
        """Return the placement as one SVG document; executors have the colour of their component."""
        colours = component_colours(self.problem)
        lead = f"cost {self.cost.total:,.1f}"
        drawing = draw(self.problem, self.scheduler, lead, self.slot_of_executor, colours)
        return placement_svg(drawing, list(component_legend(self.problem, colours)))


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


# Functions ----------------------------------------------------------------------------------------


def read_problem(path: str | Path) -> Problem:
    """Return the problem in a file (JSON, gzipped or not, or a NumPy archive), or a built-in one: ``ready:NAME``.

    Raises
    ------
    InputError
        The file cannot be read or is not a problem; with all its faults.
    """
    return ready_problems.read_problem(Path(path))


def place(
    problem: Problem,
    scheduler: str | Scheduler = DECIDING,
    *,
    seed: int | None = None,
    from_scratch: bool = False,
    **settings: Any,
) -> Placement:
    """Place every executor of a problem with a scheduler.

    Parameters
    ----------
    problem
        Problem from `read_problem` or `sketch`, or with a load or a placement of your own.
    scheduler
        Name from `stormwright.schedulers()`, or ``java:CLASS``; or any object with a method ``schedule(problem)``.
    seed
        Seed of schedulers with random numbers; None for their default. Like `settings`, only for a scheduler given by
        name; configure a scheduler object when you create it.
    from_scratch
        Whether to ignore the current placement, and relabel slots to minimise moves; else the scheduler gets the
        current placement, which most leave unchanged.
    **settings
        Parameters of the scheduler by name, such as ``time_budget_s=2``.

    Raises
    ------
    InputError
        The argument is no problem, the scheduler is unknown, a parameter is unknown or out of range, or a limit on
        moves is combined with `from_scratch`.
    SchedulerError
        The scheduler's answer is no assignment of the problem.
    """
    _check_problem(problem)
    name = scheduler if isinstance(scheduler, str) else type(scheduler).__name__
    seed = int(seed) if isinstance(seed, np.integer) else seed
    if isinstance(scheduler, str):
        found = resolve_scheduler(scheduler, _texts(settings), seed)
    else:
        found = _own(scheduler)
        _check_unset(name, seed, settings)
    found = apply_from_scratch(name, found, from_scratch, never)
    warm_up(found)
    begin = time.perf_counter()
    answer = checked(problem, found.schedule(problem), name)
    if not answer.seconds:
        answer = replace(answer, seconds=time.perf_counter() - begin)
    return Placement.of(problem, answer)


def compare(
    problem: Problem,
    schedulers: str | Scheduler | Iterable[str | Scheduler] | Mapping[str, str | Scheduler] = "all",
    *,
    from_scratch: bool | None = None,
) -> Comparison:
    """Compare cost, resources and moves of several schedulers, best first; the result prints and draws as a table.

    Parameters
    ----------
    schedulers
        Names, several in one text separated by commas, or ``all``; scheduler objects, named after their classes; both
        together; or either by any name: ``{"mine": Mine(), "today": "even"}``.
    from_scratch
        As for `place`; None: from scratch, except schedulers set to stay near the current placement.

    Raises
    ------
    InputError
        The argument is no problem, a scheduler is unknown, or one that is set to stay near the current placement is
        combined with `from_scratch`.
    """
    _check_problem(problem)
    return comparing.compare(problem, _chosen(schedulers), from_scratch)


def bound(
    problem: Problem,
    placement: Assignment | None = None,
    *,
    seconds: float = 10.0,
    objective: str = AUTO,
    headroom_percent: float = 20.0,
) -> dict[str, Any]:
    """Return a proven bound on all valid placements.

    Parameters
    ----------
    problem
        Problem; with a load for throughput and nodes.
    placement
        A good placement to compare with the bound; by default that of `optimizer` after two seconds.
    seconds
        Time limit of the proof in seconds.
    objective
        Objective of the bound: ``traffic``, ``throughput`` or ``nodes``; ``auto`` is throughput if a service measured
        the load, else traffic.
    headroom_percent
        Percent of all nodes and links to keep free, for nodes.

    Returns
    -------
    dict
        Its ``objective``. For traffic ``cost`` of the placement, and ``flows``, the part of the traffic that is
        shuffled, which the bound counts as free; for throughput ``factor``, by which all measured rates can grow (those
        of a topology as many times that as its weight), None if nothing limits them; for nodes ``nodes``,
        ``headroom``, and whether these sustain the measured rates (``sustained``). ``bound`` is the value that no valid
        placement exceeds (None if nothing limits the rates, or no placement sustains them), ``gap`` the difference
        relative to the placement's value (None if executors are left out or rates are not sustained), ``optimal``
        whether the placement is proven optimal, and ``text`` a summary of all of it.

    Raises
    ------
    InputError
        The argument is no problem, the placement belongs to another one, or the objective is unknown.
    """
    _check_problem(problem)
    objective = proven_objective(problem, objective)
    if placement is None:
        placement = place(problem, DECIDING, time_budget_s=2.0, objective=objective, headroom_percent=headroom_percent)
    figures = bound_of(problem, slots_in(problem, placement), objective, seconds, headroom_percent)
    return {**figures, "text": proof_text(figures)}


def tradeoff(problem: Problem, *, seconds: float = 1.0, seed: int = 0) -> tradeoffs.Tradeoff:
    """Return the gain of moving 1, 2, 5, 10 … running executors, and of restarting as many workers.

    Parameters
    ----------
    seconds
        Duration of each search.

    Raises
    ------
    InputError
        The argument is no problem, or nothing runs.
    """
    _check_problem(problem)
    return tradeoffs.tradeoff(problem, seconds=seconds, seed=seed)


def what_if(
    problem: Problem,
    assignment: Assignment | None = None,
    *,
    rate: float | Mapping[str, float] = 1.0,
    add_nodes: int = 0,
    kill_nodes: str | Iterable[str] = (),
    parallelism: Mapping[str, int] | None = None,
    link: str | float | None = None,
    scheduler: str | Scheduler | None = None,
) -> changed.WhatIf:
    """Return predictions under changes, compared with today; several changes are combined.

    Parameters
    ----------
    problem
        Problem with a load measured under its current placement.
    assignment
        Alternative placement of executors.
    rate
        Factor of all rates; or factors by id or name of topologies.
    add_nodes
        Number of additional nodes like the largest.
    kill_nodes
        Nodes to remove: one or several supervisor ids or hosts.
    parallelism
        Number of executors by ``COMPONENT`` or ``TOPOLOGY/COMPONENT``.
    link
        Speed of all links: bits per second, or a text such as ``1gbit``.
    scheduler
        Scheduler, by name or object, that places everything from scratch as in `compare`; by default running executors
        stay. To start from the current placement, pass the result of `place` as `assignment`.

    Returns
    -------
    WhatIf
        Predictions ``today`` and ``then``, the ``problem`` and ``assignment`` of the latter, how many executors
        ``moved``; it prints as text.

    Raises
    ------
    InputError
        The argument is no problem, the assignment belongs to another one, there is no change, or a change is unknown or
        out of range.
    """
    _check_problem(problem)
    if assignment is not None:
        slots_in(problem, assignment)
    speed = link_bits_per_s(link) if isinstance(link, str) else link
    if speed == 0:
        raise InputError("what if", [Fault(f"should be a speed above 0 as in 1gbit or 100mbit, got {link}", "link")])
    rates = rate if isinstance(rate, Mapping) else {"": rate} if rate != 1 else {}
    wanted = {(of, name): count for key, count in (parallelism or {}).items() for of, _, name in [key.rpartition("/")]}
    changes = changed.Changes(
        rates=rates,
        add_nodes=add_nodes,
        kill_nodes=(kill_nodes,) if isinstance(kill_nodes, str) else tuple(kill_nodes),
        parallelism=wanted,
        link_bps=speed,
        assignment=assignment,
        scheduler=scheduler if scheduler is None or isinstance(scheduler, str) else _own(scheduler),
    )
    return changed.what_if(problem, changes)


def _check_problem(problem: object) -> None:
    if not isinstance(problem, Problem):
        message = f"should be a Problem, as read_problem(FILE) and sketch give it, got {type(problem).__name__}"
        raise InputError("problem", [Fault(message, "$")])


def _chosen(
    schedulers: str | Scheduler | Iterable[str | Scheduler] | Mapping[str, str | Scheduler],
) -> dict[str, Scheduler | StormwrightError]:
    """Return the schedulers to compare by name, or the error of an unavailable one."""
    if isinstance(schedulers, Mapping):
        return {name: _named(each) if isinstance(each, str) else _own(each) for name, each in schedulers.items()}
    one = isinstance(schedulers, str) or not isinstance(schedulers, Iterable)
    given = cast("list[str | Scheduler]", [schedulers] if one else list(cast("Iterable[str | Scheduler]", schedulers)))
    names, own = (
        [each for each in given if isinstance(each, str)],
        [each for each in given if not isinstance(each, str)],
    )
    found = choose_schedulers(",".join(names)) if names or not own else {}
    for each in map(_own, own):
        if (name := type(each).__name__) in found:
            message = f'two of them are called {name}: name them, as {{"one": {name}(), "other": …}}'
            raise InputError("schedulers to compare", [Fault(message, "$")])
        found[name] = each
    return found


def _named(name: str) -> Scheduler | StormwrightError:
    """Return a scheduler by name, or its error."""
    found = list(choose_schedulers(name).values())
    if len(found) > 1:
        raise InputError("schedulers to compare", [Fault("should be one scheduler under each name", name)])
    return found[0]


def _own(scheduler: Scheduler) -> Scheduler:
    """Return the scheduler if it is one."""
    if not callable(getattr(scheduler, "schedule", None)) or isinstance(scheduler, type):
        what = f"the class {scheduler.__name__}" if isinstance(scheduler, type) else type(scheduler).__name__
        message = f"should be a name, or an object with a method schedule(problem), got {what}"
        raise InputError("scheduler", [Fault(message, "$")])
    return scheduler


def _check_unset(name: str, seed: int | None, settings: Mapping[str, Any]) -> None:
    """Raise if parameters are given for a scheduler object, which would ignore them."""
    if given := [*settings, *([] if seed is None else ["seed"])]:
        message = f"would have no effect: only a scheduler by its name is set here; make the {name} with it"
        raise InputError("scheduler parameters", [Fault(message, each) for each in given])


def _texts(settings: Mapping[str, Any]) -> list[str]:
    """Return parameters as command-line texts, which Java classes accept as well."""
    return [f"{name}={str(value).lower() if isinstance(value, bool) else value}" for name, value in settings.items()]
