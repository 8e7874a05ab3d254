"""Questions in one call, for people at a prompt or in a notebook: `import stormwright as sw`."""

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
# A scheduler's answer together with the problem that it is an answer to: what a person wants to look at.


@dataclass(frozen=True, eq=False, repr=False)
class Placement(Assignment):
    """An `Assignment` that knows its problem, so that it can tell what it costs, and be drawn.

    Parameters
    ----------
    problem
        What was placed.
    """

    problem: Problem = None  # type: ignore[assignment]  # the fields before it have defaults; `of` is how one is made

    @classmethod
    def of(cls, problem: Problem, assignment: Assignment) -> Self:
        """`assignment` as an answer to `problem`."""
        given = {field.name: getattr(assignment, field.name) for field in fields(Assignment)}
        return cls(**given, problem=problem)

    @cached_property
    def cost(self) -> Cost:
        """Its traffic by class of distance, in tuples/s, and weighted."""
        return cost_of(self.problem, self.slot_of_executor)

    @cached_property
    def broken(self) -> list[Any]:
        """The limits that it breaks; none if it is valid."""
        return list(violations(self.problem, self.slot_of_executor))

    def summary(self) -> str:
        """What it comes to, in a few lines of text."""
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
            lines += [f"  {count} of {topology}: {'; '.join(why)}" for topology, count, why in self.reasons_together()]
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
        """The summary: what a prompt shows."""
        return self.summary()

    def _repr_html_(self) -> str:
        """The picture, where it is small enough to be one: what a notebook shows."""
        if not is_small(self.problem):
            return f"<pre>{_escaped(self.summary())}</pre>"
        return f"<pre>{_escaped(self.summary())}</pre>{self.svg()}"

    def svg(self) -> str:
        """The placement drawn, as one SVG document; executors have the colour of their component."""
        colours = component_colours(self.problem)
        lead = f"cost {self.cost.total:,.1f}"
        drawing = draw(self.problem, self.scheduler, lead, self.slot_of_executor, colours)
        return placement_svg(drawing, list(component_legend(self.problem, colours)))


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


# Api ----------------------------------------------------------------------------------------------


def read_problem(path: str | Path) -> Problem:
    """The problem in a file: JSON, gzipped or not, or a NumPy archive; or a paper's, as ``ready:NAME``.

    Raises
    ------
    InputError
        It cannot be read or is not a problem; all its faults.
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
    """Where a scheduler puts every executor.

    Parameters
    ----------
    problem
        As `read_problem` and `sketch` give it, or one with a load or a placement of your own.
    scheduler
        A name, as `stormwright.schedulers()` lists them, or ``java:CLASS``; or anything with a method
        ``schedule(problem)``.
    seed
        For those that draw random numbers; None for their own. As `settings`, only for a scheduler by its name: one
        itself is made with what it is to have.
    from_scratch
        Whether everything is placed anew, as if nothing ran, in such slots that as little as can be moves; else the
        scheduler is told what runs, which most leave where it is.
    **settings
        Parameters of the scheduler by name, such as ``time_budget_s=2``.

    Raises
    ------
    InputError
        It is no problem, there is no such scheduler, a parameter is unknown or out of range, or one says how much of
        what runs may move where everything is to be placed anew.
    SchedulerError
        What the scheduler answers is no assignment of the problem.
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
    """What several schedulers' placements cost, use and move, best first; it prints and draws as a table.

    Parameters
    ----------
    schedulers
        Names, several in one text separated by commas, or ``all``; schedulers of your own, which are called as their
        classes are; both together; or either by any name: ``{"mine": Mine(), "today": "even"}``.
    from_scratch
        As for `place`; None: anew, but for those that are set to stay near to what runs.

    Raises
    ------
    InputError
        It is no problem, there is no scheduler of a name, or one is set to stay near to what runs and is asked anew.
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
    """What no valid placement can be better than.

    Parameters
    ----------
    problem
        For throughput and nodes with a load.
    placement
        A good one, which the bound is compared with; by default `optimizer`'s after two seconds.
    seconds
        For the proof.
    objective
        What placements are compared by: ``traffic``, ``throughput`` or ``nodes``; ``auto`` is throughput where a
        service measured the load, else traffic.
    headroom_percent
        What is to stay free of all nodes and links, for nodes.

    Returns
    -------
    dict
        Its ``objective``. For traffic ``cost`` of the placement, and ``flows``, the part of the traffic that is
        shuffled, which the bound counts as free; for throughput ``factor``, by which all measured rates can grow (those
        of a topology as many times that as its weight), None where nothing limits them; for nodes ``nodes``,
        ``headroom``, and whether these sustain the measured rates (``sustained``). ``bound`` is what no valid placement
        is better than (None where nothing limits the rates, or no placement sustains them), ``gap`` what is between
        them in parts of the placement's (None where executors are left out or rates are not sustained), ``optimal``
        whether it is proven to be the best, and ``text`` all of it in words.

    Raises
    ------
    InputError
        It is no problem, the placement is of another one, or there is no such objective.
    """
    _check_problem(problem)
    objective = proven_objective(problem, objective)
    if placement is None:
        placement = place(problem, DECIDING, time_budget_s=2.0, objective=objective, headroom_percent=headroom_percent)
    figures = bound_of(problem, slots_in(problem, placement), objective, seconds, headroom_percent)
    return {**figures, "text": proof_text(figures)}


def tradeoff(problem: Problem, *, seconds: float = 1.0, seed: int = 0) -> tradeoffs.Tradeoff:
    """What it gains to move 1, 2, 5, 10 … executors of what runs, and to restart as many workers.

    Parameters
    ----------
    seconds
        Of each search.

    Raises
    ------
    InputError
        It is no problem, or nothing runs.
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
    """What changes would bring, beside what is predicted of today; several of them count together.

    Parameters
    ----------
    problem
        With a load, measured under its current placement.
    assignment
        Where executors would run instead of where they do.
    rate
        Factor of all rates; or of some topologies', by id or name.
    add_nodes
        So many more, like the largest.
    kill_nodes
        Without this one, or these: supervisor ids or hosts.
    parallelism
        ``COMPONENT`` or ``TOPOLOGY/COMPONENT`` → executors.
    link
        Speed of all links: bits per second, or a text such as ``1gbit``.
    scheduler
        Who places everything anew, by name or itself, asked as `compare` asks; by default what runs stays. Where it is
        to be told what runs, its `assignment` is what `place` answers.

    Returns
    -------
    WhatIf
        Predictions ``today`` and ``then``, the ``problem`` and ``assignment`` of the latter, how many executors
        ``moved``; it prints as text.

    Raises
    ------
    InputError
        It is no problem, the assignment is of another one, nothing is to be different, or a change is unknown or out of
        range.
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
    """Name → scheduler of all that are to be compared, or why there is none."""
    if isinstance(schedulers, Mapping):
        return {name: _named(each) if isinstance(each, str) else _own(each) for name, each in schedulers.items()}
    one = isinstance(schedulers, str) or not isinstance(schedulers, Iterable)
    told = cast("list[str | Scheduler]", [schedulers] if one else list(cast("Iterable[str | Scheduler]", schedulers)))
    names, own = [each for each in told if isinstance(each, str)], [each for each in told if not isinstance(each, str)]
    found = choose_schedulers(",".join(names)) if names or not own else {}
    for each in map(_own, own):
        if (name := type(each).__name__) in found:
            message = f'two of them are called {name}: name them, as {{"one": {name}(), "other": …}}'
            raise InputError("schedulers to compare", [Fault(message, "$")])
        found[name] = each
    return found


def _named(name: str) -> Scheduler | StormwrightError:
    """One scheduler by its name, or why there is none."""
    found = list(choose_schedulers(name).values())
    if len(found) > 1:
        raise InputError("schedulers to compare", [Fault("should be one scheduler under each name", name)])
    return found[0]


def _own(scheduler: Scheduler) -> Scheduler:
    """The same, if it is one."""
    if not callable(getattr(scheduler, "schedule", None)) or isinstance(scheduler, type):
        what = f"the class {scheduler.__name__}" if isinstance(scheduler, type) else type(scheduler).__name__
        message = f"should be a name, or an object with a method schedule(problem), got {what}"
        raise InputError("scheduler", [Fault(message, "$")])
    return scheduler


def _check_unset(name: str, seed: int | None, settings: Mapping[str, Any]) -> None:
    """A scheduler itself would not learn of them, and answer as if they had not been told."""
    if told := [*settings, *([] if seed is None else ["seed"])]:
        message = f"would have no effect: only a scheduler by its name is set here; make the {name} with it"
        raise InputError("scheduler parameters", [Fault(message, each) for each in told])


def _texts(settings: Mapping[str, Any]) -> list[str]:
    """Parameters as a command line has them, which Java classes take too."""
    return [f"{name}={str(value).lower() if isinstance(value, bool) else value}" for name, value in settings.items()]
