"""A placement arranged for drawing: every node as a box, or, of a large problem, some figures of every node."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from stormwright.model import UNPLACED, Problem
from stormwright.model.arrays import FloatArray, IntArray
from stormwright.model.constraints.constraint import node_sum
from stormwright.model.humanize import amount

#: Distinct on screen and in print, also for most colour-blind readers (Okabe and Ito's palette).
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#999999")

#: Most executors drawn one by one; beyond, every node has a bar.
MAX_EXECUTORS_SHOWN, MAX_NODES_SHOWN = 1500, 60

#: Most components in the legend; the others are named in the title of an executor.
_MAX_IN_LEGEND = 60

#: Figure of a node that is a fraction of its capacity.
CPU_USED = "CPU used"


@dataclass(frozen=True)
class ExecutorMark:
    """An executor in the picture."""

    colour: str
    title: str


@dataclass(frozen=True)
class WorkerBox:
    """A worker in the picture."""

    title: str
    executors: list[ExecutorMark]


@dataclass(frozen=True)
class NodeBox:
    """A node in the picture; free slots are only counted."""

    host: str
    use: str
    over: bool
    workers: list[WorkerBox]
    free_slots: int


@dataclass(frozen=True)
class Drawing:
    """A placement: every node as a box, or, of a large problem, some figures of every node."""

    name: str
    lead: str
    boxes: list[NodeBox]
    figures: dict[str, FloatArray]


def is_small(problem: Problem) -> bool:
    """Return whether the picture can show every executor."""
    return problem.num_executors <= MAX_EXECUTORS_SHOWN and len(problem.supervisors) <= MAX_NODES_SHOWN


def component_colours(problem: Problem) -> list[list[str]]:
    """Return a colour for every component of every topology, by index."""
    number = 0
    colours = []
    for topology in problem.topologies:
        colours.append([_colour(number + c) for c in range(len(topology.components))])
        number += len(topology.components)
    return colours


def _colour(number: int) -> str:
    """Return a colour: the palette's first, then hues a golden angle apart, so that neighbours differ."""
    return (
        COLOURS[number] if number < len(COLOURS) else f"hsl({number * 137.508 % 360:.0f} 55% {45 + number % 3 * 12}%)"
    )


def component_legend(problem: Problem, colours: list[list[str]]) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Yield topology → its components with their colours."""
    left = _MAX_IN_LEGEND
    for topology, own in zip(problem.topologies, colours, strict=True):
        shown = [(component.id, colour) for component, colour in zip(topology.components, own, strict=True)][:left]
        left -= len(shown)
        if shown:
            yield topology.name, shown


def draw(problem: Problem, name: str, lead: str, slots: IntArray, colours: list[list[str]] | None = None) -> Drawing:
    """Arrange a placement for drawing.

    Parameters
    ----------
    problem
        Problem whose nodes and executors are shown.
    name, lead
        Heading, and the line below it.
    slots
        Slot of every executor, shape (E,); `UNPLACED` of those without, which are not shown.
    colours
        Of every component of every topology (`component_colours`), for executors as boxes; None for a bar for every
        node, of a problem that is not small (`is_small`).
    """
    cpu_hz = node_sum(problem, slots, problem.executor_cpu_hz)
    share = np.divide(cpu_hz, problem.node_cpu_hz, out=np.zeros_like(cpu_hz), where=problem.node_cpu_hz > 0)
    if colours is not None:
        return Drawing(name, lead, list(_boxes(problem, slots, share, colours)), {})
    placed = slots[slots != UNPLACED]
    figures = {
        CPU_USED: share,
        "executors": np.bincount(problem.slot_node[placed], minlength=len(share)).astype(np.float64),
        "workers": np.bincount(problem.slot_node[np.unique(placed)], minlength=len(share)).astype(np.float64),
    }
    return Drawing(name, lead, [], figures)


def _boxes(problem: Problem, slots: IntArray, share: FloatArray, colours: list[list[str]]) -> Iterator[NodeBox]:
    """Yield nodes in the problem's order, workers by port, executors in theirs."""
    in_slot: dict[int, list[int]] = {}
    for executor, slot in enumerate(slots.tolist()):
        if slot != UNPLACED:
            in_slot.setdefault(slot, []).append(executor)
    several_racks = len(set(problem.node_rack.tolist())) > 1
    first = 0
    for node, supervisor in enumerate(problem.supervisors):
        own = [first + position for position in range(len(supervisor.ports)) if first + position in in_slot]
        first += len(supervisor.ports)
        yield NodeBox(
            host=problem.cluster.node_names[node],
            use=f"{f'{supervisor.rack}, ' if several_racks else ''}{share[node]:.0%} CPU",
            over=bool(share[node] > 1 + 1e-9),
            workers=[_worker(problem, slot, in_slot[slot], colours) for slot in own],
            free_slots=len(supervisor.ports) - len(own),
        )


def _worker(problem: Problem, slot: int, executors: list[int], colours: list[list[str]]) -> WorkerBox:
    marks = []
    names: dict[str, None] = {}
    for executor in executors:
        index = int(problem.executor_topology[executor])
        topology = problem.topologies[index]
        number = executor - int(problem.executor_offset[index])
        component = int(topology.executor_component[number])
        names[topology.name] = None
        cpu = amount(problem.executor_cpu_hz[executor], "Hz")
        title = f"{topology.components[component].id}, executor {number}, {cpu}"
        marks.append(ExecutorMark(colours[index][component], title))
    # More than one name only where a scheduler broke the rule that a slot has one topology.
    return WorkerBox(f"{' + '.join(names)} :{problem.slots[slot].port}", marks)
