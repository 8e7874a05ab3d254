"""A topology's components along its streams."""

from __future__ import annotations

from collections.abc import Sequence

from stormwright.model import Topology


def upstream(topology: Topology) -> list[set[int]]:
    """The components that each component subscribes to, itself left out."""
    return [
        {topology.component_index[g.source] for g in component.inputs if g.source in topology.component_index} - {index}
        for index, component in enumerate(topology.components)
    ]


def linearised(topology: Topology) -> list[int]:
    """The components so that each comes after those it subscribes to; ties in the topology's order.

    In a cycle the first component that some source is known of goes ahead of the others of its sources.
    """
    sources = upstream(topology)
    order: list[int] = []
    done: set[int] = set()
    waiting = list(range(len(sources)))
    while waiting:
        ready = [component for component in waiting if sources[component] <= done]
        reached = [component for component in waiting if sources[component] & done]
        component = (ready or reached or waiting)[0]
        waiting.remove(component)
        done.add(component)
        order.append(component)
    return order


def breadth_first(topology: Topology) -> list[int]:
    """The components by their distance from the spouts, then in the topology's order; unreached ones come last."""
    sources = upstream(topology)
    targets: list[list[int]] = [[] for _ in sources]
    for target, of_target in enumerate(sources):
        for source in of_target:
            targets[source].append(target)
    order = [index for index, component in enumerate(topology.components) if component.type == "spout"]
    seen = set(order)
    for component in order:  # grows while it is walked
        for target in targets[component]:
            if target not in seen:
                seen.add(target)
                order.append(target)
    return order + [component for component in range(len(sources)) if component not in seen]


def by_component(topology: Topology, executors: Sequence[int], offset: int) -> dict[int, list[int]]:
    """Component → those of `executors` (numbered over the problem, the topology's first being `offset`)."""
    members: dict[int, list[int]] = {component: [] for component in range(len(topology.components))}
    for executor in executors:
        members[int(topology.executor_component[executor - offset])].append(executor)
    return members
