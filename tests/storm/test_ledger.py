"""The ledger workload on the session's cluster."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from stormwright_lab.chaos.ledger import Ledger, read_ledger
from stormwright_lab.chaos.ledger_files import LedgerKind
from stormwright_lab.chaos.ledger_workload import LedgerWorkload

from stormwright.storm.local_cluster import RunningCluster

pytestmark = [pytest.mark.storm, pytest.mark.timeout(300), pytest.mark.slow]

Eventually = Callable[[Callable[[], bool], str], None]

#: Numbers of each of two spout tasks, and their rate together: some 15 s.
NUMBERS, RATE_TPS = 7500, 1000.0


@contextmanager
def running(cluster: RunningCluster, workload: LedgerWorkload, conf: dict[str, object]) -> Iterator[str]:
    """Run a workload, and yield the id of its topology."""
    workload.submit(cluster, conf)
    with cluster.gateway() as gateway:
        try:
            topologies = gateway.cluster()["topologies"]
            (found,) = [topology for topology in topologies if topology["name"] == workload.name]
            yield found["id"]
        finally:
            gateway.kill(workload.name, 0)


def workers(topology_id: str) -> list[int]:
    """Return the processes of a topology's workers."""
    found = []
    for process in Path("/proc").iterdir():
        with suppress(OSError):  # it has ended
            arguments = (process / "cmdline").read_bytes().split(b"\0") if process.name.isdigit() else []
            if b"org.apache.storm.daemon.worker.Worker" in arguments and topology_id.encode() in arguments:
                found.append(int(process.name))
    return sorted(found)


def progress(directory: Path) -> int:
    return read_ledger(directory).acked


def assert_complete(ledger: Ledger) -> None:
    assert ledger.violations(drained=True) == []
    assert ledger.emitted == 2 * NUMBERS
    assert ledger.surplus <= ledger.replays


def test_no_number_is_lost_or_duplicated(storm_cluster, eventually, tmp_path):
    workload = LedgerWorkload(tmp_path, name="ledger-drain", rate_tps=RATE_TPS, workers=2, options={"numbers": NUMBERS})
    with running(storm_cluster, workload, {}):
        eventually(lambda: progress(tmp_path) == 2 * NUMBERS, "all numbers are acked")
    assert_complete(read_ledger(tmp_path))


@pytest.mark.slow
@pytest.mark.parametrize("kind", LedgerKind)
def test_no_number_is_lost_when_workers_are_killed(storm_cluster, eventually: Eventually, tmp_path, kind: LedgerKind):
    """One worker is killed after a third of the numbers, the other one after two thirds."""
    workload = LedgerWorkload(tmp_path, kind, f"ledger-{kind.value}", RATE_TPS, 2, {"numbers": NUMBERS})
    with running(storm_cluster, workload, {"topology.message.timeout.secs": 5}) as topology:
        eventually(lambda: progress(tmp_path) > NUMBERS * 2 / 3, "a third is acked")
        first, second = workers(topology)
        os.kill(first, signal.SIGKILL)
        eventually(lambda: progress(tmp_path) > NUMBERS * 4 / 3, "two thirds are acked")
        assert read_ledger(tmp_path).violations() == []
        os.kill(second, signal.SIGKILL)
        eventually(lambda: progress(tmp_path) == 2 * NUMBERS, "all numbers are acked")
    ledger = read_ledger(tmp_path)
    assert_complete(ledger)
    if kind is not LedgerKind.BATCH:
        assert sum(spout.runs for spout in ledger.spouts) > 2
