"""What is wrong with a problem."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from stormwright.errors import Fault
from stormwright.model.amounts import MOST_AMOUNT
from stormwright.model.config.keys import storm_misfits
from stormwright.model.validation.cluster import cluster_wrong
from stormwright.model.validation.faults import Wrong, number_wrong, twice
from stormwright.model.validation.load import demand_wrong
from stormwright.model.validation.running import running_wrong
from stormwright.model.validation.topology import misfit_wrong

if TYPE_CHECKING:
    from stormwright.model.problem import ProblemParts
    from stormwright.model.workload import Workload


def faults_of(core_hz: float, parts: ProblemParts, before: ProblemParts | None) -> list[Fault]:
    """Every fault of a problem, with the path that it would have in a file.

    Parameters
    ----------
    core_hz
        Speed of a core in Hz.
    parts
        Of the problem.
    before
        Of the one that it is made of, which was checked: only what has changed since is looked at.
    """
    return [wrong.fault() for wrong in _wrong(core_hz, parts, before)]


def _wrong(core_hz: float, parts: ProblemParts, before: ProblemParts | None) -> Iterator[Wrong]:
    if before is None or core_hz != before.demand.core_hz:
        wanted = f"should be a number above 0, at most {MOST_AMOUNT:g}"
        yield from number_wrong(core_hz, 5e-324, MOST_AMOUNT, wanted, "core_hz")
    if before is None or parts.cluster.supervisors is not before.cluster.supervisors:
        yield from cluster_wrong(parts.cluster.supervisors, before.cluster.supervisors if before else ())
    if before is None or parts.workload is not before.workload:
        yield from _workload_wrong(parts.workload)
    if before is None or parts.demand is not before.demand:
        yield from demand_wrong(parts.demand)
    if before is None or parts.running is not before.running:
        yield from running_wrong(parts.running, before.running if before else None)


def _workload_wrong(workload: Workload) -> Iterator[Wrong]:
    yield from map(misfit_wrong, storm_misfits(workload.conf))
    yield from twice([topology.id for topology in workload.topologies], "topologies")
    for position, topology in enumerate(workload.topologies):
        yield from (wrong.within("topologies", position) for wrong in topology.wrong)
