"""Observation of a running chaos test: acks of ledgers, moments of a move, and texts of the status."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from stormwright.client import Client
from stormwright.controller.move import REBALANCING
from stormwright.errors import NimbusError, StormwrightError
from stormwright.plans.plan import Plan
from stormwright.plans.states import ACTIVE_STATES, HALTED_STATES
from stormwright_lab.chaos.faults import InjectedFault, MoveParts
from stormwright_lab.chaos.invariants import FaultNaming, WorkerPlace
from stormwright_lab.chaos.ledger_files import LedgerKind, read_counts, read_journals
from stormwright_lab.chaos.scenarios import NODES, SUPERVISORS, WORKERS, FaultKind, FaultTarget, Moment, PlannedFault

#: Status of a topology while it is paused.
_INACTIVE = "INACTIVE"

_ORDER = tuple(Moment)

#: Text of a status that cannot be had: as ``stormwright status`` prints it.
UNREACHABLE = "no service answers"


def acks(directory: Path, kind: LedgerKind) -> dict[int, int]:
    """Return the numbers acked so far by spout task; of a batch ledger, those counted by key."""
    if kind is LedgerKind.BATCH:
        return {key: sum(each.tuples for each in counts) for key, counts in read_counts(directory).items()}
    found: dict[int, int] = {}
    for journal in read_journals(directory):
        found[journal.task] = found.get(journal.task, 0) + int(journal.acked.sum())
    return found


class AckWatch:
    """Whether acks flow for every spout task of some ledgers.

    Parameters
    ----------
    ledgers
        Directory and kind of each ledger.
    """

    def __init__(self, ledgers: Mapping[Path, LedgerKind]) -> None:
        self._ledgers = ledgers
        self._since: dict[tuple[Path, int], int] | None = None

    def restart(self) -> None:
        """Count from now on."""
        self._since = None

    def flow(self) -> bool:
        """Return whether every task has acks since the restart."""
        now = {(path, task): n for path, kind in self._ledgers.items() for task, n in acks(path, kind).items()}
        if self._since is None:
            self._since = now
            return False
        return bool(now) and all(number > self._since.get(task, 0) for task, number in now.items())


class Statuses(Protocol):
    """The call to Nimbus that moments need."""

    def cluster(self) -> Mapping[str, Any]: ...


class MomentWatch:
    """Moment of a move, from the statuses of its topologies and from its old worker.

    Parameters
    ----------
    nimbus
        Returns the cluster with the status of each topology.
    topologies
        Ids of the topologies that move.
    old_worker_runs
        Returns whether the worker that moves still runs where it was.
    """

    def __init__(self, nimbus: Statuses, topologies: Collection[str], old_worker_runs: Callable[[], bool]) -> None:
        self._nimbus, self._topologies, self._old_worker_runs = nimbus, topologies, old_worker_runs
        self._moment = Moment.BEFORE

    def reached(self, moment: Moment, plan: Plan | None) -> bool:
        """Return whether a moment is reached or over.

        Parameters
        ----------
        moment
            Moment of the move to compare the current state with.
        plan
            Current state of the plan, for the moments after the move.
        """
        if plan is not None and plan.state not in ("planning", "planned", "applying", "rolling_back"):
            self._moment = Moment.EVALUATING
        elif moment is not Moment.EVALUATING:
            with suppress(NimbusError):
                self._update({t["status"] for t in self._nimbus.cluster()["topologies"] if t["id"] in self._topologies})
        return _ORDER.index(self._moment) >= _ORDER.index(moment)

    def _update(self, statuses: set[str]) -> None:
        if REBALANCING in statuses:
            self._moment = max(self._moment, Moment.ORDERED, key=_ORDER.index)
        elif _INACTIVE in statuses:
            at_least = Moment.PAUSED if self._old_worker_runs() else Moment.SWAPPING
            self._moment = max(self._moment, at_least, key=_ORDER.index)
        elif statuses and self._moment is not Moment.BEFORE:
            self._moment = Moment.RESUMING


class StatusText(NamedTuple):
    """A text of the status, and when it was read (`time.monotonic`)."""

    at_s: float
    text: str


def status_texts(client: Client) -> list[str]:
    """Return all that the status reports: findings, the decision, topologies that wait, and plans with reasons."""
    try:
        found = client.overview()
        plans = client.plans([*ACTIVE_STATES, *HALTED_STATES]).plans
    except StormwrightError as error:
        return [f"{UNREACHABLE}: {error}"]
    findings = [each.text for each in found.findings if each.level != "note"]
    return [*findings, found.decision, *found.waits, *(each.why for each in plans)]


class StatusWatch:
    """Reads the status in a thread of its own; a context manager.

    Parameters
    ----------
    read
        Returns all texts of the status.
    every_s
        Seconds between two readings.
    """

    def __init__(self, read: Callable[[], Sequence[str]], every_s: float = 0.5) -> None:
        self._read, self._every_s = read, every_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="chaos-status", daemon=True)
        self.texts: list[StatusText] = []

    def __enter__(self) -> StatusWatch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(30)

    def _run(self) -> None:
        known: set[str] = set()
        while not self._stop.wait(self._every_s):
            texts = {text for text in self._read() if text}
            now_s = time.monotonic()
            self.texts += [StatusText(now_s, text) for text in texts - known]
            known = texts

    def naming(self, injected: InjectedFault, parts: MoveParts, addresses: Mapping[str, str]) -> FaultNaming:
        """Return whether a fault was named since its begin.

        Parameters
        ----------
        injected
            Fault in force or undone; texts of the status since its begin count.
        parts
            Nodes and workers of the move.
        addresses
            Address of each node, which names it, too.
        """
        words = () if injected.without_effect else words_of(injected.fault, parts, addresses)
        for at_s, text in self.texts:
            if at_s >= injected.since_s and any(word.lower() in text.lower() for word in words):
                return FaultNaming(
                    str(injected.fault), injected.in_force_s, words, round(at_s - injected.since_s, 1), text
                )
        return FaultNaming(str(injected.fault), injected.in_force_s, words)


def words_of(fault: PlannedFault, parts: MoveParts, addresses: Mapping[str, str]) -> tuple[str, ...]:
    """Return words of which a text has one that names a fault; empty if nothing has to be named.

    Parameters
    ----------
    fault, parts, addresses
        Planned fault, nodes and workers of the move, and address of each node.
    """
    by_kind = {
        FaultKind.FILL_DISK: ("disk", "space"),
        FaultKind.SET_CLOCK: ("clock",),
        FaultKind.DAMAGE: (UNREACHABLE,),
    }
    by_target: dict[FaultTarget, tuple[str, ...]] = {
        FaultTarget.NIMBUS: ("nimbus",),
        FaultTarget.ZOOKEEPER: ("nimbus", "zookeeper"),
        FaultTarget.GATEWAY: ("nimbus", "gateway"),
        FaultTarget.SPARK: ("spark", UNREACHABLE),
        FaultTarget.STANDBY: (),
    }
    if fault.kind in by_kind:
        return by_kind[fault.kind]
    if fault.target is FaultTarget.SERVICE:
        own_process = fault.kind in (FaultKind.KILL, FaultKind.STOP, FaultKind.RESTART)
        return (UNREACHABLE,) if own_process else ("this service", UNREACHABLE)
    if fault.target in NODES or fault.target in SUPERVISORS:
        target, source = (
            (FaultTarget.TARGET_NODE, FaultTarget.TARGET_SUPERVISOR),
            (FaultTarget.SOURCE_NODE, FaultTarget.SOURCE_SUPERVISOR),
        )
        node = parts.target if fault.target in target else parts.source if fault.target in source else parts.other
        of = "supervisor of " if fault.target in SUPERVISORS else ""
        return (of + node, of + addresses.get(node, node))
    if fault.target in WORKERS:
        moves = fault.target is FaultTarget.MOVING_WORKER
        places = (parts.moving, parts.arriving) if moves else (parts.unchanged,)
        return tuple(word for place in places if place for word in _worker_words(place, addresses))
    return by_target.get(fault.target, ())


def _worker_words(place: WorkerPlace, addresses: Mapping[str, str]) -> Iterator[str]:
    """Yield texts that name a worker, or all workers of its node."""
    for node in (place.node, addresses.get(place.node, place.node)):
        yield f"worker {_name(place)} on {node}:{place.port}"
        yield f"no worker of {node}"


def _name(place: WorkerPlace) -> str:
    """Return the name of a topology, by its id (``name-number-seconds``)."""
    return place.topology.rsplit("-", 2)[0]
