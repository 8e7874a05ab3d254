"""Problems as they would be with other nodes, links, parallelism or rates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import islice

import numpy as np

from stormwright.model import ExecutorRun, LoadProfile, Problem, Supervisor, Topology, TopologyLoad
from stormwright.model.arrays import FloatArray
from stormwright.predict.costs import Costs
from stormwright.predict.flow.profile import Profile


def with_nodes(problem: Problem, count: int) -> Problem:
    """With `count` nodes more, each like the one that has most CPU (the first of several)."""
    like = max(problem.supervisors, key=lambda node: node.cpu_hz)
    taken = {node.id for node in problem.supervisors} | {node.host for node in problem.supervisors}
    numbers = (number for number in range(1, count + len(taken) + 1) if f"new-{number}" not in taken)
    new = tuple(replace(like, id=f"new-{number}", host=f"new-{number}") for number in islice(numbers, count))
    return replace(problem, supervisors=problem.supervisors + new)


def without_node(problem: Problem, node: str) -> Problem:
    """Without a node, named by supervisor id or host."""
    left = tuple(one for one in problem.supervisors if node not in (one.id, one.host))
    return replace(problem, supervisors=left)


def with_links(problem: Problem, link_bps: float) -> Problem:
    """With links of one speed, in bits per second."""
    nodes: tuple[Supervisor, ...] = tuple(replace(node, link_bps=link_bps) for node in problem.supervisors)
    return replace(problem, supervisors=nodes)


def with_rates(problem: Problem, factors: FloatArray) -> Problem:
    """With loads times a factor for each topology, as a scheduler would see them; shape (T,)."""
    pairs = zip(problem.topologies, problem.loads, factors.tolist(), strict=True)
    loads = {topology.id: _times(load, factor) for topology, load, factor in pairs}
    return problem.with_load(replace(problem.load or LoadProfile({}), topologies=loads))


def _times(load: TopologyLoad, factor: float) -> TopologyLoad:
    scaled = ("cpu_hz", "pair_tps", "flow_tps", "pair_bytes_per_s", "flow_bytes_per_s", "forecast_cpu_hz")
    given = {name: getattr(load, name) for name in scaled}
    return replace(load, **{name: amounts * factor for name, amounts in given.items() if amounts is not None})


def with_parallelism(
    problem: Problem, profile: Profile, costs: Costs, wanted: Mapping[int, Mapping[int, int]]
) -> Problem:
    """With other numbers of executors, each of one task, as if the topologies were submitted anew.

    A component's work and traffic are divided evenly among its new executors. The new topologies run nowhere yet, and
    their CPU is without what messages took where it was measured.

    Parameters
    ----------
    problem, profile
        As measured.
    costs
        Of messages.
    wanted
        Topology → component → executors, by index.
    """
    work_hz = profile.work_cycles(costs) * profile.handled_tps + profile.idle_hz()
    topologies, loads = list(problem.topologies), dict(problem.load.topologies if problem.load else {})
    for index, components in wanted.items():
        old = problem.topologies[index]
        new = _resized(old, components)
        load = problem.loads[index]
        load = replace(load, cpu_hz=work_hz[problem.executors_of(index)])
        topologies[index], loads[old.id] = new, _divided(load, old, new, set(components))
    gone = {problem.topologies[index].id for index in wanted}
    return replace(
        problem,
        topologies=tuple(topologies),
        current={name: placed for name, placed in problem.current.items() if name not in gone},
        load=replace(problem.load or LoadProfile({}), topologies=loads),
    )


def _resized(old: Topology, wanted: Mapping[int, int]) -> Topology:
    components = tuple(
        replace(component, parallelism=wanted.get(number, component.parallelism))
        for number, component in enumerate(old.components)
    )
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
    return replace(old, components=components, executor_runs=tuple(runs))


def _divided(load: TopologyLoad, old: Topology, new: Topology, changed: set[int]) -> TopologyLoad:
    """The load of `old` on the executors of `new`: of changed components evenly, of others as it was."""
    from scipy.sparse import csr_array  # takes longer to import than the rest

    of_old, of_new = old.executor_component, new.executor_component
    even = np.isin(of_old, sorted(changed))
    kept_old, kept_new = np.flatnonzero(~even), np.flatnonzero(~np.isin(of_new, sorted(changed)))
    rows, columns, parts = [kept_old], [kept_new], [np.ones(len(kept_old))]
    for component in sorted(changed):
        members, heirs = np.flatnonzero(of_old == component), np.flatnonzero(of_new == component)
        rows.append(np.repeat(members, len(heirs)))
        columns.append(np.tile(heirs, len(members)))
        parts.append(np.full(len(members) * len(heirs), 1.0 / len(heirs)))
    shape = (old.num_executors, new.num_executors)
    heirs_of = csr_array((np.concatenate(parts), (np.concatenate(rows), np.concatenate(columns))), shape=shape)

    def pairs(amounts: FloatArray) -> csr_array:
        between = csr_array((amounts, (load.pair_source, load.pair_target)), shape=(shape[0], shape[0]))
        return (heirs_of.T @ between @ heirs_of).tocoo()

    count = len(load.flow_tps)
    of_source = csr_array((np.ones(count), (np.arange(count), load.flow_source)), shape=(count, shape[0]))
    flows = (of_source @ heirs_of).tocoo()
    traffic = pairs(load.pair_tps)
    sizes = None if load.pair_bytes_per_s is None else pairs(load.pair_bytes_per_s).data
    sums = heirs_of.sum(axis=0)
    return replace(
        load,
        cpu_hz=heirs_of.T @ load.cpu_hz,
        memory_mb=(heirs_of.T @ load.memory_mb) / np.where(sums > 0, sums, 1.0),
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
    )
