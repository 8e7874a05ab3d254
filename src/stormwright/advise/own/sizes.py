"""How full the busiest executor of a component is, by how many share its tasks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from stormwright.model import Problem
from stormwright.model.arrays import FloatArray
from stormwright.predict.changes import tasks_of
from stormwright.predict.costs import Correction, Costs
from stormwright.predict.flow.profile import Profile

#: What differs by less is the same but for rounding.
_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class Size:
    """What a component needs of threads before anything is said of where they are.

    Parameters
    ----------
    topology, component
        Its indices, the second within the topology.
    task_cores
        Cores that each task takes at the rates that are asked for, in the order of tasks, shape (tasks,).
    pooled
        Whether what it gets is shuffled, so that its executors have equally much to do however many tasks they have.
    handled_tps
        Tuples/s of all of them then.
    """

    topology: int
    component: int
    task_cores: FloatArray
    pooled: bool
    handled_tps: float

    @property
    def tasks(self) -> int:
        """The most executors that it may have."""
        return len(self.task_cores)

    def busiest(self, executors: int) -> float:
        """Cores that the busiest of so many executors takes; Storm deals out consecutive tasks, larger parts first."""
        if self.pooled:
            return float(self.task_cores.sum()) / executors
        each, larger = divmod(self.tasks, executors)
        ends = np.cumsum([each + 1] * larger + [each] * (executors - larger))
        return float(np.add.reduceat(self.task_cores, np.append(0, ends[:-1])).max())

    def least(self, allowed: float) -> int | None:
        """The fewest executors of which none takes more than so many cores; None where its tasks are too few."""
        if self.pooled:
            count = max(int(np.ceil(self.task_cores.sum() / allowed - _ROUNDING)), 1)
            return count if count <= self.tasks else None
        fits = (n for n in range(1, self.tasks + 1) if self.busiest(n) <= allowed * (1 + _ROUNDING))
        return next(fits, None)

    def more(self, executors: int) -> int | None:
        """The next number of executors of which the busiest takes less; None where there is none."""
        now = self.busiest(executors)
        less = (n for n in range(executors + 1, self.tasks + 1) if self.busiest(n) < now * (1 - _ROUNDING))
        return next(less, None)


def sizes_of(
    problem: Problem,
    profile: Profile,
    known: tuple[Costs, Mapping[str, Correction]],
    held_cores: Mapping[tuple[int, int], float],
) -> dict[tuple[int, int], Size]:
    """Topology and component (indices) → what it needs at the rates of a problem.

    Parameters
    ----------
    problem, profile
        With loads at the rates that are asked for, without what messages took.
    known
        Costs and corrections.
    held_cores
        Threads that a component keeps busy at these rates, where that was measured: of a bolt that waits for something
        outside they are more than its CPU.
    """
    layout = profile.layout
    cores = profile.work_cycles(*known) * profile.handled_tps / problem.core_hz
    found = {}
    for index, topology in enumerate(problem.topologies):
        own, tasks = problem.executors_of(index), tasks_of(topology)
        each = topology.executor_end_task - topology.executor_start_task + 1
        for number in np.unique(topology.executor_component).tolist():
            mine = np.flatnonzero(topology.executor_component == number)
            mine = mine[np.argsort(topology.executor_start_task[mine], kind="stable")]
            task_cores = np.repeat(cores[own][mine] / each[mine], each[mine])
            held, worked = held_cores.get((index, number), 0.0), float(task_cores.sum())
            if held > worked:
                even = np.full(len(task_cores), held / tasks[number])
                task_cores = task_cores * (held / worked) if worked > 0 else even
            found[index, number] = Size(
                topology=index,
                component=number,
                task_cores=task_cores,
                pooled=bool(profile.pooled[layout.component_offset[index] + number]),
                handled_tps=float(profile.handled_tps[own][mine].sum()),
            )
    return found
