"""One self-contained HTML page: the placement before and after, throughput over time, the figures."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from stormwright.errors import MissingDependencyError
from stormwright.explain.drawing import COLOURS
from stormwright.formats.files.json_files import write_bytes
from stormwright.model import Problem, TopologyAssignment
from stormwright.model.texts import counted

if TYPE_CHECKING:
    from jinja2 import Environment
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class ThroughputCurve:
    """Completed tuple trees per second of one topology over time."""

    name: str
    seconds: Sequence[float]
    acked_tps: Sequence[float]


@dataclass(frozen=True)
class PlacedWorker:
    """A worker as drawn: whose it is, its port, and its executors with their number."""

    topology: str
    colour: str
    port: int
    executors: Sequence[tuple[str, int]]


@dataclass(frozen=True)
class PlacedNode:
    """A node as drawn; free slots are only counted."""

    host: str
    supervisor: str
    workers: Sequence[PlacedWorker]
    free_slots: int


def draw_placement(problem: Problem, placement: Mapping[str, TopologyAssignment]) -> list[PlacedNode]:
    """Arrange a placement for drawing: nodes in the problem's order, workers by port."""
    workers: dict[str, list[PlacedWorker]] = {node.id: [] for node in problem.supervisors}
    for index, topology in enumerate(problem.topologies):
        assignment = placement.get(topology.id)
        if assignment is None:
            continue
        for number, slot in enumerate(assignment.slots):
            components: dict[str, int] = {}
            for executor, chosen in enumerate(assignment.slot_of_executor):
                if chosen == number:
                    name = topology.components[topology.executor_component[executor]].id
                    components[name] = components.get(name, 0) + 1
            box = PlacedWorker(topology.name, COLOURS[index % len(COLOURS)], slot.port, sorted(components.items()))
            workers.setdefault(slot.supervisor, []).append(box)
    return [
        PlacedNode(
            node.host,
            node.id,
            sorted(workers[node.id], key=lambda worker: worker.port),
            len(node.ports) - len(workers[node.id]),
        )
        for node in problem.supervisors
    ]


def draw_throughput(curves: Sequence[ThroughputCurve], spans: Sequence[tuple[float, float, str]]) -> str:
    """An SVG of throughput over time; `spans` (from s, to s, label) are shaded."""
    figure = blank_figure(10, 3.6)
    axes = figure.add_subplot()
    for index, curve in enumerate(curves):
        axes.plot(curve.seconds, curve.acked_tps, label=curve.name, color=COLOURS[index % len(COLOURS)], linewidth=1.6)
    for number, (start, end, label) in enumerate(spans):
        axes.axvspan(start, end, color="#000000", alpha=0.06 + 0.06 * (number % 2), linewidth=0)
        axes.annotate(label, ((start + end) / 2, 0.98), xycoords=("data", "axes fraction"), ha="center", va="top")
    axes.set(xlabel="seconds", ylabel="tuple trees acked / s", ylim=(0, None))
    axes.legend(loc="lower right", frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    return svg_of(figure)


def blank_figure(width: float, height: float) -> Figure:
    """A figure to draw on; sizes in inches.

    Raises
    ------
    MissingDependencyError
        Matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingDependencyError("the report needs matplotlib: pip install 'stormwright[report]'") from error
    return Figure(figsize=(width, height), layout="constrained")


def svg_of(figure: Figure) -> str:
    """A figure as SVG for an HTML page, which has neither XML declaration nor document type."""
    image = io.StringIO()
    figure.savefig(image, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    return image.getvalue()[image.getvalue().index("<svg") :]


def write_report(path: Path, template: str, **content: object) -> None:
    """Render a template of this package to one file that needs no other; directories above it are made.

    Raises
    ------
    InputError
        The file cannot be written; what was there before is unchanged.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(path, _environment().get_template(template).render(**content).encode(errors="backslashreplace"))


def check_report() -> None:
    """Fail now, before the work, where `write_report` would fail after it.

    Raises
    ------
    MissingDependencyError
        The template engine is not installed.
    """
    _environment()


def _environment() -> Environment:
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ImportError as error:
        raise MissingDependencyError("the report needs jinja2: pip install 'stormwright[report]'") from error
    loader = PackageLoader("stormwright.experiments", "templates")
    made = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    made.filters["counted"] = counted
    return made
