"""Problems as graphs of networkx: topologies of components, and traffic between executors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stormwright.errors import MissingDependencyError
from stormwright.model import UNPLACED, Problem, measured_traffic, traffic_under
from stormwright.model.arrays import IntArray

if TYPE_CHECKING:
    import networkx as nx


def component_graph(problem: Problem) -> nx.MultiDiGraph:
    """Return all topologies as one graph: components named ``TOPOLOGY/COMPONENT``, and an edge for each stream.

    A node has the attributes ``topology``, ``component``, ``type``, ``executors``, ``cpu_mhz`` and ``memory_mb``, those
    of all its executors, and an edge ``stream`` and ``grouping``.

    Raises
    ------
    MissingDependencyError
        networkx is not installed.
    """
    found = _networkx().MultiDiGraph(name=problem.name)
    for index, topology in enumerate(problem.topologies):
        own = problem.executors_of(index)
        cpu_hz, memory_mb = problem.executor_cpu_hz[own], problem.executor_memory_mb[own]
        for number, component in enumerate(topology.components):
            members = topology.executor_component == number
            found.add_node(
                f"{topology.id}/{component.id}",
                topology=topology.id,
                component=component.id,
                type=component.type,
                executors=int(members.sum()),
                cpu_mhz=float(cpu_hz[members].sum()) / 1e6,
                memory_mb=float(memory_mb[members].sum()),
            )
        for component in topology.components:
            for each in component.inputs:
                if each.source in topology.component_index:
                    ends = f"{topology.id}/{each.source}", f"{topology.id}/{component.id}"
                    found.add_edge(*ends, stream=each.stream, grouping=each.kind)
    return found


def executor_graph(problem: Problem, slots: IntArray | None = None) -> nx.DiGraph:
    """Return the traffic between executors, numbered over all topologies; an edge has ``tps``, tuples/s.

    A node has the attributes ``topology``, ``component``, ``cpu_mhz`` and ``memory_mb``; if it is placed also ``node``
    and ``port``.

    Parameters
    ----------
    slots
        Slot of every executor, under which shuffled tuples prefer near executors, shape (E,); by default the current
        placement, with the traffic as it was measured.

    Raises
    ------
    MissingDependencyError
        networkx is not installed.
    """
    found = _networkx().DiGraph(name=problem.name)
    placed = problem.current_slot if slots is None else slots
    for index, topology in enumerate(problem.topologies):
        first = int(problem.executor_offset[index])
        for own, component in enumerate(topology.executor_component.tolist()):
            executor, at = first + own, {}
            if placed[executor] != UNPLACED:
                slot = problem.slots[placed[executor]]
                at = {"node": slot.supervisor, "port": slot.port}
            found.add_node(
                executor,
                topology=topology.id,
                component=topology.components[component].id,
                cpu_mhz=float(problem.executor_cpu_hz[executor]) / 1e6,
                memory_mb=float(problem.executor_memory_mb[executor]),
                **at,
            )
    traffic = measured_traffic(problem) if slots is None else traffic_under(problem, slots)
    for source, target, tps in zip(traffic.source.tolist(), traffic.target.tolist(), traffic.tps.tolist(), strict=True):
        before = found.edges[source, target]["tps"] if found.has_edge(source, target) else 0.0
        found.add_edge(source, target, tps=before + tps)
    return found


def _networkx() -> Any:
    try:
        import networkx as nx
    except ImportError as error:
        message = 'networkx is not installed, and graphs need it; install it with: pip install "stormwright[graph]"'
        raise MissingDependencyError(message) from error
    return nx
