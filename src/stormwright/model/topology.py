"""A topology as people read and write it; `Problem` compiles it to arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from stormwright.model.arrays import IntArray, frozen
from stormwright.model.faults import Wrong
from stormwright.model.validate import topology_wrong

#: Groupings whose targets Storm 2.x picks by locality and load, so their traffic follows the placement.
PLACEMENT_FOLLOWING = frozenset({"shuffle", "local_or_shuffle", "none"})


@dataclass(frozen=True, slots=True)
class Grouping:
    """How a component subscribes to a stream of another one.

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
class Component:
    """A spout, a bolt or one of Storm's system components.

    ``resources`` are per executor, under Storm's normalised names (``cpu.pcore.percent``,
    ``onheap.memory.mb``, ``offheap.memory.mb`` and any generic one).
    """

    id: str
    type: str
    parallelism: int
    inputs: tuple[Grouping, ...] = ()
    resources: Mapping[str, float] = field(default_factory=dict)
    shared_memory: tuple[Mapping[str, Any], ...] = ()
    tags: tuple[str, ...] = ()


class ExecutorRun(NamedTuple):
    """`count` executors in a row of one component, each with the same number of tasks."""

    component: int
    start_task: int
    count: int  # type: ignore[assignment]  # hides tuple.count, which nobody calls on a run
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
        W, the number of workers asked for.
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

    @cached_property
    def component_index(self) -> Mapping[str, int]:
        """Component id → its index in `components`."""
        return {component.id: index for index, component in enumerate(self.components)}

    @cached_property
    def wrong(self) -> tuple[Wrong, ...]:
        """All that is wrong with it, looked for once."""
        return tuple(topology_wrong(self))

    def found_sound(self) -> Topology:
        """Itself, in which its reader has found nothing wrong: nobody looks again."""
        self.__dict__["wrong"] = ()
        return self
