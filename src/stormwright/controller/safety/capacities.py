"""CPU of nodes as measured, which counts more than ``supervisor.cpu.capacity``.

Workers report the quota of the control group that their node's supervisor is in, and Linux holds both to it. A node
that declares another number of cores is either filled too much or left half empty.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import isfinite

from stormwright.model import Problem
from stormwright.model.requests import CPU
from stormwright.predict.workers import nodes_of

#: Factor by which a declaration may differ from the measured capacity before it is named.
TOLERANCE = 1.2


@dataclass(frozen=True)
class WrongCapacity:
    """A node that declares other CPU than it may use.

    Parameters
    ----------
    supervisor, name
        Its id and its display name.
    declared, allowed
        Cores that it declares, and that its control group allows.
    """

    supervisor: str
    name: str
    declared: float
    allowed: float

    def __str__(self) -> str:
        return (
            f"{self.name} declares {self.declared:.2g} cores and may use {self.allowed:.2g}: set "
            f"supervisor.cpu.capacity: {100 * self.allowed:.0f} in its storm.yaml"
        )


def wrong_capacities(problem: Problem) -> Iterator[WrongCapacity]:
    """Yield the nodes whose measured quota differs from the declared CPU by more than a fifth."""
    for number, (declared, allowed) in _measured(problem).items():
        if not 1 / TOLERANCE <= allowed / declared <= TOLERANCE:
            yield WrongCapacity(problem.supervisors[number].id, problem.cluster.node_names[number], declared, allowed)


def with_allowed_cpu(problem: Problem) -> Problem:
    """Return the problem with the CPU of nodes as their quotas allow; nodes that were not measured keep theirs.

    What a node declares remains the limit of requests where it is less: its owner may reserve the rest.
    """
    parts = {number: allowed / declared for number, (declared, allowed) in _measured(problem).items()}
    if not any(part < 1 for part in parts.values()):
        return problem
    nodes = list(problem.supervisors)
    for number, part in parts.items():
        if part < 1:
            node = nodes[number]
            cpu = {CPU: node.resources[CPU] * part} if CPU in node.resources else {}
            nodes[number] = replace(node, cpu_hz=node.cpu_hz * part, resources={**node.resources, **cpu})
    return replace(problem, supervisors=tuple(nodes))


def _measured(problem: Problem) -> dict[int, tuple[float, float]]:
    """Return declared and allowed cores of nodes with a measured quota, by number."""
    quotas = problem.load.node_quota_hz if problem.load else {}
    found = {}
    for number, allowed in enumerate(nodes_of(problem).cores if quotas else ()):
        node = problem.supervisors[number]
        declared = node.resources.get(CPU, 0.0) / 100 or node.cpu_hz / problem.core_hz
        if node.id in quotas and isfinite(declared) and declared > 0:
            found[number] = declared, float(allowed)
    return found
