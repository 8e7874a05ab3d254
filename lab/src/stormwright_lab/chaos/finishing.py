"""The end of ledgers on a cluster: all that was emitted is acked, topologies are drained, and the oracle checks."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from stormwright.errors import NimbusError
from stormwright_lab.chaos.lab import until
from stormwright_lab.chaos.ledger import Ledger, LedgerViolation, ViolationKind, read_ledger
from stormwright_lab.chaos.ledger_files import LedgerKind
from stormwright_lab.chaos.ledger_workload import LedgerWorkload

log = logging.getLogger(__name__)

#: Longest wait in seconds until all is acked, and again until topologies are drained.
_DRAIN_S = 60.0

#: How often they are drained again: numbers that fail meanwhile are emitted again only once they are active.
_AGAIN = 2


class Activation(Protocol):
    """Activates and pauses topologies."""

    def activate(self, name: str) -> object: ...

    def deactivate(self, name: str) -> object: ...


def finish_ledgers(
    nimbus: Activation, workloads: Sequence[LedgerWorkload], limit_s: float = _DRAIN_S
) -> list[tuple[Ledger, list[LedgerViolation]]]:
    """Drain ledgers, and return the last state of each with the violations that the oracle finds.

    First, all numbers emitted so far are to be acked: an inactive spout does not emit numbers again that have failed.
    So ledgers that do not drain are activated again, twice at most.

    Parameters
    ----------
    nimbus
        Pauses their topologies, which stay paused.
    workloads
        Ledgers to drain and to check, each with its own topology.
    limit_s
        Longest wait of each of the two steps, in seconds.
    """
    found = _finished(nimbus, workloads, limit_s)
    for _ in range(_AGAIN):
        if not any(each.kind is ViolationKind.UNFINISHED for _, violations in found for each in violations):
            break
        log.info("a ledger was not drained after %g s, and is activated again", limit_s)
        for each in workloads:
            with suppress(NimbusError):
                nimbus.activate(each.name)
        found = _finished(nimbus, workloads, limit_s)
    return found


def _finished(
    nimbus: Activation, workloads: Sequence[LedgerWorkload], limit_s: float
) -> list[tuple[Ledger, list[LedgerViolation]]]:
    emitted = {each.directory: _emitted(read_ledger(each.directory)) for each in workloads}
    for directory, numbers in emitted.items():
        until(lambda d=directory, n=numbers: _has_acked(d, n), limit_s, 1.0)  # type: ignore[misc]
    for each in workloads:
        with suppress(NimbusError):
            nimbus.deactivate(each.name)
    found = []
    for each in workloads:
        drains = _drains(read_ledger(each.directory))
        if drains:
            until(lambda each=each: _is_drained(each.directory), limit_s, 1.0)  # type: ignore[misc]
        ledger = read_ledger(each.directory)
        violations = ledger.violations(drained=drains)
        if not drains:
            violations += _unacked(ledger, emitted[each.directory])
        found.append((ledger, violations))
    return found


def _drains(ledger: Ledger) -> bool:
    """Return whether a ledger drains while it is inactive.

    Storm's checkpoint spout is inactive together with the topology: acks would wait for it. And windows of a number of
    tuples end with new ones only.
    """
    return ledger.facts.kind is not LedgerKind.CHECKPOINT and ledger.facts.unit != "tuples"


def _emitted(ledger: Ledger) -> dict[int, int]:
    """Return spout task → numbers emitted; of a batch ledger -1 → those of all together."""
    return {spout.task: spout.emitted for spout in ledger.spouts} or {-1: ledger.emitted}


def _has_acked(directory: Path, numbers: Mapping[int, int]) -> bool:
    """Return whether all tasks have acked as many numbers, without a gap."""
    ledger = read_ledger(directory)
    acked = {spout.task: spout.low for spout in ledger.spouts} | {-1: ledger.acked}
    return all(acked.get(task, 0) >= number for task, number in numbers.items())


def _is_drained(directory: Path) -> bool:
    ledger = read_ledger(directory)
    return ledger.emitted > 0 and not ledger.violations(drained=True)


def _unacked(ledger: Ledger, numbers: Mapping[int, int]) -> list[LedgerViolation]:
    """Return tasks that have not acked as many numbers."""
    missing = {spout.task: int((~spout.acked[: numbers.get(spout.task, 0)]).sum()) for spout in ledger.spouts}
    return [
        LedgerViolation(ViolationKind.UNFINISHED, f"spout task {task}", count)
        for task, count in missing.items()
        if count
    ]
