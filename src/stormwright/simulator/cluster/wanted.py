"""What should run on each supervisor, by what Nimbus has decided."""

from __future__ import annotations

from collections.abc import Mapping

from stormwright.model import Problem, TopologyAssignment
from stormwright.simulator.cluster.nimbus import VirtualNimbus

#: Port → topology and its executors there.
Ports = Mapping[int, tuple[str, tuple[int, ...]]]


class Wanted:
    """Is asked by all supervisors again and again; what has not changed is not worked out anew.

    Parameters
    ----------
    problem
        Numbers executors.
    nimbus
        Decides.
    """

    def __init__(self, problem: Problem, nimbus: VirtualNimbus) -> None:
        self._problem, self._nimbus, self._changes = problem, nimbus, -1
        self._known: dict[str, TopologyAssignment | None] = {}
        self._on: dict[str, dict[str, Ports]] = {}

    def on(self, supervisor: str) -> Ports:
        """What should run on one of them."""
        if self._changes != self._nimbus.changes:
            self._renew()
            self._changes = self._nimbus.changes
        wanted: dict[int, tuple[str, tuple[int, ...]]] = {}
        for ports in self._on.get(supervisor, {}).values():
            wanted |= ports
        return wanted

    def _renew(self) -> None:
        entries = self._nimbus.entries
        now = {topology: entry.assignment for topology, entry in entries.items()}
        for topology, before in self._known.items():
            if before is not None and now.get(topology) is not before:
                for supervisor in {slot.supervisor for slot in before.slots}:
                    self._on[supervisor].pop(topology, None)
        for topology, placed in now.items():
            if placed is not None and self._known.get(topology) is not placed:
                for supervisor, ports in self._of(topology, placed).items():
                    self._on.setdefault(supervisor, {})[topology] = ports
        self._known = now

    def _of(self, topology: str, placed: TopologyAssignment) -> dict[str, Ports]:
        first = self._problem.executors_of(self._problem.topology_index[topology]).start
        found: dict[int, list[int]] = {}
        for executor, at in enumerate(placed.slot_of_executor):
            found.setdefault(at, []).append(first + executor)
        on: dict[str, dict[int, tuple[str, tuple[int, ...]]]] = {}
        for at, executors in found.items():
            slot = placed.slots[at]
            on.setdefault(slot.supervisor, {})[slot.port] = topology, tuple(executors)
        return on  # type: ignore[return-value]  # nobody changes it
