"""Problems with changed nodes, links, parallelism, executors or rates."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from stormwright.errors import Fault, InputError, suggestion_for
from stormwright.model import ExecutorRun, LoadProfile, Problem, Supervisor, Topology, TopologyAssignment, TopologyLoad
from stormwright.model.arrays import FloatArray, IndexArray, IntArray
from stormwright.predict.costs import Costs
from stormwright.predict.flow.profile import Profile

if TYPE_CHECKING:
    from scipy.sparse import csr_array

#: Executors wanted of components of one topology, by index.
_Wanted = Mapping[int, int]


def with_nodes(problem: Problem, count: int) -> Problem:
    """Return the problem with `count` more nodes, each like the one with most CPU (the first of several)."""
    like = max(problem.supervisors, key=lambda node: node.cpu_hz)
    taken = {node.id for node in problem.supervisors} | {node.host for node in problem.supervisors}
    numbers = (number for number in range(1, count + len(taken) + 1) if f"new-{number}" not in taken)
    new = tuple(replace(like, id=f"new-{number}", host=f"new-{number}") for number in islice(numbers, count))
    return replace(problem, supervisors=problem.supervisors + new)


def without_node(problem: Problem, node: str) -> Problem:
    """Return the problem without a node, given by its name, the id of its supervisor, or its host (all nodes on it)."""
    names = problem.cluster.node_names
    left = tuple(
        one for name, one in zip(names, problem.supervisors, strict=True) if node not in (name, one.id, one.host)
    )
    return replace(problem, supervisors=left)


def with_links(problem: Problem, link_bps: float) -> Problem:
    """Return the problem with links of one speed, in bits per second."""
    nodes: tuple[Supervisor, ...] = tuple(replace(node, link_bps=link_bps) for node in problem.supervisors)
    return replace(problem, supervisors=nodes)


def with_rates(problem: Problem, factors: FloatArray) -> Problem:
    """Return the problem with loads times a factor for each topology, as a scheduler would see them; shape (T,)."""
    pairs = zip(problem.topologies, problem.loads, factors.tolist(), strict=True)
    loads = {topology.id: _times(load, factor) for topology, load, factor in pairs}
    return problem.with_load(replace(problem.load or LoadProfile({}), topologies=loads))


def _times(load: TopologyLoad, factor: float) -> TopologyLoad:
    scaled = ("cpu_hz", "runs_per_s", "pair_tps", "flow_tps", "pair_bytes_per_s", "flow_bytes_per_s", "forecast_cpu_hz")
    given = {name: getattr(load, name) for name in scaled}
    # How many trees were pending belongs to the measured rate.
    pending = load.pending_trees if factor == 1 else None
    scaled_load = {name: amounts * factor for name, amounts in given.items() if amounts is not None}
    executing = None if load.executing is None else np.minimum(factor * load.executing, 1.0)
    return replace(load, **scaled_load, executing=executing, pending_trees=pending)


def with_parallelism(problem: Problem, profile: Profile, costs: Costs, wanted: Mapping[int, _Wanted]) -> Problem:
    """Return the problem with other numbers of executors, each of one task, as if the topologies were newly submitted.

    A component's work and traffic are divided evenly among its new executors. The new topologies are not running, and
    their CPU excludes the message costs of the measured placement.

    Parameters
    ----------
    problem, profile
        The measured problem and its profile.
    costs
        Costs of messages, which are taken out of the measured CPU.
    wanted
        Topology → component → executors, by index.
    """
    return _with_executors(problem, profile, costs, wanted, (_resized, _evenly))


def rebalanced(problem: Problem, profile: Profile, costs: Costs, wanted: Mapping[int, _Wanted]) -> Problem:
    """Return the problem with other numbers of executors, as ``storm rebalance -e`` sets them.

    Storm assigns consecutive tasks to each executor, and one more to each of the first executors if they do not divide
    evenly (``Utils.partitionFixed`` of Storm 2.8.3). Tasks of an executor are assumed to have equal work and traffic.
    The topologies that are named are not running, and their CPU excludes the message costs of the measured placement;
    one without any named component is otherwise unchanged.

    Parameters
    ----------
    problem, profile, costs, wanted
        Measured problem, its profile, costs of messages, and new numbers of executors by component.

    Raises
    ------
    InputError
        A component has fewer tasks than executors wanted, or its tasks are not numbered consecutively.
    """
    faults = [
        Fault(wrong, f"{problem.topologies[index].id}/{problem.topologies[index].components[component].id}")
        for index, components in wanted.items()
        for component, count in components.items()
        if (wrong := _redistribution_fault(problem.topologies[index], component, count))
    ]
    if faults:
        raise InputError("executors", faults)
    return _with_executors(problem, profile, costs, wanted, (_redistributed, _by_tasks))


def tasks_of(topology: Topology) -> IntArray:
    """Return the number of tasks of every component, which is fixed while the topology runs, shape (C,)."""
    of_run = [run.count * run.tasks_per_executor for run in topology.executor_runs]
    components = [run.component for run in topology.executor_runs]
    return np.bincount(components, of_run, len(topology.components)).astype(np.int32)


def with_executors(topology: Topology, executors: Mapping[str, int]) -> Topology:
    """Return a topology with other numbers of executors by component (id), as ``storm rebalance -e`` sets them.

    Raises
    ------
    InputError
        There is no such component, or as for `rebalanced`.
    """
    index = topology.component_index
    faults = [
        Fault(f"no such component{suggestion_for(name, index)}", f"{topology.id}/{name}")
        for name in executors
        if name not in index
    ]
    wanted = {index[name]: count for name, count in executors.items() if name in index}
    faults += [
        Fault(wrong, f"{topology.id}/{topology.components[component].id}")
        for component, count in wanted.items()
        if (wrong := _redistribution_fault(topology, component, count))
    ]
    if faults:
        raise InputError("executors", faults)
    return _redistributed(topology, wanted)


def _redistribution_fault(topology: Topology, component: int, count: int) -> str:
    tasks = int(tasks_of(topology)[component])
    own = topology.executor_component == component
    if not 1 <= count <= tasks:
        return f"has {tasks} tasks, so from 1 to {tasks} executors, got {count}"
    if topology.executor_end_task[own].max() - topology.executor_start_task[own].min() + 1 != tasks:
        return "its tasks are not numbered one after the other"
    return ""


#: A topology with other executors; and the fraction of each old executor's load that each new one gets, shape (old,
#: new).
_Way = tuple[Callable[[Topology, _Wanted], Topology], Callable[[Topology, Topology, _Wanted], "csr_array"]]


def _with_executors(
    problem: Problem, profile: Profile, costs: Costs, wanted: Mapping[int, _Wanted], way: _Way
) -> Problem:
    work_hz = profile.work_cycles(costs) * profile.handled_tps + profile.idle_hz()
    topologies, loads = list(problem.topologies), dict(problem.load.topologies if problem.load else {})
    for index, components in wanted.items():
        old = problem.topologies[index]
        new = way[0](old, components)
        load = replace(problem.loads[index], cpu_hz=work_hz[problem.executors_of(index)])
        topologies[index], loads[old.id] = new, _divided(load, way[1](old, new, components))
    gone = {problem.topologies[index].id for index in wanted}
    return replace(
        problem,
        topologies=tuple(topologies),
        current=_without(problem.current, gone),
        measured=None if problem.measured is None else _without(problem.measured, gone),
        load=replace(problem.load or LoadProfile({}), topologies=loads),
    )


def _without(placed: Mapping[str, TopologyAssignment], gone: Set[str]) -> dict[str, TopologyAssignment]:
    return {name: where for name, where in placed.items() if name not in gone}


def _resized(old: Topology, wanted: _Wanted) -> Topology:
    runs: list[ExecutorRun] = []
    task, done = 1, set[int]()
    for run in old.executor_runs:
        if run.component in done:
            continue
        new = run._replace(start_task=task)
        if run.component in wanted:
            done.add(run.component)
            new = new._replace(count=wanted[run.component], tasks_per_executor=1)
        runs.append(new)
        task += new.count * new.tasks_per_executor
    return _with_runs(old, wanted, runs)


def _redistributed(old: Topology, wanted: _Wanted) -> Topology:
    tasks, runs, done = tasks_of(old), list[ExecutorRun](), set[int]()
    for run in old.executor_runs:
        if run.component not in wanted:
            runs.append(run)
        elif run.component not in done:
            done.add(run.component)
            each, larger = divmod(int(tasks[run.component]), wanted[run.component])
            first = int(old.executor_start_task[old.executor_component == run.component].min())
            sizes = ((larger, each + 1), (wanted[run.component] - larger, each))
            for count, size in sizes:
                if count:
                    runs.append(ExecutorRun(run.component, first, count, size))
                    first += count * size
    return _with_runs(old, wanted, runs)


def _with_runs(old: Topology, wanted: _Wanted, runs: list[ExecutorRun]) -> Topology:
    components = tuple(
        replace(component, parallelism=wanted.get(number, component.parallelism))
        for number, component in enumerate(old.components)
    )
    return replace(old, components=components, executor_runs=tuple(runs))


def _evenly(old: Topology, new: Topology, wanted: _Wanted) -> csr_array:
    """Return equal fractions for the executors of named components; the identity for others."""
    from scipy.sparse import csr_array  # takes longer to import than the rest

    changed, of_old, of_new = sorted(wanted), old.executor_component, new.executor_component
    unchanged_old, unchanged_new = (np.flatnonzero(~np.isin(topology, changed)) for topology in (of_old, of_new))
    rows, columns, parts = [unchanged_old], [unchanged_new], [np.ones(len(unchanged_old))]
    for component in changed:
        members, heirs = np.flatnonzero(of_old == component), np.flatnonzero(of_new == component)
        rows.append(np.repeat(members, len(heirs)))
        columns.append(np.tile(heirs, len(members)))
        parts.append(np.full(len(members) * len(heirs), 1.0 / len(heirs)))
    at = np.concatenate(rows), np.concatenate(columns)
    return csr_array((np.concatenate(parts), at), shape=(old.num_executors, new.num_executors))


def _by_tasks(old: Topology, new: Topology, wanted: _Wanted) -> csr_array:  # noqa: ARG001 - as `_evenly`
    """Return the fractions by shared tasks."""
    from scipy.sparse import csr_array  # takes longer to import than the rest

    def owners(topology: Topology) -> tuple[IndexArray, IntArray]:
        sizes = topology.executor_end_task - topology.executor_start_task + 1
        owner = np.repeat(np.arange(topology.num_executors), sizes)
        within = np.arange(len(owner)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        task = topology.executor_start_task[owner] + within
        return owner[np.argsort(task, kind="stable")], sizes

    (of_old, sizes), (of_new, _) = owners(old), owners(new)
    return csr_array((1.0 / sizes[of_old], (of_old, of_new)), shape=(old.num_executors, new.num_executors))


def _divided(load: TopologyLoad, heirs_of: csr_array) -> TopologyLoad:
    """Return a load without polls on other executors, which get the fractions in their columns; shape (old, new)."""
    from scipy.sparse import csr_array  # takes longer to import than the rest

    shape = heirs_of.shape

    def pairs(amounts: FloatArray) -> csr_array:
        between = csr_array((amounts, (load.pair_source, load.pair_target)), shape=(shape[0], shape[0]))
        return (heirs_of.T @ between @ heirs_of).tocoo()

    count = len(load.flow_tps)
    of_source = csr_array((np.ones(count), (np.arange(count), load.flow_source)), shape=(count, shape[0]))
    flows = (of_source @ heirs_of).tocoo()
    traffic = pairs(load.pair_tps)
    sizes = None if load.pair_bytes_per_s is None else pairs(load.pair_bytes_per_s).data
    sums = heirs_of.sum(axis=0)
    weight = np.where(sums > 0, sums, 1.0)
    return replace(
        load,
        cpu_hz=heirs_of.T @ load.cpu_hz,
        memory_mb=(heirs_of.T @ load.memory_mb) / weight,
        pair_source=traffic.row,
        pair_target=traffic.col,
        pair_tps=traffic.data,
        pair_bytes_per_s=sizes,
        flow_source=flows.col,
        flow_component=load.flow_component[flows.row],
        flow_grouping=tuple(load.flow_grouping[row] for row in flows.row),
        flow_tps=load.flow_tps[flows.row] * flows.data,
        flow_bytes_per_s=None if load.flow_bytes_per_s is None else load.flow_bytes_per_s[flows.row] * flows.data,
        flow_limit_tps=None,
        forecast_cpu_hz=None,
        live_heap_mb=None,
        waited=None if load.waited is None else (heirs_of.T @ load.waited) / weight,
        executing=None if load.executing is None else np.minimum(heirs_of.T @ load.executing, 1.0),
        # Its CPU has no polls in it, so none is to be subtracted.
        runs_per_s=np.zeros(shape[1]),
        pending_trees=None if load.pending_trees is None else heirs_of.T @ load.pending_trees,
    )
