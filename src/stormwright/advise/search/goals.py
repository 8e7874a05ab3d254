"""Goals of advice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from stormwright.errors import Fault, InputError, suggestion_for
from stormwright.model import Problem

#: Default maximum of nodes, and of executors of a topology.
MAX_NODES, MAX_EXECUTORS = 1_000, 100_000


#: Fault of a topology without a measured load.
_UNKNOWN = (
    "its load was not measured, or it began no trees then, so nothing is known of what they take: have a service "
    "measure it, or give the response of Storm's UI with --ui"
)

#: Maximum number of topologies listed by name.
_NAMED = 5


@dataclass(frozen=True)
class AdviceGoals:
    """Goals of advice.

    Parameters
    ----------
    rates
        Topology (id or name; empty for the only one) → trees/s.
    times
        Topology (id or name; empty for all measured ones) → factor of the measured rate.
    p95_ms
        Maximum 95th percentile of complete latency of topologies with a rate or factor; None for no limit.
    headroom
        Fraction of every thread, node and link to keep free.
    max_nodes
        Maximum number of nodes.
    max_executors
        Maximum number of executors of each topology.
    """

    rates: Mapping[str, float] = field(default_factory=dict)
    times: Mapping[str, float] = field(default_factory=dict)
    p95_ms: float | None = None
    headroom: float = 0.2
    max_nodes: int = MAX_NODES
    max_executors: int = MAX_EXECUTORS

    def __post_init__(self) -> None:
        faults = [
            Fault(f"should be a number above 0, got {value:g}", f"{what} {name}".strip())
            for what, given in (("--rate", self.rates), ("--times", self.times))
            for name, value in given.items()
            if not 0 < value < 1e12
        ]
        if self.p95_ms is not None and not 0 < self.p95_ms < 1e9:
            faults.append(Fault(f"should be a time above 0 in ms, got {self.p95_ms:g}", "--p95-ms"))
        if not 0 <= self.headroom < 1:
            faults.append(Fault(f"should be a part from 0 to below 1, got {self.headroom:g}", "headroom"))
        for name, value, most in (
            ("--max-nodes", self.max_nodes, MAX_NODES),
            ("--max-executors", self.max_executors, MAX_EXECUTORS),
        ):
            if not 1 <= value <= most:
                faults.append(Fault(f"should be a number from 1 to {most:,}, got {value}", name))
        if faults:
            raise InputError("advice", faults)

    def requested(self, problem: Problem, measured_tps: Mapping[int, float]) -> dict[int, float]:
        """Return trees/s by topology index, of requested topologies; by default all measured ones at that rate.

        Parameters
        ----------
        problem
            Problem with the topologies.
        measured_tps
            Topology index → measured trees/s, of topologies that begin any.

        Raises
        ------
        InputError
            A topology is unknown, is named twice, or was not measured.
        """
        faults: list[Fault] = []
        requested: dict[int, float] = {}
        for option, given in (("--rate", self.rates), ("--times", self.times)):
            for name, value in given.items():
                found = _named(problem, name, option, measured_tps, faults)
                for index in found:
                    if index in requested:
                        faults.append(Fault("is requested twice", problem.topologies[index].id))
                    elif index not in measured_tps:
                        faults.append(Fault(_UNKNOWN, problem.topologies[index].id))
                    else:
                        requested[index] = value if option == "--rate" else value * measured_tps[index]
        if not measured_tps:
            unknown = [Fault(_UNKNOWN, one.id) for one in problem.topologies[:_NAMED]]
            faults += [fault for fault in unknown if fault not in faults]
        if faults:
            raise InputError("advice", faults)
        return requested or dict(measured_tps)


def _named(
    problem: Problem, name: str, option: str, measured_tps: Mapping[int, float], faults: list[Fault]
) -> list[int]:
    if not name and option == "--times":
        return list(measured_tps)
    if not name and len(problem.topologies) == 1:
        return [0]
    if not name:
        names = ", ".join(sorted(topology.name for topology in problem.topologies)[:3])
        faults.append(Fault(f"name the topology, as in NAME=9000; known: {names}", option))
        return []
    found = [index for index, one in enumerate(problem.topologies) if name in (one.id, one.name)]
    if not found:
        known = [each for one in problem.topologies for each in (one.id, one.name)]
        faults.append(Fault(f"no such topology{suggestion_for(name, known)}", f"{option} {name}"))
    return found
