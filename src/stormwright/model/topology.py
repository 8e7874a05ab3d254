"""A topology with its components, groupings and executors; `Problem` compiles it to arrays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from stormwright.base.escaping import shown
from stormwright.model.arrays import IntArray, frozen
from stormwright.model.faults import ConfigFault, ModelFault, amount_wrong, integer_wrong, text_wrong, twice
from stormwright.model.topology_config import conf_misfits

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

#: Groupings whose targets Storm 2.x picks by locality and load, so their traffic follows the placement.
PLACEMENT_FOLLOWING = frozenset({"shuffle", "local_or_shuffle", "none"})


@dataclass(frozen=True, slots=True)
class Grouping:
    """Subscription of a component to a stream of another one.

    Parameters
    ----------
    source, stream
        Component and stream subscribed to.
    kind
        Storm's grouping in lower case: shuffle, fields, all, global, none, direct, local_or_shuffle.
    fields
        Field names of a fields grouping.
    """

    source: str
    stream: str = "default"
    kind: str = "shuffle"
    fields: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ComponentCode:
    """The code of a spout or bolt, as far as it decides how its topology can be moved.

    Parameters
    ----------
    classes
        Its class, then Storm's classes within it: ``StatefulBoltExecutor`` may contain
        ``PersistentWindowedBoltExecutor``.
    event_time
        Whether the timestamps of tuples, and not their arrival, decide when they leave a window.
    guarantee
        Processing guarantee of a ``KafkaSpout``; empty for other components.
    """

    classes: tuple[str, ...]
    event_time: bool = False
    guarantee: str = ""


@dataclass(frozen=True, slots=True)
class Component:
    """A spout, a bolt or one of Storm's system components.

    ``resources`` are per executor, under Storm's normalised names (``cpu.pcore.percent``,
    ``onheap.memory.mb``, ``offheap.memory.mb`` and any generic one). ``conf`` has the keys of its own configuration
    that matter for moves (windows, pending trees, state). ``code`` is None if it is not Java, or was not reported.
    """

    id: str
    type: str
    parallelism: int
    inputs: tuple[Grouping, ...] = ()
    resources: Mapping[str, float] = field(default_factory=dict)
    shared_memory: tuple[Mapping[str, Any], ...] = ()
    tags: tuple[str, ...] = ()
    conf: Mapping[str, Any] = field(default_factory=dict)
    code: ComponentCode | None = None


class ExecutorRun(NamedTuple):
    """`count` consecutive executors of one component, each with the same number of tasks."""

    component: int
    start_task: int
    count: int  # type: ignore[assignment]  # hides tuple.count, which is not used
    tasks_per_executor: int


def default_executor_runs(components: Sequence[Component]) -> tuple[ExecutorRun, ...]:
    """Number tasks as Storm does: components in name order, from 1, one task an executor."""
    runs = []
    next_task = 1
    for index in sorted(range(len(components)), key=lambda i: components[i].id):
        count = components[index].parallelism
        runs.append(ExecutorRun(index, next_task, count, 1))
        next_task += count
    return tuple(runs)


@dataclass(frozen=True)
class Topology:
    """A submitted topology.

    Parameters
    ----------
    num_workers
        W, the requested number of workers.
    executor_runs
        Expanded in order they give the order of the executors, which every list per executor follows.
    """

    id: str
    name: str
    num_workers: int
    components: tuple[Component, ...]
    executor_runs: tuple[ExecutorRun, ...]
    owner: str = ""
    launch_time: int = 0
    conf: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def executor_component(self) -> IntArray:
        """Component index of every executor, shape (E,)."""
        runs = self.executor_runs
        return frozen(
            np.repeat(np.array([run.component for run in runs], np.int32), [run.count for run in runs]), np.int32
        )

    @cached_property
    def executor_start_task(self) -> IntArray:
        """First task id of every executor, shape (E,)."""
        starts = [run.start_task + np.arange(run.count) * run.tasks_per_executor for run in self.executor_runs]
        return frozen(np.concatenate([np.empty(0, np.int32), *starts]), np.int32)

    @cached_property
    def executor_end_task(self) -> IntArray:
        """Last task id of every executor, inclusive, shape (E,)."""
        runs = self.executor_runs
        sizes = np.repeat([run.tasks_per_executor for run in runs], [run.count for run in runs]).astype(np.int32)
        return frozen(self.executor_start_task + sizes - 1, np.int32)

    @cached_property
    def num_executors(self) -> int:
        """E, the number of executors."""
        return sum(run.count for run in self.executor_runs)

    @property
    def executor_counts(self) -> dict[str, int]:
        """Component id → number of its executors, in the order of components."""
        counts = np.bincount(self.executor_component, minlength=len(self.components)).tolist()
        return {component.id: count for component, count in zip(self.components, counts, strict=True)}

    @cached_property
    def component_index(self) -> Mapping[str, int]:
        """Component id → its index in `components`."""
        return {component.id: index for index, component in enumerate(self.components)}

    @cached_property
    def wrong(self) -> tuple[ModelFault, ...]:
        """All its faults, computed once."""
        return tuple(topology_wrong(self))

    def mark_validated(self) -> Topology:
        """Return the topology, marked as validated by its reader."""
        self.__dict__["wrong"] = ()
        return self


#: Task ids are Java ints.
LAST_TASK = 2**31 - 1

TYPES = frozenset({"spout", "bolt", "system"})

GROUPINGS = frozenset(get_args(GroupingKind))


def topology_wrong(topology: Topology) -> Iterator[ModelFault]:
    """Yield all faults of a topology, each with its path from the topology.

    Runs are compared with components only if they consist of four integers in range.
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


def misfit_wrong(misfit: ConfigFault) -> ModelFault:
    """Return a configuration fault as a fault of the topology."""
    return ModelFault(f"{misfit.message}, got {shown(misfit.value)}", ("conf", *misfit.steps))


def _component_wrong(component: Component, topology: Topology) -> Iterator[ModelFault]:
    yield from text_wrong(component.id, "id")
    if component.type not in TYPES:
        yield ModelFault(f"should be one of {', '.join(sorted(TYPES))}, got {shown(component.type)}", ("type",))
    yield from integer_wrong(component.parallelism, 0, LAST_TASK, "parallelism")
    for position, grouping in enumerate(component.inputs):
        at = ("inputs", position)
        if grouping.source not in topology.component_index:
            yield ModelFault(f"unknown component {shown(grouping.source)}", (*at, "from"))
        yield from text_wrong(grouping.stream, *at, "stream")
        if grouping.kind not in GROUPINGS:
            wanted = f"should be one of {', '.join(sorted(GROUPINGS))}"
            yield ModelFault(f"{wanted}, got {shown(grouping.kind)}", (*at, "grouping"))
    for name, amount in component.resources.items():
        yield from amount_wrong(amount, "resources", name)


def _run_wrong(run: ExecutorRun, position: int) -> Iterator[ModelFault]:
    for column, (value, low) in enumerate(zip(run, (0, 0, 1, 1), strict=True)):
        yield from integer_wrong(value, low, LAST_TASK, "executor_runs", position, column)


def runs_wrong(runs: Sequence[ExecutorRun], components: Sequence[Component]) -> Iterator[ModelFault]:
    """Yield faults of runs: every component has as many executors as its parallelism, and every task one executor."""
    executors = [0] * len(components)
    for position, run in enumerate(runs):
        if run.component < len(components):
            executors[run.component] += run.count
        else:
            wanted = f"should be the index of one of {len(components)} components"
            yield ModelFault(f"{wanted}, got {run.component}", ("executor_runs", position, 0))
    for position, component in enumerate(components):
        if executors[position] != component.parallelism:
            wanted = f"should be the {executors[position]} executors that executor_runs give"
            yield ModelFault(f"{wanted}, got {component.parallelism}", ("components", position, "parallelism"))
    next_free = 0
    for position in sorted(range(len(runs)), key=lambda r: runs[r].start_task):
        run = runs[position]
        last = run.start_task + run.count * run.tasks_per_executor - 1
        if run.start_task < next_free:
            yield ModelFault(f"task {run.start_task} belongs to another executor", ("executor_runs", position, 1))
        if last > LAST_TASK:
            yield ModelFault(f"its last task would be {last}, above {LAST_TASK}", ("executor_runs", position))
        next_free = max(next_free, last + 1)
