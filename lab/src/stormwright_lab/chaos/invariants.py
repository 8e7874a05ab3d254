"""Invariants of a chaos run: pure checks of an observation of the cluster after it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple, Self

from stormwright.controller.move import ACTIVE
from stormwright.plans.states import ACTIVE_STATES, HALTED_STATES
from stormwright_lab.chaos.ledger import LedgerViolation, ViolationKind

#: Seconds within which the status has to name a fault.
NAMED_WITHIN_S = 10.0


class Invariant(StrEnum):
    """A statement that holds after every run."""

    #: Every number is delivered at least once, and the surplus is that of counted replays.
    NUMBERS = "numbers"
    #: No tuple tree loses a tuple in a move, unless a worker is killed: stricter than `NUMBERS`, as Storm replays it.
    TREES = "trees"
    #: The keyed state is that of the oracle.
    STATE = "state"
    #: No topology is paused.
    PAUSED = "paused"
    #: Each executor runs once, where Nimbus has assigned it.
    EXECUTORS = "executors"
    #: Nimbus answers.
    NIMBUS = "nimbus"
    #: No plan is in progress, or waits for a person.
    JOURNAL = "journal"
    #: No process, namespace or mount is left.
    LEFTOVERS = "leftovers"
    #: The status has named the fault in time.
    NAMED = "named"
    #: Acks flow again with nothing paused.
    RECOVERY = "recovery"
    #: A finished plan has led where it was to lead.
    PLACEMENT = "placement"
    #: All workers of a topology run with its configuration, which is that of a finished plan, or of before a revert.
    CONFIGURATION = "configuration"
    #: Nothing has failed in an unforeseen way.
    ERROR = "error"


class InvariantViolation(NamedTuple):
    """An invariant that does not hold, with the details."""

    invariant: Invariant
    text: str

    @classmethod
    def from_dict(cls, raw: Mapping[str, str]) -> Self:
        """Return the violation of a JSON object."""
        return cls(Invariant(raw["invariant"]), raw["text"])

    def to_dict(self) -> dict[str, str]:
        """Return the violation as JSON."""
        return {"invariant": self.invariant.value, "text": self.text}


class WorkerPlace(NamedTuple):
    """Worker of a topology (by id) on a node, at a port."""

    topology: str
    node: str
    port: int


@dataclass(frozen=True)
class FaultNaming:
    """Whether the status has named a fault.

    Parameters
    ----------
    fault
        Description of the fault.
    in_force_s
        Seconds for which it was in force.
    words
        Words of which one names it; empty if nothing has to.
    named_s
        Seconds from its begin until a text had one of them; None if none had.
    text
        First text of the status that names the fault; empty if none does.
    """

    fault: str
    in_force_s: float
    words: tuple[str, ...]
    named_s: float | None = None
    text: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the naming as JSON."""
        return asdict(self)


@dataclass(frozen=True)
class RunObservation:
    """State of the cluster after a run.

    Parameters
    ----------
    ledger
        Violations that the oracle has found in the ledgers.
    statuses
        Name of each topology → its status by Nimbus; empty if Nimbus did not answer.
    assigned, running
        Workers that Nimbus has assigned, and worker processes.
    unplaced
        Name of each topology → number of executors without a slot.
    nimbus_error
        Why Nimbus did not answer; empty if it did.
    plans
        State of every plan of the run by id.
    leftovers
        Processes, namespaces and mounts that should have ended.
    namings
        Whether each fault was named.
    recovered
        Whether acks flow again with nothing paused; `waited_for` is the reason if not.
    """

    ledger: Sequence[LedgerViolation] = ()
    statuses: Mapping[str, str] = field(default_factory=dict)
    assigned: Sequence[WorkerPlace] = ()
    running: Sequence[WorkerPlace] = ()
    unplaced: Mapping[str, int] = field(default_factory=dict)
    nimbus_error: str = ""
    plans: Mapping[str, str] = field(default_factory=dict)
    leftovers: Sequence[str] = ()
    namings: Sequence[FaultNaming] = ()
    recovered: bool = True
    waited_for: str = ""


#: Rules of the ledger about keyed state; the others are about numbers.
_OF_STATE = {ViolationKind.STATE_LOST, ViolationKind.STATE_COUNT, ViolationKind.BATCH_COUNT}


def violations(observed: RunObservation) -> list[InvariantViolation]:
    """Return all invariants that do not hold."""
    return [
        *violations_of_ledger(observed.ledger),
        *_of_topologies(observed),
        *_of_executors(observed),
        *_of_service(observed),
        *(InvariantViolation(Invariant.LEFTOVERS, each) for each in observed.leftovers),
        *_of_namings(observed.namings),
    ]


def violations_of_ledger(found: Sequence[LedgerViolation]) -> Iterator[InvariantViolation]:
    """Yield the invariants that a ledger's violations contradict."""
    for each in found:
        yield InvariantViolation(Invariant.STATE if each.kind in _OF_STATE else Invariant.NUMBERS, str(each))


def _of_topologies(observed: RunObservation) -> Iterator[InvariantViolation]:
    for topology, status in sorted(observed.statuses.items()):
        if status != ACTIVE:
            yield InvariantViolation(Invariant.PAUSED, f"{topology} is {status}")
    if not observed.recovered:
        yield InvariantViolation(Invariant.RECOVERY, observed.waited_for or "acks do not flow again")


def _of_executors(observed: RunObservation) -> Iterator[InvariantViolation]:
    for topology, count in sorted(observed.unplaced.items()):
        if count:
            yield InvariantViolation(Invariant.EXECUTORS, f"{count} executors of {topology} have no slot")
    if observed.nimbus_error:  # what should run is unknown
        return
    assigned, running = Counter(observed.assigned), Counter(observed.running)
    for place, number in sorted((assigned - running).items()):
        yield InvariantViolation(Invariant.EXECUTORS, f"{number} worker missing: {_text(place)}")
    for place, number in sorted((running - assigned).items()):
        yield InvariantViolation(Invariant.EXECUTORS, f"{number} worker too many: {_text(place)}")


def _text(place: WorkerPlace) -> str:
    return f"{place.topology} on {place.node}:{place.port}"


def _of_service(observed: RunObservation) -> Iterator[InvariantViolation]:
    if observed.nimbus_error:
        yield InvariantViolation(Invariant.NIMBUS, observed.nimbus_error)
    for plan, state in observed.plans.items():
        if state in (*ACTIVE_STATES, *HALTED_STATES, "planning"):
            yield InvariantViolation(Invariant.JOURNAL, f"plan {plan} is {state}")


def _of_namings(namings: Sequence[FaultNaming]) -> Iterator[InvariantViolation]:
    """Yield faults that were in force for longer than the status may take, and are not in it."""
    for each in namings:
        if not each.words or each.in_force_s < NAMED_WITHIN_S:
            continue
        if each.named_s is None:
            yield InvariantViolation(Invariant.NAMED, f"{each.fault}: the status has not named it")
        elif each.named_s > NAMED_WITHIN_S:
            yield InvariantViolation(
                Invariant.NAMED, f"{each.fault}: the status has named it after {each.named_s:.0f} s"
            )
