"""A scheduler's answer together with the problem that it is an answer to: what a person wants to look at."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Self

import numpy as np

from stormwright.explain.drawing import component_colours, component_legend, draw, is_small, placement_svg
from stormwright.model import UNPLACED, Assignment, Cost, Problem, cost_of, diff, violations
from stormwright.model.humanize import counted, reach_texts
from stormwright.model.problem import assumed_text, size_of


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
