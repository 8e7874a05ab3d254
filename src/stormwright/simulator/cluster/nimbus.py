"""A virtual Nimbus: it answers as the real one does where stormwright asks, and asks as the real one does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from stormwright.errors import NimbusError
from stormwright.formats import problem_to_dict
from stormwright.model import Problem, Supervisor, Topology, TopologyAssignment, WorkerSlot
from stormwright.model.assignment import UNPLACED
from stormwright.simulator.cluster.clock import VirtualClock
from stormwright.simulator.cluster.timings import PUSH, REBALANCE, STATUS, Delay, Timings

# ZooKeeper ----------------------------------------------------------------------------------------
# What ZooKeeper has of a virtual cluster, and what Nimbus says to whom.

#: Storm's words for what a topology does.
ACTIVE, INACTIVE, REBALANCING, KILLED = "ACTIVE", "INACTIVE", "REBALANCING", "KILLED"


class Answer(Protocol):
    """What a scheduler says: topology (id) → where it goes, and what Storm's UI shows of it."""

    @property
    def assignments(self) -> Mapping[str, TopologyAssignment]: ...

    @property
    def status(self) -> Mapping[str, str]: ...


#: The cluster as Nimbus sees it → what becomes of it. It raises ConnectionError where nobody answers.
Ask = Callable[[Problem], Answer]


@dataclass
class Entry:
    """What ZooKeeper has of a topology, whatever becomes of Nimbus.

    Parameters
    ----------
    topology
        With the workers that it was given last.
    since_s
        When it was submitted.
    status, before
        What it does, and what it did before it was rebalanced.
    assignment
        Where it runs; None for nowhere.
    told
        What its scheduler says of it.
    rebalance
        Workers that it gets by the rebalance under way; None for as many as it has.
    """

    topology: Topology
    since_s: float
    status: str = ACTIVE
    before: str = ACTIVE
    assignment: TopologyAssignment | None = None
    told: str = ""
    rebalance: int | None = None


class NimbusListener(Protocol):
    """Who is told what Nimbus has decided."""

    def assigned(self, supervisor: str) -> None: ...

    def status(self, topology: str) -> None: ...

    def gone(self, topology: str) -> None: ...


# Nimbus -------------------------------------------------------------------------------------------

#: Storm's exceptions.
NOT_ALIVE, ALIVE, INVALID = "NotAliveException", "AlreadyAliveException", "InvalidTopologyException"


class VirtualNimbus:
    """Nimbus, and what ZooKeeper keeps for it.

    Parameters
    ----------
    clock
        Virtual time.
    cluster
        Nodes, and what the cluster is told.
    ask, fallback
        Who places topologies; and who does where that one does not answer, as Storm's own scheduler would.
    timings, delay
        How long things take.

    Attributes
    ----------
    changes
        How often it has changed what should run where.
    """

    def __init__(
        self,
        clock: VirtualClock,
        cluster: Problem,
        ask: Ask,
        fallback: Ask,
        timings: Timings,
        delay: Delay,
    ) -> None:
        self._clock, self._delay = clock, delay
        # What topologies do is to be measured.
        self._cluster = replace(cluster, topologies=(), current={}, load=None, measured=None)
        self.ask, self._fallback = ask, fallback
        self.entries: dict[str, Entry] = {}
        self.hears: NimbusListener
        self.up, self.changes = True, 0
        self._soon, self._dead, self._news = False, set[str](), set[str]()
        self._shown: Problem | None = None
        clock.every(timings.monitor_s, self.look)

    # What clients call --------------------------------------------------------------------------------

    def cluster(self) -> dict[str, Any]:
        """Supervisors and topologies."""
        self._require_up("cluster")
        now_s, used = self._clock.monotonic(), Counter(slot.supervisor for slot in self._used())
        supervisors = [
            {
                "id": node.id,
                "host": node.host,
                "uptime_s": round(now_s),
                "num_workers": len(node.ports),
                "used_workers": used[node.id],
            }
            for node in self._alive_nodes()
        ]
        return {"supervisors": supervisors, "topologies": [self._summary(each) for each in self.entries.values()]}

    def problem(self) -> dict[str, Any]:
        """The cluster as a document without load."""
        self._require_up("problem")
        return problem_to_dict(self.snapshot())

    def activate(self, name: str) -> None:
        """Let the spouts of a topology emit."""
        self._switch(name, ACTIVE)

    def deactivate(self, name: str) -> None:
        """Pause them."""
        self._switch(name, INACTIVE)

    def rebalance(self, name: str, wait_s: int, num_workers: int | None = None) -> None:
        """Drop a topology's assignment after a while and have it scheduled again, with other workers if told."""
        entry = self._entry("rebalance", name)
        if entry.status not in (ACTIVE, INACTIVE):
            raise _refused("rebalance", f"{name} is {entry.status}")
        entry.before, entry.status, entry.rebalance = entry.status, REBALANCING, num_workers
        self._clock.after(self._delay(STATUS), lambda: self.hears.status(entry.topology.id))
        self._clock.after(wait_s + self._delay(REBALANCE), lambda: self._do_rebalance(entry))

    def release(self, topology_id: str, supervisor: Supervisor) -> bool:
        """Tell a supervisor that a topology has left it; False as long as it has not."""
        self._require_up("release")
        entry = self.entries.get(topology_id)
        slots = entry.assignment.slots if entry and entry.assignment else ()
        if any(slot.supervisor == supervisor.id for slot in slots):
            return False
        self._push(supervisor.id)
        return True

    def kill(self, name: str, wait_s: int) -> None:
        """End a topology after a while."""
        entry = self._entry("kill", name)
        entry.status = KILLED
        self._clock.after(self._delay(STATUS), lambda: self.hears.status(entry.topology.id))
        self._clock.after(wait_s + self._delay(REBALANCE), lambda: self._remove(entry))

    # What happens to it -------------------------------------------------------------------------------

    def submit(self, topology: Topology, placed: TopologyAssignment | None = None) -> None:
        """A topology comes; it is placed when Nimbus next looks, which it does at once, unless it is already.

        Raises
        ------
        NimbusError
            There is one of that name.
        """
        self._require_up("submit")
        if any(each.topology.name == topology.name for each in self.entries.values()):
            raise NimbusError(f"Nimbus refused submit: {topology.name} already exists on cluster ({ALIVE})", ALIVE)
        self.entries[topology.id] = Entry(topology, self._clock.monotonic(), assignment=placed)
        self.changes += 1
        if placed is not None and not self._news:  # of all that come at this instant supervisors hear at once
            self._clock.after(0.0, self._tell)
        self._news |= {slot.supervisor for slot in placed.slots} if placed else set()
        if placed is None and not self._soon:
            self._soon = True
            self._clock.after(self._delay(REBALANCE), self.look)

    def die(self, seconds: float) -> None:
        """It ends, and is back after a while: what ZooKeeper has goes on."""
        self.up = False
        self._clock.after(seconds, self._back)

    def lose(self, supervisor: str) -> None:
        """A supervisor has been silent for too long."""
        self._dead.add(supervisor)

    def find(self, supervisor: str) -> None:
        """It is back."""
        self._dead.discard(supervisor)

    def snapshot(self) -> Problem:
        """The cluster as it shows it to a scheduler."""
        topologies = tuple(entry.topology for entry in self.entries.values() if entry.status != KILLED)
        current = {t.id: self.entries[t.id].assignment for t in topologies}
        nodes = self._alive_nodes()
        base = self._shown or self._cluster
        if base.topologies != topologies or base.supervisors != nodes:
            base = replace(base, supervisors=nodes, topologies=topologies, current={})
        placed = {topology: where for topology, where in current.items() if where is not None}
        if base.current != placed:
            base = base.with_current(placed)
        self._shown = base
        return base

    # What it does by itself -----------------------------------------------------------------------------

    def look(self) -> None:
        """Ask where topologies should run, as it does again and again."""
        self._soon = False
        if self.up:
            self._schedule()

    def _schedule(self) -> None:
        problem = self.snapshot()
        try:
            answer = self.ask(problem)
        except ConnectionError:
            answer = self._fallback(problem)
        touched = set()
        for topology, text in answer.status.items():
            if topology in self.entries:
                self.entries[topology].told = text
        for topology, placed in answer.assignments.items():
            entry = self.entries.get(topology)
            if entry is None or UNPLACED in placed.slot_of_executor or entry.assignment == placed:
                continue
            entry.assignment = placed
            self.changes += 1
            touched |= {slot.supervisor for slot in placed.slots}
        for supervisor in sorted(touched):
            self._push(supervisor)

    def _tell(self) -> None:
        news, self._news = self._news, set()
        for supervisor in sorted(news):
            self.hears.assigned(supervisor)

    def _do_rebalance(self, entry: Entry) -> None:
        if entry.status != REBALANCING:
            return
        if not self.up:  # it goes on with that when it is back
            return
        if entry.rebalance is not None:
            entry.topology = replace(entry.topology, num_workers=entry.rebalance)
        entry.status, entry.assignment = entry.before, None
        self.changes += 1
        self._clock.after(self._delay(STATUS), lambda: self.hears.status(entry.topology.id))
        self._schedule()

    def _back(self) -> None:
        self.up = True
        for entry in list(self.entries.values()):
            if entry.status == REBALANCING:
                self._do_rebalance(entry)
            elif entry.status == KILLED:
                self._remove(entry)
        self._schedule()

    def _remove(self, entry: Entry) -> None:
        if self.up and entry.topology.id in self.entries:
            del self.entries[entry.topology.id]
            self.changes += 1
            self.hears.gone(entry.topology.id)

    def _switch(self, name: str, status: str) -> None:
        verb = "activate" if status == ACTIVE else "deactivate"
        entry = self._entry(verb, name)
        if entry.status not in (ACTIVE, INACTIVE):
            raise _refused(verb, f"No transition for event: {verb.upper()}, status: {entry.status}")
        entry.status = status
        self._clock.after(self._delay(STATUS), lambda: self.hears.status(entry.topology.id))

    def _push(self, supervisor: str) -> None:
        self._clock.after(self._delay(PUSH), lambda: self.hears.assigned(supervisor))

    def _entry(self, verb: str, name: str) -> Entry:
        self._require_up(verb)
        for entry in self.entries.values():
            if entry.topology.name == name:
                return entry
        raise NimbusError(f"Nimbus refused {verb}: {name} is not alive ({NOT_ALIVE})", NOT_ALIVE)

    def _require_up(self, verb: str) -> None:
        if not self.up:
            raise NimbusError(f"{verb}: no answer from Nimbus")

    def _alive_nodes(self) -> tuple[Supervisor, ...]:
        if not self._dead:
            return self._cluster.supervisors
        return tuple(node for node in self._cluster.supervisors if node.id not in self._dead)

    def _used(self) -> set[WorkerSlot]:
        return {slot for entry in self.entries.values() if entry.assignment for slot in entry.assignment.slots}

    def _summary(self, entry: Entry) -> dict[str, Any]:
        return {
            "id": entry.topology.id,
            "name": entry.topology.name,
            "status": entry.status,
            "uptime_s": round(self._clock.monotonic() - entry.since_s),
            "num_workers": len(entry.assignment.slots) if entry.assignment else 0,
            "num_executors": entry.topology.num_executors if entry.assignment else 0,
            "sched_status": entry.told,
            "owner": "virtual",
        }


def _refused(verb: str, why: str) -> NimbusError:
    return NimbusError(f"Nimbus refused {verb}: {why} (RuntimeException)", "RuntimeException")
