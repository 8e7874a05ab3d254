"""Virtual Nimbus with the behaviour of the real one as far as stormwright uses it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from stormwright.errors import NimbusError
from stormwright.formats import problem_to_dict
from stormwright.model import Problem, Supervisor, Topology, TopologyAssignment, WorkerSlot
from stormwright.model.assignment import UNPLACED
from stormwright.model.topology_config import SUBMITTED_WORKERS
from stormwright.simulator.cluster.clock import VirtualClock
from stormwright.simulator.cluster.timings import PUSH, REBALANCE, STATUS, Delay, Timings

#: Storm's names of a topology's status.
ACTIVE, INACTIVE, REBALANCING, KILLED = "ACTIVE", "INACTIVE", "REBALANCING", "KILLED"

#: Storm's exceptions.
NOT_ALIVE, ALIVE, INVALID = "NotAliveException", "AlreadyAliveException", "InvalidTopologyException"

#: The gateway's exception, and the seconds after a restart in which Nimbus answers without knowing topologies by name.
NOT_READY, NAMES_S = "NotReadyException", 1.0


class Answer(Protocol):
    """Answer of a scheduler: topology id → assignment, and its status for Storm's UI."""

    @property
    def assignments(self) -> Mapping[str, TopologyAssignment]: ...

    @property
    def status(self) -> Mapping[str, str]: ...


#: Cluster state → answer. It raises ConnectionError if the scheduler does not respond.
Ask = Callable[[Problem], Answer]


@dataclass
class StoredTopology:
    """State of a topology in ZooKeeper, which survives failures of Nimbus.

    Parameters
    ----------
    topology
        Topology with its latest number of workers.
    since_s
        Monotonic virtual time of the submission, in seconds.
    status, before
        Status, and status before the rebalance.
    assignment
        Assignment; None for none.
    status_text
        Status text of its scheduler.
    rebalance
        New number of workers in the current rebalance; None for no change.
    conf
        New values by key of the configuration in the current rebalance.
    version
        How often the configuration has changed.
    """

    topology: Topology
    since_s: float
    status: str = ACTIVE
    before: str = ACTIVE
    assignment: TopologyAssignment | None = None
    status_text: str = ""
    rebalance: int | None = None
    conf: Mapping[str, Any] = field(default_factory=dict)
    version: int = 0


class NimbusListener(Protocol):
    """Receiver of Nimbus's decisions."""

    def assigned(self, supervisor: str) -> None: ...

    def status(self, topology: str) -> None: ...

    def gone(self, topology: str) -> None: ...

    def configured(self, topology: str) -> None: ...


class VirtualNimbus:
    """Nimbus with its state in ZooKeeper.

    Parameters
    ----------
    clock
        Virtual clock on which operations and delays are scheduled.
    cluster
        Supervisors and the receiver of decisions.
    ask, fallback
        Scheduler, and its fallback, such as Storm's own, if it does not answer.
    timings, delay
        Durations of operations, and the function that draws them.

    Attributes
    ----------
    changes
        Number of changes of assignments.
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
        # Topologies are measured.
        self._cluster = replace(cluster, topologies=(), current={}, load=None, measured=None)
        self.ask, self._fallback = ask, fallback
        self.entries: dict[str, StoredTopology] = {}
        self.listener: NimbusListener
        self.up, self._names_read, self.changes = True, True, 0
        self._soon, self._dead, self._news = False, set[str](), set[str]()
        self._shown: Problem | None = None
        clock.every(timings.monitor_s, self.look)

    def cluster(self) -> dict[str, Any]:
        """Return supervisors and topologies."""
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
        """Return the cluster as a document without load."""
        self._require_up("problem")
        return problem_to_dict(self.snapshot())

    def activate(self, name: str) -> None:
        """Activate the spouts of a topology."""
        self._switch(name, ACTIVE)

    def deactivate(self, name: str) -> None:
        """Deactivate the spouts of a topology."""
        self._switch(name, INACTIVE)

    def configuration(self, topology_id: str) -> str:
        """Return the version of a topology's configuration, as workers that run with it report it."""
        self._require_up("configuration")
        return str(self.entries[topology_id].version)

    def rebalance(
        self,
        name: str,
        wait_s: int,
        num_workers: int | None = None,
        executors: Mapping[str, int] | None = None,
        conf: Mapping[str, Any] | None = None,
    ) -> None:
        """Drop a topology's assignment and reschedule it.

        Parameters
        ----------
        name, wait_s
            Name of the topology, and seconds until then.
        num_workers, executors
            Its new number of workers, and of executors by component (id), which a virtual topology cannot change; None
            for no change.
        conf
            New values by key of its configuration, which change nothing but what its workers report.

        Raises
        ------
        NimbusError
            The topology is being rebalanced or killed, or executors are given.
        """
        if executors:
            raise _refused("rebalance", "a virtual topology has the executors that it began with")
        entry = self._entry("rebalance", name)
        if entry.status not in (ACTIVE, INACTIVE):
            raise _refused("rebalance", f"{name} is {entry.status}")
        entry.before, entry.status, entry.rebalance = entry.status, REBALANCING, num_workers
        entry.conf = conf or {}
        self._clock.after(self._delay(STATUS), lambda: self.listener.status(entry.topology.id))
        self._clock.after(wait_s + self._delay(REBALANCE), lambda: self._do_rebalance(entry))

    def release(self, topology_id: str, supervisor: Supervisor) -> bool:
        """Report that a topology left a supervisor; False as long as it has not."""
        self._require_up("release")
        entry = self.entries.get(topology_id)
        slots = entry.assignment.slots if entry and entry.assignment else ()
        if any(slot.supervisor == supervisor.id for slot in slots):
            return False
        self._push(supervisor.id)
        return True

    def kill(self, name: str, wait_s: int) -> None:
        """Kill a topology after a delay."""
        entry = self._entry("kill", name)
        entry.status = KILLED
        self._clock.after(self._delay(STATUS), lambda: self.listener.status(entry.topology.id))
        self._clock.after(wait_s + self._delay(REBALANCE), lambda: self._remove(entry))

    def submit(self, topology: Topology, placed: TopologyAssignment | None = None) -> None:
        """Submit a topology; it is scheduled at once, unless it is already placed.

        Raises
        ------
        NimbusError
            The name is in use.
        """
        self._require_up("submit")
        if any(each.topology.name == topology.name for each in self.entries.values()):
            raise NimbusError(f"Nimbus refused submit: {topology.name} already exists on cluster ({ALIVE})", ALIVE)
        topology = replace(topology, conf={SUBMITTED_WORKERS: topology.num_workers, **topology.conf})
        self.entries[topology.id] = StoredTopology(topology, self._clock.monotonic(), assignment=placed)
        self.changes += 1
        if placed is not None and not self._news:  # one notification for all changes at this instant
            self._clock.after(0.0, self._notify)
        self._news |= {slot.supervisor for slot in placed.slots} if placed else set()
        if placed is None and not self._soon:
            self._soon = True
            self._clock.after(self._delay(REBALANCE), self.look)

    def die(self, seconds: float) -> None:
        """Fail, and return after some seconds; ZooKeeper's state survives."""
        self.up = self._names_read = False
        self._clock.after(seconds, self._back)

    def lose(self, supervisor: str) -> None:
        """Record that a supervisor has timed out."""
        self._dead.add(supervisor)

    def find(self, supervisor: str) -> None:
        """Record that a supervisor is back."""
        self._dead.discard(supervisor)

    def snapshot(self) -> Problem:
        """Return the cluster as passed to a scheduler."""
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

    def look(self) -> None:
        """Run the scheduler, as it does periodically."""
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
                self.entries[topology].status_text = text
        for topology, placed in answer.assignments.items():
            entry = self.entries.get(topology)
            if entry is None or UNPLACED in placed.slot_of_executor or entry.assignment == placed:
                continue
            entry.assignment = placed
            self.changes += 1
            touched |= {slot.supervisor for slot in placed.slots}
        for supervisor in sorted(touched):
            self._push(supervisor)

    def _notify(self) -> None:
        news, self._news = self._news, set()
        for supervisor in sorted(news):
            self.listener.assigned(supervisor)

    def _do_rebalance(self, entry: StoredTopology) -> None:
        if entry.status != REBALANCING:
            return
        if not self.up:  # continued after its return
            return
        if entry.rebalance is not None:
            entry.topology = replace(entry.topology, num_workers=entry.rebalance)
        if entry.conf:
            entry.topology = replace(entry.topology, conf={**entry.topology.conf, **entry.conf})
            entry.version, entry.conf = entry.version + 1, {}
            self.listener.configured(entry.topology.id)
        entry.status, entry.assignment = entry.before, None
        self.changes += 1
        self._clock.after(self._delay(STATUS), lambda: self.listener.status(entry.topology.id))
        self._schedule()

    def _back(self) -> None:
        self.up = True
        self._clock.after(NAMES_S, self._read_names)
        for entry in list(self.entries.values()):
            if entry.status == REBALANCING:
                self._do_rebalance(entry)
            elif entry.status == KILLED:
                self._remove(entry)
        self._schedule()

    def _remove(self, entry: StoredTopology) -> None:
        if self.up and entry.topology.id in self.entries:
            del self.entries[entry.topology.id]
            self.changes += 1
            self.listener.gone(entry.topology.id)

    def _switch(self, name: str, status: str) -> None:
        verb = "activate" if status == ACTIVE else "deactivate"
        entry = self._entry(verb, name)
        if entry.status not in (ACTIVE, INACTIVE):
            raise _refused(verb, f"No transition for event: {verb.upper()}, status: {entry.status}")
        entry.status = status
        self._clock.after(self._delay(STATUS), lambda: self.listener.status(entry.topology.id))

    def _push(self, supervisor: str) -> None:
        self._clock.after(self._delay(PUSH), lambda: self.listener.assigned(supervisor))

    def _read_names(self) -> None:
        self._names_read = self.up

    def _entry(self, verb: str, name: str) -> StoredTopology:
        self._require_up(verb)
        for entry in self.entries.values():
            if entry.topology.name == name:
                if not self._names_read:
                    why = f"it has just started, and does not know {name} yet"
                    raise NimbusError(f"Nimbus refused {verb}: {why} ({NOT_READY})", NOT_READY)
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

    def _summary(self, entry: StoredTopology) -> dict[str, Any]:
        return {
            "id": entry.topology.id,
            "name": entry.topology.name,
            "status": entry.status,
            "uptime_s": round(self._clock.monotonic() - entry.since_s),
            "num_workers": len(entry.assignment.slots) if entry.assignment else 0,
            "num_executors": entry.topology.num_executors if entry.assignment else 0,
            "sched_status": entry.status_text,
            "owner": "virtual",
        }


def _refused(verb: str, why: str) -> NimbusError:
    return NimbusError(f"Nimbus refused {verb}: {why} (RuntimeException)", "RuntimeException")
