"""What is wrong with a topology."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from stormwright.escaping import shown
from stormwright.model.config.keys import conf_misfits
from stormwright.model.config.misfit import Misfit
from stormwright.model.validation.faults import Wrong, amount_wrong, integer_wrong, text_wrong, twice

if TYPE_CHECKING:
    from stormwright.model.topology import Component, ExecutorRun, Topology

#: Task ids are Java ints.
LAST_TASK = 2**31 - 1

TYPES = frozenset({"spout", "bolt", "system"})

#: Groupings as Storm names them, in lower case.
GroupingKind: TypeAlias = Literal[
    "shuffle",
    "fields",
    "all",
    "global",
    "none",
    "direct",
    "local_or_shuffle",
    "custom",
    "custom_object",
    "custom_serialized",
]
GROUPINGS = frozenset(get_args(GroupingKind))


def topology_wrong(topology: Topology) -> Iterator[Wrong]:
    """All that is wrong with it, each with the path from the topology.

    Whether runs fit the components is asked only of runs that are four integers in their range.
    """
    yield from text_wrong(topology.id, "id")
    yield from text_wrong(topology.name, "name")
    yield from integer_wrong(topology.num_workers, 1, LAST_TASK, "num_workers")
    yield from twice([component.id for component in topology.components], "components")
    for position, component in enumerate(topology.components):
        for wrong in _component_wrong(component, topology):
            yield wrong.within("components", position)
    yield from map(misfit_wrong, conf_misfits(topology.conf))
    shapes = [wrong for position, run in enumerate(topology.executor_runs) for wrong in _run_wrong(run, position)]
    yield from shapes or runs_wrong(topology.executor_runs, topology.components)


def misfit_wrong(misfit: Misfit) -> Wrong:
    """What is wrong with a configuration."""
    return Wrong(f"{misfit.message}, got {shown(misfit.value)}", ("conf", *misfit.steps))


def _component_wrong(component: Component, topology: Topology) -> Iterator[Wrong]:
    yield from text_wrong(component.id, "id")
    if component.type not in TYPES:
        yield Wrong(f"should be one of {', '.join(sorted(TYPES))}, got {shown(component.type)}", ("type",))
    yield from integer_wrong(component.parallelism, 0, LAST_TASK, "parallelism")
    for position, grouping in enumerate(component.inputs):
        at = ("inputs", position)
        if grouping.source not in topology.component_index:
            yield Wrong(f"unknown component {shown(grouping.source)}", (*at, "from"))
        yield from text_wrong(grouping.stream, *at, "stream")
        if grouping.kind not in GROUPINGS:
            wanted = f"should be one of {', '.join(sorted(GROUPINGS))}"
            yield Wrong(f"{wanted}, got {shown(grouping.kind)}", (*at, "grouping"))
    for name, amount in component.resources.items():
        yield from amount_wrong(amount, "resources", name)


def _run_wrong(run: ExecutorRun, position: int) -> Iterator[Wrong]:
    for column, (value, low) in enumerate(zip(run, (0, 0, 1, 1), strict=True)):
        yield from integer_wrong(value, low, LAST_TASK, "executor_runs", position, column)


def runs_wrong(runs: Sequence[ExecutorRun], components: Sequence[Component]) -> Iterator[Wrong]:
    """Every component has as many executors in its runs as its parallelism says, and every task one executor."""
    executors = [0] * len(components)
    for position, run in enumerate(runs):
        if run.component < len(components):
            executors[run.component] += run.count
        else:
            wanted = f"should be the index of one of {len(components)} components"
            yield Wrong(f"{wanted}, got {run.component}", ("executor_runs", position, 0))
    for position, component in enumerate(components):
        if executors[position] != component.parallelism:
            wanted = f"should be the {executors[position]} executors that executor_runs give"
            yield Wrong(f"{wanted}, got {component.parallelism}", ("components", position, "parallelism"))
    next_free = 0
    for position in sorted(range(len(runs)), key=lambda r: runs[r].start_task):
        run = runs[position]
        last = run.start_task + run.count * run.tasks_per_executor - 1
        if run.start_task < next_free:
            yield Wrong(f"task {run.start_task} belongs to another executor", ("executor_runs", position, 1))
        if last > LAST_TASK:
            yield Wrong(f"its last task would be {last}, above {LAST_TASK}", ("executor_runs", position))
        next_free = max(next_free, last + 1)
