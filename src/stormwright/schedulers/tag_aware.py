"""Tag-aware scheduling: components run only on supervisors that carry their tags."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from stormwright.model import Assignment, Problem
from stormwright.model.arrays import BoolArray
from stormwright.model.constraints.optional import UNTAGGED, tags_of, tags_of_node
from stormwright.model.topology_config import WORKERS_OF_TAG
from stormwright.schedulers.placement.admission import RequiredWorkers, find_wanted_workers
from stormwright.schedulers.placement.partial_placement import PartialPlacement
from stormwright.schedulers.placement.placing import FreeResources, Placing
from stormwright.schedulers.placement.repair import PlacementRepair
from stormwright.schedulers.placement.separate import separation_violations
from stormwright.schedulers.placement.staying import choose_slots
from stormwright.schedulers.templates.waiting import CompletePlan, answer, plan_with_last_resort
from stormwright.schedulers.toolkit.configured_values import topology_values
from stormwright.schedulers.toolkit.params import Params
from stormwright.schedulers.toolkit.traffic import by_component

TagSet = frozenset[str]


@dataclass(frozen=True, kw_only=True)
class TagAwareParams(Params):
    """Parameters of the scheduler."""


class TagAwareScheduler:
    """Places the executors of a component only on supervisors that have all its tags.

    P. Katseas, "Taking control of your Apache Storm cluster with tag-aware scheduling", EDITED, 2017.

    1. Supervisors carry ``supervisor.scheduler.meta: {tags: "gpu,ssd"}``, components ``tags`` in their configuration,
       each with any number of tags separated by commas.
    2. Components without a tag, including Storm's own, run on supervisors without a tag.
    3. Only components with the same tags share workers. Each such group gets a share of the topology's workers by its
       number of executors, at least one; ``stormwright.tag.workers`` in the topology's configuration sets it.
    4. A group's workers go round robin over its supervisors, those with most free slots first, and its executors round
       robin over its workers.
    5. A topology is placed as a whole or not at all; one that is not placed does not stop the next. Its status has the
       reason.

    Differences from the article and its code: a component with two tags needs a supervisor with both, and two tags of
    one supervisor share its slots. A topology may run on more workers than requested, if its groups need more. CPU and
    memory of nodes and the topology's limit on executors per worker hold: if a worker fits on none of its nodes,
    workers of its group move among these, and executors among the group's workers, until all fit. Other groups and
    topologies are not moved for that, so a topology may be left out although a placement exists. So is one whose limits
    on components this rule violates.

    Ties go to the lower index of node and executor.

    When to use
    -----------
    Components need features of some nodes only: a GPU, a fast disk, a licence, a network location.

    Ignores
    -------
    Traffic, streams, racks; load, except as a constraint.

    Honours
    -------
    CPU, memory, executors per worker, tags

    Raises
    ------
    InputError
        On scheduling: numbers of workers that are not integers of at least 1; all faults at once.
    """

    params_type = TagAwareParams
    heeds_tags = keeps_untagged_apart = True

    def __init__(self, params: TagAwareParams | None = None) -> None:
        self.params = params or TagAwareParams()

    def schedule(self, problem: Problem) -> Assignment:
        """Place the executors without a slot."""
        workers_of_tag = topology_values(problem, WORKERS_OF_TAG, {})
        return answer(
            problem,
            "tag_aware",
            self.params,
            plan_with_last_resort(problem, lambda usable: self._plan(problem, usable, workers_of_tag)),
        )

    def _plan(self, problem: Problem, usable: BoolArray, workers_of_tag: Sequence[Mapping[str, int]]) -> CompletePlan:
        placement = PartialPlacement.empty(problem, usable)
        queue = find_wanted_workers(
            placement, keep_running=True, may_join=lambda e, mates: _tags(problem, e) == _tags(problem, mates[0])
        )
        room = FreeResources(placement)
        of_node = [tags_of_node(node) for node in problem.supervisors]
        for wanted in queue:
            reasons = _place(placement, room, wanted, of_node, workers_of_tag[wanted.topology])
            if reasons:
                room.recount(placement)  # release the resources of its workers
                placement.reasons[wanted.topology] = reasons
        return CompletePlan(choose_slots(placement), placement.reasons)


def _tags(problem: Problem, executor: int) -> TagSet:
    """Return the tags of an executor's component; executors are numbered over the problem."""
    topology = int(problem.executor_topology[executor])
    definition = problem.topologies[topology]
    return tags_of(
        definition.components[definition.executor_component[executor - problem.executor_offset[topology]]].tags
    )


def _place(
    placement: PartialPlacement,
    room: FreeResources,
    wanted: RequiredWorkers,
    of_node: list[TagSet],
    workers_of_tag: Mapping[str, int],
) -> tuple[str, ...]:
    """Add the workers of a topology to the partial placement, or return the reasons why it does not fit."""
    placing = Placing(placement, room, wanted)
    if 0 < wanted.workers * placing.limit < len(wanted.executors):
        return (f"{wanted.workers} workers of at most {placing.limit} executors do not take {len(wanted.executors)}",)
    groups = _groups(placement.problem, wanted)
    sizes = {tags: len(members) for tags, members in groups.items()}
    problem = placement.problem
    live = Counter(
        _tags(problem, int(np.argmax(placement.worker == worker)))
        for worker, (definition, fixed) in enumerate(zip(placement.topology, placement.fixed, strict=True))
        if fixed and definition == wanted.topology
    )
    shares = _workers_of_group(workers_of_tag, sizes, live, wanted.workers, placing.limit)
    overloading: list[_Group] = []
    first = len(placement.node)
    for tags, members in groups.items():
        nodes = np.array([tags <= own if tags else not own for own in of_node], dtype=bool)
        name = ",".join(sorted(tags)) or UNTAGGED
        if not nodes.any():
            return (f'0 of {len(of_node)} nodes: tag "{name}"',)
        free = int(room.slots[nodes].sum())
        if free < shares[tags]:
            return (f'{shares[tags]} worker slots wanted for tag "{name}", {free} free on its {nodes.sum()} nodes',)
        group = _Group(name, nodes, range(first, first + shares[tags]), len(members))
        first += shares[tags]
        for number in range(shares[tags]):
            worker = members[number :: shares[tags]]
            fits = placing.can_host(worker) & nodes
            if not fits.any() and group not in overloading:
                overloading.append(group)
            placing.put_worker(worker, placing.in_turn(fits if fits.any() else nodes & (room.slots >= 1)))
    placing.finish()
    reasons = _repair(placement, overloading) or separation_violations(placement, wanted.topology)
    if reasons:
        placement.take_out(wanted.topology)
    elif overloading:
        room.recount(placement)
    return reasons


@dataclass(frozen=True, eq=False)
class _Group:
    """Workers of a partial placement whose executors have the same tags, and the nodes with these tags."""

    name: str
    nodes: BoolArray
    workers: range
    executors: int


def _repair(placement: PartialPlacement, overloading: list[_Group]) -> tuple[str, ...]:
    """Rearrange groups within their nodes and workers until none overloads them, or return the reasons."""
    overloaded: list[int] = []
    for group in overloading:
        others = [worker not in group.workers for worker in range(len(placement.node))]
        overloaded = (
            PlacementRepair(replace(placement, usable=placement.usable & group.nodes, fixed=others)).run().tolist()
        )
    return tuple(
        f'no room found on {group.nodes.sum()} nodes with tag "{group.name}" for {len(group.workers)} workers '
        f"with {group.executors} executors"
        for group in overloading
        if any(placement.node[worker] in overloaded for worker in group.workers)
    )


def _groups(problem: Problem, wanted: RequiredWorkers) -> dict[TagSet, list[int]]:
    """Return the executors by the tags of their components, in order of the tags' names."""
    topology = problem.topologies[wanted.topology]
    offset = int(problem.executor_offset[wanted.topology])
    members = by_component(topology, [int(e) for e in wanted.executors], offset)
    groups: dict[TagSet, list[int]] = {}
    for component, executors in members.items():
        if executors:
            tags = tags_of(topology.components[component].tags)
            groups.setdefault(tags, []).extend(executors)
    return dict(sorted(groups.items(), key=lambda item: sorted(item[0])))


def _workers_of_group(
    workers_of_tag: Mapping[str, int], sizes: Mapping[TagSet, int], live: Mapping[TagSet, int], workers: int, limit: int
) -> dict[TagSet, int]:
    """Return the number of new workers of every group, at most as many as it has executors."""
    names = {tags: ",".join(sorted(tags)) or UNTAGGED for tags in sizes}
    fewest = {tags: math.ceil(size / limit) for tags, size in sizes.items()}
    shares = {
        tags: min(max(workers_of_tag[names[tags]] - live.get(tags, 0), fewest[tags]), size)
        for tags, size in sizes.items()
        if names[tags] in workers_of_tag
    }
    rest = {tags: size for tags, size in sizes.items() if tags not in shares}
    shares |= {tags: fewest[tags] for tags in rest}
    for _ in range(workers - sum(shares.values())):
        roomy = [tags for tags, size in rest.items() if shares[tags] < size]
        if not roomy:
            break
        shares[max(roomy, key=lambda tags: rest[tags] / shares[tags])] += 1
    return shares
