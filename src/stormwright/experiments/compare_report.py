"""A comparison as one self-contained HTML page: the figures, and the placements side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from stormwright.experiments.compare import Comparison, Figures
from stormwright.experiments.report import COLOURS, write_report
from stormwright.model import UNPLACED, CostWeights, Problem
from stormwright.model.arrays import FloatArray, IntArray
from stormwright.model.constraints import node_sum

#: Up to here every executor is drawn; beyond, every node has a bar.
MOST_EXECUTORS_DRAWN, MOST_NODES_DRAWN = 1500, 60

#: Components with an entry in the legend; the others are told by the title of an executor.
_MOST_IN_LEGEND = 60

_BAR_HEIGHT = 100

_CPU = "CPU used"


@dataclass(frozen=True)
class ExecutorMark:
    """An executor as drawn."""

    colour: str
    title: str


@dataclass(frozen=True)
class WorkerBox:
    """A worker as drawn."""

    title: str
    executors: list[ExecutorMark]


@dataclass(frozen=True)
class NodeBox:
    """A node as drawn; free slots are only counted."""

    host: str
    use: str
    over: bool
    workers: list[WorkerBox]
    free_slots: int


@dataclass(frozen=True)
class NodeBars:
    """A figure of every node: the outline of its bars in a field of N × 100, where 1 is, and the highest in words."""

    label: str
    path: str
    nodes: int
    height_of_one: float
    top: str


@dataclass(frozen=True)
class Drawing:
    """A placement: every node as a box, or, of a big problem, some figures of every node."""

    name: str
    lead: str
    boxes: list[NodeBox]
    figures: dict[str, FloatArray]


@dataclass(frozen=True)
class CostBar:
    """The parts of a cost, each as class of distance, tuples/s and percent of the highest cost."""

    name: str
    total: str
    parts: list[tuple[str, str, float]]


def write_comparison(path: Path, comparison: Comparison) -> None:
    """Write the page."""
    problem = comparison.problem
    colours = component_colours(problem)
    small = problem.num_executors <= MOST_EXECUTORS_DRAWN and len(problem.supervisors) <= MOST_NODES_DRAWN
    drawings = [draw(problem, *placement, colours if small else None) for placement in _placements(comparison)]
    write_report(
        path,
        "compare.html.j2",
        title=f"Schedulers compared on {problem.name or 'a problem'}",
        lead=f"{len(problem.topologies)} topologies, {problem.num_executors:,} executors, "
        f"{len(problem.supervisors):,} nodes, {len(problem.slots):,} slots.",
        current=comparison.current,
        rows=comparison.rows,
        costs=list(_cost_bars(comparison)),
        legend=list(component_legend(problem, colours)) if small else [],
        drawings=drawings,
        node_rows=list(zip(*(drawing.boxes for drawing in drawings), strict=True)),
        bar_rows=list(_bar_rows(drawings)),
    )


def _placements(comparison: Comparison) -> Iterator[tuple[str, str, IntArray]]:
    if comparison.current:
        yield "what runs now", _lead(comparison.current), comparison.problem.current_slot
    for row in comparison.rows:
        if row.figures and row.assignment:
            yield row.label, _lead(row.figures), row.assignment.slot_of_executor


def _lead(figures: Figures) -> str:
    left = f", {figures.unplaced:,} executors unplaced" if figures.unplaced else ""
    return f"cost {figures.cost.total:,.1f}, {figures.nodes:,} nodes, {figures.workers:,} workers{left}"


def _cost_bars(comparison: Comparison) -> Iterator[CostBar]:
    weights = CostWeights()
    named = [("what runs now", comparison.current), *((row.label, row.figures) for row in comparison.rows)]
    known = [(name, figures) for name, figures in named if figures]
    highest = max((figures.cost.total for _, figures in known), default=0.0) or 1.0
    for name, figures in known:
        cost = figures.cost
        parts = [
            ("between workers of a node", cost.inter_worker, weights.inter_worker),
            ("between nodes of a rack", cost.inter_node, weights.inter_node),
            ("between racks", cost.inter_rack, weights.inter_rack),
        ]
        yield CostBar(
            name,
            f"{cost.total:,.1f}",
            [
                (label, f"{tps:,.1f} tuples/s × {weight:g}", 100 * tps * weight / highest)
                for label, tps, weight in parts
            ],
        )


# Colours -----------------------------------------------------------------------------------------


def component_colours(problem: Problem) -> list[list[str]]:
    """A colour for every component of every topology, by index."""
    number = 0
    colours = []
    for topology in problem.topologies:
        colours.append([_colour(number + c) for c in range(len(topology.components))])
        number += len(topology.components)
    return colours


def _colour(number: int) -> str:
    """The palette's first, then hues a golden angle apart, so that neighbours differ."""
    return (
        COLOURS[number] if number < len(COLOURS) else f"hsl({number * 137.508 % 360:.0f} 55% {45 + number % 3 * 12}%)"
    )


def component_legend(problem: Problem, colours: list[list[str]]) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Topology → its components with their colours."""
    left = _MOST_IN_LEGEND
    for topology, own in zip(problem.topologies, colours, strict=True):
        shown = [(component.id, colour) for component, colour in zip(topology.components, own, strict=True)][:left]
        left -= len(shown)
        if shown:
            yield topology.name, shown


# Placements --------------------------------------------------------------------------------------


def draw(problem: Problem, name: str, lead: str, slots: IntArray, colours: list[list[str]] | None = None) -> Drawing:
    """Arrange a placement for drawing: executors in `colours`, or without these a bar for every node."""
    cpu_hz = node_sum(problem, slots, problem.executor_cpu_hz)
    share = np.divide(cpu_hz, problem.node_cpu_hz, out=np.zeros_like(cpu_hz), where=problem.node_cpu_hz > 0)
    if colours is not None:
        return Drawing(name, lead, list(_boxes(problem, slots, share, colours)), {})
    placed = slots[slots != UNPLACED]
    figures = {
        _CPU: share,
        "executors": np.bincount(problem.slot_node[placed], minlength=len(share)).astype(np.float64),
        "workers": np.bincount(problem.slot_node[np.unique(placed)], minlength=len(share)).astype(np.float64),
    }
    return Drawing(name, lead, [], figures)


def _bar_rows(drawings: Sequence[Drawing]) -> Iterator[list[NodeBars]]:
    """A row of bars for every figure, all placements on one scale."""
    for label in drawings[0].figures if drawings else ():
        of_each = [drawing.figures[label] for drawing in drawings]
        scale = max(float(values.max(initial=0.0)) for values in of_each) or 1.0
        yield [_bars(label, values, scale) for values in of_each]


def _bars(label: str, values: FloatArray, scale: float) -> NodeBars:
    path = "".join(f"V{height:.0f}h1" for height in _BAR_HEIGHT * (1 - values / scale))
    top = float(values.max(initial=0.0))
    return NodeBars(
        label,
        f"M0 {_BAR_HEIGHT}{path}V{_BAR_HEIGHT}Z",
        len(values),
        _BAR_HEIGHT * (1 - 1 / scale),
        f"{top:.0%} of its capacity" if label == _CPU else f"{top:.0f}",
    )


def _boxes(problem: Problem, slots: IntArray, share: FloatArray, colours: list[list[str]]) -> Iterator[NodeBox]:
    """Nodes in the problem's order, workers by port, executors in theirs."""
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
            host=supervisor.host,
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
        title = (
            f"{topology.components[component].id}, executor {number}, {problem.executor_cpu_hz[executor] / 1e9:.3g} GHz"
        )
        marks.append(ExecutorMark(colours[index][component], title))
    # More than one name only where a scheduler broke the rule that a slot has one topology.
    return WorkerBox(f"{' + '.join(names)} :{problem.slots[slot].port}", marks)
