"""How warm workers are: JVMs compile for minutes, so stretches count beside each other only at the same warmth."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from stormwright.controller.tally import Tally
from stormwright.experiments.demo.measure import compiler_share
from stormwright.model import WorkerSlot
from stormwright.perflog.records import LogRecord

#: A worker between two starts: topology, supervisor, port and process.
_Worker = tuple[str, str, int, int]

#: What the compilers took lately is looked at over so many seconds.
LATELY_S = 10.0

#: Compilers come and go: by so much of the workers' CPU they may take more than before.
TOLERANCE = 0.03


def ran_s(records: Iterable[LogRecord], slots: Mapping[str, Sequence[WorkerSlot]], now_ms: float) -> float:
    """How long the youngest worker has run, in seconds: since its first record, before which it starts.

    Parameters
    ----------
    records
        In the order in which they arrived.
    slots
        Topology id → where its workers are. One that has not reported yet has run for 0 s.
    now_ms
        The moment, in ms since 1970.
    """
    since: dict[_Worker, float] = {}
    newest: dict[tuple[str, str, int], _Worker] = {}
    for record in records:
        of = record["worker"]
        worker = of["topology"], of["supervisor"], of["port"], of["pid"]
        since.setdefault(worker, record["start_ms"])
        newest[worker[:3]] = worker
    workers = [(topology, slot.supervisor, slot.port) for topology, used in slots.items() for slot in used]
    return min(((now_ms - since[newest[at]]) / 1000 if at in newest else 0.0 for at in workers), default=0.0)


def wait_until_as_warm(
    tally: Tally, slots: Mapping[str, Sequence[WorkerSlot]], wanted_s: float, share: float | None, longest_s: float
) -> None:
    """Return when every worker has run for as long, and compilers take no more of their CPU, as was the case before.

    Parameters
    ----------
    tally
        Hears all records; it has the clock of the cluster.
    slots
        Topology id → where its workers are.
    wanted_s
        How long each is to have run.
    share
        What compilers may take; None for any.
    longest_s
        Seconds after which that is no longer waited for.
    """
    clock = tally.clock
    deadline = clock.monotonic() + wanted_s + longest_s
    while clock.monotonic() < deadline:
        now_ms, records = clock.time() * 1000, tally.records()
        left_s = wanted_s - ran_s(records, slots, now_ms)
        if left_s <= 0:
            break
        clock.sleep(min(left_s, 1.0))
    deadline = clock.monotonic() + longest_s
    while share is not None and clock.monotonic() < deadline:
        now_ms = clock.time() * 1000
        lately = compiler_share(r for r in tally.records() if r["start_ms"] >= now_ms - LATELY_S * 1000)
        if lately is None or lately <= share + TOLERANCE:
            return
        clock.sleep(1.0)
